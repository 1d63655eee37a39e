/** `tollgate keys`. A secret is printed once, on its own line. */

import type { Command } from 'commander'
import type { KeyDocument } from '../documents/key.ts'
import { toShortId } from '../domain/id.ts'
import { count } from '../domain/text.ts'
import { toDay, toMs } from '../domain/time.ts'
import { toBody, toCeilingTexts } from '../keys/changes.ts'
import { KEY_FIELDS, LISTED } from '../keys/definition.ts'
import { DEFAULT_OVERLAP_MS, OVERLAP_MS } from '../keys/service.ts'
import { STANDINGS, type Standing, toSpentTeams, toStanding } from '../keys/standing.ts'
import { toMasked } from '../keys/token.ts'
import { answerOf, idOf, readReport, withAdmin } from './admin-client.ts'
import { usageError } from './command-error.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toExamples,
  toFactLines,
  toPrintable,
  toShort,
  toTime,
} from './io.ts'
import {
  addKeyOptions,
  type Fact,
  type Flags,
  printEdit,
  toBudgetCell,
  toBudgetWarning,
  toIfMatch,
  toKeyChanges,
  toKeyFacts,
  toRefusedFacts,
  toRefusedText,
  toRules,
  toSpentFacts,
  toSpentText,
  warnOf,
} from './key-fields.ts'
import { toName } from './values.ts'

const WHICH_KEY = "key name, 6+ digits of its ID, or the key's last four characters"

export function addKeys(group: Command, context: Context): void {
  addKeyOptions(group.command('create'), { canBeNone: false })
    .description('create a key and print it once (requires --name)')
    .addHelpText(
      'after',
      toExamples(
        'keys create --name dev',
        "keys create --name batch --model 'openai/*' --rpm 60 --budget 20/month --expires 90d",
      ),
    )
    .action((flags: Flags) => create(flags, context))
  group
    .command('list')
    .description('list active keys with spend and last use')
    .option('--all', 'include revoked and expired keys')
    .addHelpText('after', toExamples('keys list', 'keys list --all --json'))
    .action((flags: { all?: boolean }) => list(flags, context))
  group
    .command('show')
    .description("show a key's settings, spend, and last use")
    .argument('<key>', WHICH_KEY)
    .addHelpText('after', toExamples('keys show dev', 'keys show 4f9a21c8 --json'))
    .action((key: string) => show(key, context))
  addKeyOptions(group.command('edit'), { canBeNone: true })
    .description('edit a key; omitted options and spend are unchanged. Use `none` to remove a limit')
    .argument('<key>', WHICH_KEY)
    .addHelpText(
      'after',
      toExamples('keys edit dev --budget 50/month --rpm none', 'keys edit 4f9a21c8 --name ci --team research'),
    )
    .action((key: string, flags: Flags) => edit(key, flags, context))
  group
    .command('rotate')
    .description('issue a new secret and print it once; the old one keeps working for --overlap')
    .argument('<key>', WHICH_KEY)
    .option('--overlap <time>', 'how long the old secret keeps working, e.g. 7d; 0 if it leaked (default 24h)')
    .addHelpText('after', toExamples('keys rotate dev', 'keys rotate dev --overlap 0'))
    .action((key: string, flags: { overlap?: string }) => rotate(key, flags, context))
  group
    .command('end-overlap')
    .description('end the old secrets of a rotated key now; the newest one keeps working')
    .argument('<key>', WHICH_KEY)
    .addHelpText('after', toExamples('keys end-overlap dev', 'keys end-overlap 4f9a21c8'))
    .action((key: string) => endOverlap(key, context))
  group
    .command('revoke')
    .description('permanently revoke a key')
    .argument('<key>', WHICH_KEY)
    .addHelpText('after', toExamples('keys revoke dev', 'keys revoke 4f9a21c8'))
    .action((key: string) => revoke(key, context))
}

export async function create(flags: Flags, io: Context): Promise<void> {
  const name = toName(flags.name?.at(-1), 'pass a name, e.g. --name dev')
  const body = { ...toBody(toKeyChanges(flags, { canBeNone: false }, io.nowMs())), name }
  const made = await withAdmin(io, {}, ({ api }) => answerOf(api.keys.post(body)))
  const { key: secret, warnings } = made
  if (io.json) return printJson(io, toSecretFirst(made))
  warnOf(warnings, io)
  io.stderr(`Created key ${toNamed(made)}. Save it now; it won't be shown again:\n`)
  io.stdout(`${secret}\n`)
}

const toSecretFirst = <Made extends Pick<KeyDocument, 'id' | 'name'> & { key: string }>({
  id,
  name,
  key,
  ...rest
}: Made) => ({
  ...{ id, name, key },
  ...rest,
})

/** @param all with revoked and expired keys, and those of playgrounds, which have no secret. */
export async function list({ all = false }: { all?: boolean }, io: Context): Promise<void> {
  const [keys, teams] = await readReport(io, async ({ api }) => [
    (await answerOf(api.keys.get({ query: { hidden: all } }))).keys,
    (await answerOf(api.teams.get())).teams,
  ])
  const shown = keys.filter(({ status }) => all || status === 'active')
  const hidden = keys.length - shown.length
  if (io.json) return printJson(io, { keys: shown })
  if (shown.length > 0) io.stdout(toKeyTable(shown, toSpentTeams(teams), io))
  if (hidden > 0) io.stderr(`${hidden} revoked or expired (show with --all).\n`)
  else if (shown.length === 0) io.stderr('No keys yet. Create one: tollgate keys create --name NAME\n')
  for (const key of shown) if (key.status === 'active') io.stderr(toBudgetWarning(`key ${toPrintable(key.name)}`, key))
}

const HEADINGS = ['ID', 'NAME', 'KEY', 'STATUS', 'EXPIRES', 'BUDGET']

function toKeyTable(keys: readonly KeyDocument[], spentTeams: ReadonlySet<string>, io: Context): string {
  const nowMs = io.nowMs()
  const rows = keys.map((key) => [
    toShortId(key.id),
    toShort(key.name),
    key.secrets
      .filter(({ expires_ms: endMs }) => endMs === null || endMs > nowMs)
      .map(({ last_four }) => `…${last_four}`)
      .join(' ') || '-',
    toStatusCell(toStanding(key, spentTeams)),
    key.status !== 'active' || key.expires_ms === null ? '-' : toDay(key.expires_ms),
    toBudgetCell(key),
  ])
  const isUsed = HEADINGS.map((_, column) => rows.some((row) => row[column] !== '-'))
  const keep = (line: string[]) => line.filter((_, column) => isUsed[column])
  const notes = keys.map((key) => [toKeyRules(key), toUse(key)])
  return toDescribedTable(keep(HEADINGS), rows.map(keep), notes, io.paint)
}

const toStatusCell = (standing: Standing) => (standing === 'active' ? '-' : STANDINGS[standing])

const toKeyRules = (key: KeyDocument) =>
  toRules(
    key,
    key.allowed_ips.length > 0 ? `from ${key.allowed_ips.join(', ')}` : '',
    ...LISTED.map((name) => (key[name] === null ? '' : `${KEY_FIELDS[name].label} ${toPrintable(key[name])}`)),
    key.owner_id === null ? '' : `owner ${toPrintable(key.owner ?? toShortId(key.owner_id))}`,
  )

/** Such as `$3.10 this month, $45.10 total; last used 2026-11-21 12:30 UTC for openai/gpt-4o` */
const toUse = (key: KeyDocument) =>
  [
    ...(key.last_used_ms === null && key.spent_total_nano_usd === 0
      ? [key.last_refused_ms === null ? 'never used' : 'never served']
      : [toSpentText(key), `last used ${toLastUseText(key)}`]),
    ...(key.last_refused_ms === null ? [] : [`refused ${toRefusedText(key)}`]),
  ].join('; ')

/** Such as `2026-11-21 12:30 UTC for openai/gpt-4o`. */
const toLastUseText = ({ last_used_ms: ms, last_model: model }: KeyDocument) =>
  ms === null ? 'never' : `${toTime(ms)} UTC for ${toPrintable(model ?? '')}`

export async function show(which: string, io: Context): Promise<void> {
  const key = await readReport(io, ({ api }) => answerOf(api.keys(idOf(which)).get()))
  if (io.json) return printJson(io, key)
  io.stdout(toKeyText(key, io.nowMs()))
}

/** Such as `3f2a91bc (dev)`. */
const toNamed = ({ id, name }: Pick<KeyDocument, 'id' | 'name'>) => `${toShortId(id)} (${toPrintable(name)})`

function toKeyText(key: KeyDocument, nowMs: number): string {
  const ceilings = toCeilingTexts(key.ceilings).map(([field, text]) => `${field} ${text}`)
  const facts: Fact[] = [
    ['ID', key.id],
    ...key.secrets.map((secret): Fact => ['key', toSecretText(secret, nowMs)]),
    ...toKeyFacts(key).slice(1),
    ...(ceilings.length === 0 ? [] : [['ceilings', ceilings.join('; ')] as const]),
    ...toSpentFacts(key),
    ['last used', toLastUseText(key)],
    ...toRefusedFacts(key),
    ...(key.owner_id === null ? [] : [['owner', `${key.owner ?? '-'} (${toShortId(key.owner_id)})`] as const]),
    ['created', `${toTime(key.created_ms)} UTC`],
    ...(key.revoked_ms === null ? [] : [['revoked', `${toTime(key.revoked_ms)} UTC`] as const]),
  ]
  return toFactLines(`Key ${toNamed(key)}, ${key.status}`, facts)
}

function toSecretText({ last_four, created_ms, expires_ms: endMs }: KeyDocument['secrets'][number], nowMs: number) {
  const since = `${toMasked(last_four)}, created ${toTime(created_ms)}`
  return endMs === null ? `${since} UTC` : `${since}, ${endMs > nowMs ? 'expires' : 'expired'} ${toTime(endMs)} UTC`
}

async function edit(which: string, flags: Flags, io: Context): Promise<void> {
  const changes = toKeyChanges(flags, { canBeNone: true }, io.nowMs())
  if (Object.keys(changes).length === 0)
    throw usageError('Nothing to change. Pass an option, e.g. --rpm 60 or --budget none.')
  const { before, key } = await withAdmin(io, {}, async ({ api }) => {
    const before = io.json ? null : await answerOf(api.keys(idOf(which)).get())
    const id = before === null ? idOf(which) : { id: before.id }
    return { before, key: await answerOf(api.keys(id).patch(toBody(changes), toIfMatch(before))) }
  })
  printEdit<KeyDocument>(io, before, key, (one) => `key ${toNamed(one)}`, toKeyFacts)
}

async function rotate(which: string, { overlap }: { overlap?: string }, io: Context): Promise<void> {
  const overlapMs = overlap === undefined ? DEFAULT_OVERLAP_MS : toMs(overlap.trim(), OVERLAP_MS)
  if (overlapMs === null)
    throw usageError(`--overlap must be a duration up to 365d, e.g. 24h or 7d, or 0 (got '${overlap}').`)
  const made = await withAdmin(io, {}, ({ api }) =>
    answerOf(api.keys(idOf(which)).rotate.post({ overlap: `${overlapMs}ms` })),
  )
  if (io.json) return printJson(io, toSecretFirst(made))
  const end = overlapMs === 0 ? 'no longer works' : `works until ${toTime(io.nowMs() + overlapMs)} UTC at the latest`
  io.stderr(`Rotated key ${toNamed(made)}. The old secret ${end}.\n`)
  if (overlapMs > 0) io.stderr(LEAKED)
  io.stderr("Save the new secret now; it won't be shown again:\n")
  io.stdout(`${made.key}\n`)
}

/** A user rotating a leaked key may not know that the old secret keeps working. */
const LEAKED = 'If it leaked, end it now: tollgate keys end-overlap KEY\n'

async function endOverlap(which: string, io: Context): Promise<void> {
  const { before, key } = await withAdmin(io, {}, async ({ api }) => {
    const before = await answerOf(api.keys(idOf(which)).get())
    return { before, key: await answerOf(api.keys({ id: before.id })['end-overlap'].post()) }
  })
  if (io.json) return printJson(io, key)
  const works = ({ expires_ms: ms }: KeyDocument['secrets'][number]) => ms === null || ms > io.nowMs()
  const ended = before.secrets.slice(0, -1).filter(works).length
  io.stdout(
    ended === 0
      ? `Key ${toNamed(key)} has no old secret that still works.\n`
      : `Ended ${count(ended, 'old secret')} of key ${toNamed(key)}.\n`,
  )
}

export async function revoke(which: string, io: Context): Promise<void> {
  const { before, key } = await withAdmin(io, {}, async ({ api }) => {
    const before = await answerOf(api.keys(idOf(which)).get())
    return { before, key: await answerOf(api.keys({ id: before.id }).revoke.post()) }
  })
  const isRevoked = before.status === 'revoked'
  if (io.json) return printJson(io, { ...key, already_revoked: isRevoked })
  io.stdout(isRevoked ? `Key ${toNamed(key)} is already revoked.\n` : `Revoked key ${toNamed(key)}.\n`)
}
