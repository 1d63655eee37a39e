/**
 * `tollgate keys create | list | show | edit | rotate | revoke`. Works beside a running server, which uses a change by the
 * time the command returns. A secret is printed once, by `create` or `rotate`, alone on its line.
 */
import { type KeyDocument, toKeyDocument } from '../documents/key.ts'
import { toShortId } from '../domain/id.ts'
import { toDay, toMs } from '../domain/time.ts'
import { readNames } from '../identity/admins.ts'
import { toCeilingTexts } from '../keys/changes.ts'
import {
  createKey,
  DEFAULT_OVERLAP_MS,
  editKey,
  type ListedKey,
  listAllKeys,
  listKeys,
  OVERLAP_MS,
  revokeKey,
  rotateKey,
  showKey,
} from '../keys/service.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { toMasked } from '../keys/token.ts'
import type { Store } from '../store/store.ts'
import { createStandings } from './budget.ts'
import { usageError } from './command-error.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toFactLines,
  toPrintable,
  toShort,
  toTime,
  withStore,
} from './io.ts'
import { findUnmatchedAfter, findUnmatchedNow, toPatterns, warnOf } from './key-models.ts'
import { type Flags, toKeyChanges } from './key-options.ts'
import {
  type Fact,
  toBudgetCell,
  toBudgetWarning,
  toChangeLines,
  toKeyFacts,
  toRules,
  toSpentFacts,
  toSpentText,
} from './key-text.ts'
import { toName } from './values.ts'

/** Of a key that a command makes. */
const NOBODY = new Map<string, string>()

/** Makes the documents of keys, as they stand now. @param id of the only one that will be asked for. */
async function createDocuments(opened: Store, io: Context, id?: string) {
  const standingOf = await createStandings(opened, 'key', io, id)
  const names = await readNames(opened.identity)
  return (key: ListedKey) => toKeyDocument(key, standingOf(key), names)
}

export async function create(flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const name = toName(flags.name?.at(-1), 'say what the key is for, such as --name dev')
  const options = { ...toKeyChanges(flags, { canBeNone: false }, nowMs), name }
  await withStore(io, {}, async (store) => {
    const { key, secret } = await createKey(store, options, { actor: 'cli', nowMs })
    const unmatched = await findUnmatchedNow(key, store, io)
    // It is too new to have spent anything.
    const { id, name: _, ...rest } = toKeyDocument(key, toFirstStanding(key, nowMs), NOBODY)
    if (io.json) return printJson(io, { id, name, key: secret, ...rest, ...toPatterns(unmatched) })
    warnOf(unmatched, io)
    io.stderr(`${toKeyName(key)}. Keep it now; it is not shown again:\n`)
    io.stdout(`${secret}\n`)
  })
}

/** @param all also those that let nobody in any more, or never did: playgrounds are metered by them. */
export async function list({ all = false }: { all?: boolean }, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const { shown, hidden } = await withStore(io, { readonly: true }, async (store, opened) => {
    const toDocument = await createDocuments(opened, io)
    const keys = all ? await listAllKeys(store, nowMs) : await listKeys(store, nowMs)
    const wanted = keys.filter(({ status }) => all || status === 'active')
    return { shown: wanted.map(toDocument), hidden: keys.length - wanted.length }
  })
  if (io.json) return printJson(io, { keys: shown })
  if (shown.length > 0) io.stdout(toKeyTable(shown, io))
  if (hidden > 0) io.stderr(`${hidden} revoked or expired; with --all they are listed, too.\n`)
  else if (shown.length === 0) io.stderr('There are no keys yet. Make one with: tollgate keys create --name NAME\n')
  for (const key of shown) if (key.status === 'active') io.stderr(toBudgetWarning(`key ${toPrintable(key.name)}`, key))
}

const HEADINGS = ['ID', 'NAME', 'KEY', 'UNTIL', 'BUDGET']

/** One line a key that fits a terminal, and beneath it what the key is held to. */
function toKeyTable(keys: readonly KeyDocument[], io: Context): string {
  const nowMs = io.nowMs()
  const rows = keys.map((key) => [
    toShortId(key.id),
    toShort(key.name),
    key.secrets
      .filter(({ expires_ms: endMs }) => endMs === null || endMs > nowMs)
      .map(({ last_four }) => `…${last_four}`)
      .join(' ') || '-',
    key.status !== 'active' ? key.status : key.expires_ms === null ? '-' : toDay(key.expires_ms),
    toBudgetCell(key),
  ])
  // Columns in which no key has anything are left out.
  const isUsed = HEADINGS.map((_, column) => rows.some((row) => row[column] !== '-'))
  const keep = (line: string[]) => line.filter((_, column) => isUsed[column])
  const notes = keys.map((key) => [toKeyRules(key), toUse(key)])
  return toDescribedTable(keep(HEADINGS), rows.map(keep), notes, io.paint)
}

const toKeyRules = (key: KeyDocument) =>
  toRules(
    key,
    key.allowed_ips.length > 0 ? `from ${key.allowed_ips.join(', ')}` : '',
    key.team === null ? '' : `team ${toPrintable(key.team)}`,
    key.owner_id === null ? '' : `of ${toPrintable(key.owner ?? toShortId(key.owner_id))}`,
  )

/** Such as `$3.10 this month, $45.10 in total; last used 2026-11-21 12:30 for openai/gpt-4o` */
const toUse = (key: KeyDocument) =>
  key.last_used_ms === null && key.spent_total_nano_usd === 0
    ? 'never used'
    : `${toSpentText(key)}; last used ${toLastUseText(key)}`

/** Such as `2026-11-21 12:30 for openai/gpt-4o`. */
const toLastUseText = ({ last_used_ms: ms, last_model: model }: KeyDocument) =>
  ms === null ? 'never' : `${toTime(ms)} for ${toPrintable(model ?? '')}`

export async function show(which: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, { readonly: true }, async (store, opened) => {
    const found = await showKey(store, which, nowMs)
    const key = (await createDocuments(opened, io, found.id))(found)
    if (io.json) return printJson(io, key)
    io.stdout(toKeyText(key, nowMs))
  })
}

/** Such as `Key 3f2a91bc (dev)`. */
const toKeyName = ({ id, name }: Pick<KeyDocument, 'id' | 'name'>) => `Key ${toShortId(id)} (${toPrintable(name)})`

/** All that is known of a key, a line each. */
function toKeyText(key: KeyDocument, nowMs: number): string {
  const ceilings = toCeilingTexts(key.ceilings).map(([field, text]) => `${field} ${text}`)
  const facts: Fact[] = [
    ['id', key.id],
    ...key.secrets.map((secret): Fact => ['key', toSecretText(secret, nowMs)]),
    ...toKeyFacts(key).slice(1),
    ...(ceilings.length === 0 ? [] : [['ceilings', ceilings.join('; ')] as const]),
    ...toSpentFacts(key),
    ['last used', toLastUseText(key)],
    ...(key.owner_id === null ? [] : [['owner', `${key.owner ?? '-'} (${toShortId(key.owner_id)})`] as const]),
    ['created', toTime(key.created_ms)],
    ...(key.revoked_ms === null ? [] : [['revoked', toTime(key.revoked_ms)] as const]),
  ]
  return toFactLines(`${toKeyName(key)}, ${key.status}`, facts)
}

function toSecretText({ last_four, created_ms, expires_ms: endMs }: KeyDocument['secrets'][number], nowMs: number) {
  const since = `${toMasked(last_four)}, made ${toTime(created_ms)}`
  return endMs === null ? since : `${since}, ${endMs > nowMs ? 'ends' : 'ended'} ${toTime(endMs)}`
}

export async function edit(which: string, flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const changes = toKeyChanges(flags, { canBeNone: true }, nowMs)
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --rpm 60 or --budget none.')
  await withStore(io, {}, async (store, opened) => {
    const edited = await editKey(store, which, changes, { actor: 'cli', nowMs })
    const changed = Object.keys(edited.difference?.after ?? {})
    const unmatched = await findUnmatchedAfter(changed, edited.key, store, io)
    const toDocument = await createDocuments(opened, io, edited.key.id)
    const [before, key] = [toDocument(edited.before), toDocument(edited.key)]
    if (io.json) return printJson(io, { ...key, changed, ...toPatterns(unmatched) })
    warnOf(unmatched, io)
    io.stdout(
      edited.difference === null
        ? `${toKeyName(key)} is like that already.\n`
        : toChangeLines(toKeyName(before), toKeyFacts(before), toKeyFacts(key)),
    )
  })
}

export async function rotate(which: string, { overlap }: { overlap?: string }, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const overlapMs = overlap === undefined ? DEFAULT_OVERLAP_MS : toMs(overlap.trim(), OVERLAP_MS)
  if (overlapMs === null) throw usageError(`--overlap '${overlap}' is no span: write 24h, 7d or 0; at most 365d.`)
  await withStore(io, {}, async (store, opened) => {
    // First: once there is a secret, nothing may come between it and whoever asked for it.
    const { id } = await showKey(store, which, nowMs)
    const toDocument = await createDocuments(opened, io, id)
    const { key, secret } = await rotateKey(store, id, overlapMs, { actor: 'cli', nowMs })
    if (io.json) {
      const { id, name, ...rest } = toDocument(key)
      return printJson(io, { id, name, key: secret, ...rest })
    }
    const end = overlapMs === 0 ? 'has ended' : `ends ${toTime(nowMs + overlapMs)} UTC at the latest`
    io.stderr(`${toKeyName(key)} has a new secret; the one before ${end}.\n`)
    if (overlapMs > 0) io.stderr(LEAKED)
    io.stderr('Keep this one now; it is not shown again:\n')
    io.stdout(`${secret}\n`)
  })
}

/** Whoever rotates a key that somebody has seen may not know that it works on. */
const LEAKED = 'If that one has leaked, rotate again with --overlap 0: both end at once, and a third is printed.\n'

export async function revoke(which: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, {}, async (store, opened) => {
    const { key, alreadyRevoked } = await revokeKey(store, which, { actor: 'cli', nowMs })
    if (io.json) {
      const toDocument = await createDocuments(opened, io, key.id)
      return printJson(io, { ...toDocument(key), already_revoked: alreadyRevoked })
    }
    io.stdout(`${toKeyName(key)} ${alreadyRevoked ? 'was revoked already' : 'is revoked'}.\n`)
  })
}
