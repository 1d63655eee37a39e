/**
 * `tollgate keys create | list | revoke`. Works beside a running server, which takes a change within moments. A secret
 * is printed once, by `create`, alone on its line.
 */
import type { Command } from 'commander'
import { type BudgetStanding, toStanding } from '../keys/budget.ts'
import { isPattern } from '../keys/rules.ts'
import type { ListedKey } from '../keys/service.ts'
import { createStandings, toBudgetCell, toBudgetFields, toBudgetWarning } from './budget.ts'
import { usageError } from './command-error.ts'
import { type Io, printJson, sharedOptions, toDataFolder, withStore } from './io.ts'
import { toPrintable, toTable, toTime } from './text.ts'
import { toBudget, toCount, toExpiry, toName } from './values.ts'

interface CreateOptions {
  name?: string
  model?: string[]
  scope?: string
  team?: string
  rpm?: string
  tpm?: string
  concurrency?: string
  budget?: string
  expires?: string
}

/** Adds the group to the program. */
export function addKeysCommands(program: Command, io: Io): void {
  const keys = program.command('keys').description('make, list and revoke keys')
  keys
    .command('create')
    .description('make a key and print it, once')
    .option('--name <name>', 'what the key is for (required)')
    .option('--model <pattern>', 'allow these models only, such as openai/* (may be repeated)', collect)
    .option('--scope <scope>', 'all, or local: local upstreams only')
    .option('--team <team>', 'name or id of a team, whose budget it shares')
    .option('--rpm <n>', 'requests per minute')
    .option('--tpm <n>', 'tokens per minute')
    .option('--concurrency <n>', 'requests at a time; one more is refused at once')
    .option('--budget <usd>', 'what it may cost: 20/month, 0.10/day, or 5 in total')
    .option('--expires <time>', 'such as 90d, 12h or 2027-01-31')
    .action((options: CreateOptions, command: Command) => create(options, command, io))
  keys
    .command('list')
    .description('list all keys, oldest first')
    .action((_options: unknown, command: Command) => list(command, io))
  keys
    .command('revoke')
    .description('stop a key for good')
    .argument('<id>', 'id of the key, or the last four characters of it')
    .action((id: string, _options: unknown, command: Command) => revoke(id, command, io))
}

const collect = (value: string, before: string[] = []) => [...before, value]

async function create(given: CreateOptions, command: Command, io: Io): Promise<void> {
  const nowMs = io.nowMs()
  const options = toKeyOptions(given, nowMs)
  const { createKey } = await import('../keys/service.ts')
  const { key, secret } = await withStore(command, io, {}, (store) =>
    createKey(store, options, { actor: 'cli', nowMs }),
  )
  // It is too new to have spent anything.
  const { id, name, ...rest } = toJson(
    key,
    toStanding(key.budget, () => 0, nowMs),
  )
  if (sharedOptions(command).json) return printJson(io, { id, name, key: secret, ...rest })
  io.stderr(`Key ${id} (${toPrintable(name)}). Keep it now; it is not shown again:\n`)
  io.stdout(`${secret}\n`)
}

function toKeyOptions(given: CreateOptions, nowMs: number) {
  const name = toName(given.name, 'say what the key is for, such as --name dev')
  const { scope = 'all' } = given
  if (scope !== 'all' && scope !== 'local') throw usageError(`--scope '${scope}' is unknown: write all or local.`)
  const bad = given.model?.find((pattern) => !isPattern(pattern))
  if (bad !== undefined)
    throw usageError(`--model '${bad}' is no pattern: write a model such as openai/gpt-4o-mini or openai/*.`)
  return {
    name,
    scope,
    models: given.model ?? [],
    ...(given.team === undefined ? {} : { team: given.team }),
    ...(given.rpm === undefined ? {} : { requestsPerMinute: toCount('--rpm', given.rpm) }),
    ...(given.tpm === undefined ? {} : { tokensPerMinute: toCount('--tpm', given.tpm) }),
    ...(given.concurrency === undefined ? {} : { concurrency: toCount('--concurrency', given.concurrency) }),
    ...(given.budget === undefined ? {} : { budget: toBudget(given.budget) }),
    ...(given.expires === undefined ? {} : { expiresMs: toExpiry(given.expires, nowMs) }),
  } as const
}

async function list(command: Command, io: Io): Promise<void> {
  const { listKeys } = await import('../keys/service.ts')
  const nowMs = io.nowMs()
  const all = await withStore(command, io, { readonly: true }, async (store, sqlite) => {
    const standingOf = await createStandings(sqlite, 'key', toDataFolder(command, io), io)
    return (await listKeys(store, nowMs)).map((key) => ({ key, standing: standingOf(key) }))
  })
  if (sharedOptions(command).json) return printJson(io, { keys: all.map(({ key, standing }) => toJson(key, standing)) })
  if (all.length === 0) return io.stderr('There are no keys yet. Make one with: tollgate keys create --name NAME\n')
  const headings = ['ID', 'NAME', 'KEY', 'TEAM', 'SCOPE', 'MODELS', 'LIMITS', 'BUDGET', 'EXPIRES', 'STATUS']
  const rows = all.map(({ key, standing }) => toCells(key, standing))
  io.stdout(toTable(...withoutEmpty(headings, rows)))
  for (const { key, standing } of all) {
    const warning = key.status === 'active' ? toBudgetWarning(`key ${toPrintable(key.name)}`, standing) : null
    if (warning) io.stderr(warning)
  }
}

async function revoke(id: string, command: Command, io: Io): Promise<void> {
  const { revokeKey } = await import('../keys/service.ts')
  const nowMs = io.nowMs()
  await withStore(command, io, {}, async (store, sqlite) => {
    const { key, alreadyRevoked } = await revokeKey(store, id, { actor: 'cli', nowMs })
    if (sharedOptions(command).json) {
      const standingOf = await createStandings(sqlite, 'key', toDataFolder(command, io), io)
      return printJson(io, { ...toJson(key, standingOf(key)), already_revoked: alreadyRevoked })
    }
    const what = `Key ${key.id} (${toPrintable(key.name)})`
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

function toCells(key: ListedKey, standing: BudgetStanding | null): string[] {
  const { requestsPerMinute, tokensPerMinute, concurrency } = key.limits
  const limits = [
    requestsPerMinute === null ? [] : `${requestsPerMinute} rpm`,
    tokensPerMinute === null ? [] : `${tokensPerMinute} tpm`,
    concurrency === null ? [] : `${concurrency} at a time`,
  ].flat()
  return [
    key.id,
    toPrintable(key.name),
    key.secrets.map(({ lastFour }) => `sk-tg-…${lastFour}`).join(' '),
    key.team === null ? '-' : toPrintable(key.team),
    key.scope,
    key.models.map(toPrintable).join(' ') || 'all',
    limits.join(', ') || '-',
    toBudgetCell(standing),
    key.expiresMs === null ? 'never' : toTime(key.expiresMs),
    key.status,
  ]
}

/** Leaves out the columns in which no key has anything, so that a line is no longer than it must be. */
function withoutEmpty(headings: string[], rows: string[][]): [string[], string[][]] {
  const isUsed = headings.map((_, column) => rows.some((row) => row[column] !== '-'))
  const keep = (line: string[]) => line.filter((_, column) => isUsed[column])
  return [keep(headings), rows.map(keep)]
}
