/**
 * `tollgate keys create | list | revoke`. Works beside a running server, which takes a change within moments. A secret
 * is printed once, by `create`, alone on its line.
 */
import { toShortId } from '../domain/id.ts'
import { toIpRange } from '../domain/ip.ts'
import type { Key } from '../domain/snapshot.ts'
import { type BudgetStanding, NO_PAST, toStanding } from '../keys/budget.ts'
import { isPattern } from '../keys/rules.ts'
import { createKey, type KeyOptions, type ListedKey, listKeys, revokeKey } from '../keys/service.ts'
import { toSnapshot } from '../store/snapshot.ts'
import { createStandings, toBudgetFields, toBudgetWarning } from './budget.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'
import { findUnmatched } from './key-models.ts'
import { toKeyTable } from './key-table.ts'
import { ifGiven, toBudget, toCount, toExpiry, toName } from './values.ts'

/** The options of `keys create`, as they stand on the command line. */
export interface KeyFlags {
  name?: string
  model?: string[]
  allowIp?: string[]
  scope?: string
  team?: string
  rpm?: string
  tpm?: string
  concurrency?: string
  budget?: string
  expires?: string
}

export async function create(flags: KeyFlags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const options = toKeyOptions(flags, nowMs)
  const { key, secret, unmatched } = await withStore(io, {}, async (store) => ({
    ...(await createKey(store, options, { actor: 'cli', nowMs })),
    unmatched:
      options.models.length === 0 ? [] : findUnmatched(options, toSnapshot(await store.read(), io.environment)),
  }))
  // It is too new to have spent anything.
  const { id, name, ...rest } = toJson(key, toStanding(key.budget, NO_PAST, nowMs))
  if (io.json)
    return printJson(io, { id, name, key: secret, ...rest, unmatched: unmatched.map(({ pattern }) => pattern) })
  for (const { message } of unmatched) io.stderr(`warning: ${message}\n`)
  io.stderr(`Key ${toShortId(id)} (${toPrintable(name)}). Keep it now; it is not shown again:\n`)
  io.stdout(`${secret}\n`)
}

function toKeyOptions(flags: KeyFlags, nowMs: number): KeyOptions & Pick<Key, 'models' | 'scope'> {
  const name = toName(flags.name, 'say what the key is for, such as --name dev')
  const { scope = 'all', model: models = [], allowIp: allowedIps = [] } = flags
  if (scope !== 'all' && scope !== 'local') throw usageError(`--scope '${scope}' is unknown: write all or local.`)
  const bad = models.find((pattern) => !isPattern(pattern))
  if (bad !== undefined)
    throw usageError(`--model '${bad}' is no pattern: write a model such as openai/gpt-4o-mini or openai/*.`)
  for (const text of allowedIps) {
    const range = toIpRange(text)
    if ('problem' in range) throw usageError(`--allow-ip '${text}' ${range.problem}.`)
  }
  return {
    name,
    scope,
    models,
    allowedIps,
    ...(flags.team === undefined ? {} : { team: flags.team }),
    requestsPerMinute: ifGiven(flags.rpm, (text) => toCount('--rpm', text)),
    tokensPerMinute: ifGiven(flags.tpm, (text) => toCount('--tpm', text)),
    concurrency: ifGiven(flags.concurrency, (text) => toCount('--concurrency', text)),
    budget: ifGiven(flags.budget, toBudget),
    expiresMs: ifGiven(flags.expires, (text) => toExpiry(text, nowMs)),
  }
}

/** @param all also those that let nobody in any more. */
export async function list({ all = false }: { all?: boolean }, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const { shown, hidden } = await withStore(io, { readonly: true }, async (store, sqlite) => {
    const standingOf = await createStandings(sqlite, 'key', io)
    const keys = await listKeys(store, nowMs)
    const wanted = keys.filter(({ status }) => all || status === 'active')
    return { shown: wanted.map((key) => ({ key, standing: standingOf(key) })), hidden: keys.length - wanted.length }
  })
  if (io.json) return printJson(io, { keys: shown.map(({ key, standing }) => toJson(key, standing)) })
  if (shown.length > 0) io.stdout(toKeyTable(shown, nowMs))
  if (hidden > 0) io.stderr(`${hidden} revoked or expired; with --all they are listed, too.\n`)
  else if (shown.length === 0) io.stderr('There are no keys yet. Make one with: tollgate keys create --name NAME\n')
  for (const { key, standing } of shown)
    if (key.status === 'active') io.stderr(toBudgetWarning(`key ${toPrintable(key.name)}`, standing))
}

export async function revoke(id: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, {}, async (store, sqlite) => {
    const { key, alreadyRevoked } = await revokeKey(store, id, { actor: 'cli', nowMs })
    if (io.json) {
      const standingOf = await createStandings(sqlite, 'key', io)
      return printJson(io, { ...toJson(key, standingOf(key)), already_revoked: alreadyRevoked })
    }
    const what = `Key ${toShortId(key.id)} (${toPrintable(key.name)})`
    io.stdout(alreadyRevoked ? `${what} was revoked already.\n` : `${what} is revoked.\n`)
  })
}

/** A key under its columns' names. */
function toJson(key: ListedKey, standing: BudgetStanding | null) {
  const { limits } = key
  return {
    id: key.id,
    name: key.name,
    last_four: key.secrets.at(-1)?.lastFour ?? null,
    status: key.status,
    scope: key.scope,
    models: key.models,
    allowed_ips: key.allowedIps,
    team_id: key.teamId,
    team: key.team,
    rpm: limits.requestsPerMinute,
    tpm: limits.tokensPerMinute,
    concurrency: limits.concurrency,
    ...toBudgetFields(standing),
    metadata: key.metadata,
    created_ms: key.createdMs,
    expires_ms: key.expiresMs,
    revoked_ms: key.revokedMs,
  }
}
