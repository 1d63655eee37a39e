/**
 * `tollgate usage`: who spent what. A table with bars on a terminal, CSV elsewhere (`--table`, `--csv` and `--json` say otherwise). Works
 * beside a running server, which brings its database up to date first, and reads only.
 */
import { toGroupFields, type UsageFields } from '../documents/usage.ts'
import { type Dimension, USAGE_FILTERS } from '../domain/report-filters.ts'
import { count, toCsv } from '../domain/text.ts'
import { toDimensions } from '../ledger/usage.ts'
import { RESOLUTION } from '../store/histogram.ts'
import { readAnswerOf, toBehindNote, withAdmin } from './admin-client.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toTime } from './io.ts'
import { toUsageTable } from './usage-table.ts'
import { toMoment } from './values.ts'

/** The options of `usage`, as they stand on the command line. */
export interface UsageFlags extends Partial<Record<(typeof USAGE_FILTERS)[number], string[]>> {
  since: string
  until?: string
  by: string
  limit: string
  csv?: boolean
  table?: boolean
}

const MOST_ROWS = 100_000

/** A report as the admin API answers, its sums exact: a number that is too large for one is a bigint. */
export interface Usage {
  usage: UsageFields[]
  rest: UsageFields | null
  total: UsageFields
  since_ms: number
  until_ms: number
  waiting: number
}

export async function usage(flags: UsageFlags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const form = toForm(flags, io)
  const by = toDimensions(flags.by)
  const sinceMs = toMoment('--since', flags.since, nowMs)
  const untilMs = flags.until === undefined ? null : toMoment('--until', flags.until, nowMs)
  if (sinceMs >= (untilMs ?? nowMs + 1)) throw usageError('--since must be before --until, and not in the future.')
  const query = toQuery(flags, { since: sinceMs, until: untilMs, limit: toLimit(flags.limit) })
  const { report, behind } = await withAdmin(io, { readonly: true }, async ({ send, behind }) => ({
    behind: await behind(),
    report: await readAnswerOf<Usage>(send(`/admin/api/usage?${query}`), toExact),
  }))
  const { since_ms, until_ms, usage } = report
  const isMoved = since_ms !== sinceMs || (untilMs !== null && until_ms !== untilMs)
  io.stderr(toBehindNote({ ...behind, waiting: report.waiting }) + toNotes(report, isMoved))
  if (form === 'json') return printJson(io, report)
  if (form === 'csv') return io.stdout(toText(report, by))
  if (usage.length === 0) return io.stderr('Nothing was asked in that time that this is about.\n')
  io.stdout(toUsageTable(report, by, { width: io.columns(), paint: io.paint }) + io.paint.aside(toScope(report, nowMs)))
}

/** Money is exact, whatever the sum: `JSON.parse` alone would round what is beyond 2^53. */
const toExact = (_: string, value: unknown, { source = '' }: { source?: string }) =>
  typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(source) : value

function toForm({ csv, table }: UsageFlags, io: Context): 'json' | 'csv' | 'table' {
  if (Number(io.json) + Number(csv === true) + Number(table === true) > 1)
    throw usageError('--json, --csv and --table exclude each other.')
  if (io.json) return 'json'
  if (csv || table) return csv ? 'csv' : 'table'
  return io.isTerminal(1) ? 'table' : 'csv'
}

function toQuery(
  flags: UsageFlags,
  { since, until, limit }: { since: number; until: number | null; limit: number },
): URLSearchParams {
  const query = new URLSearchParams({ by: flags.by, since: String(since), limit: String(limit) })
  if (until !== null) query.set('until', String(until))
  for (const name of USAGE_FILTERS) for (const value of flags[name] ?? []) query.append(name, value)
  return query
}

function toLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text.trim()) ? Number(text) : 0
  if (limit >= 1 && limit <= MOST_ROWS) return limit
  throw usageError(`--limit '${text}' is no number of rows: write a whole number from 1 to ${MOST_ROWS}.`)
}

function toNotes({ rest, since_ms, until_ms }: Usage, isMoved: boolean): string {
  const moved = `requests of before are gone, all but their sums of whole hours, which know no users: this is about ${toTime(since_ms)} to ${toTime(until_ms)} (UTC)`
  const cut = `the last row stands for ${count(Number(rest?.groups ?? 0), 'more row')}; a larger --limit tells them apart`
  return (isMoved ? `note: ${moved}.\n` : '') + (rest ? `note: ${cut}.\n` : '')
}

/** What stands beneath a table. */
const toScope = ({ usage, since_ms, until_ms }: Usage, nowMs: number) =>
  `${toTime(since_ms)} to ${until_ms > nowMs ? 'now' : toTime(until_ms)} (UTC). Times are right to within a factor of ${RESOLUTION.toFixed(1)}.\n${usage.some((row) => row.key_id === 'system') ? 'system: what the owner of the data folder asked, with `tollgate ask` and no key.\n' : ''}`

/** `groups` tells the last row, of all that are not told apart, from the others. */
function toText({ usage, rest, total }: Usage, by: readonly Dimension[]): string {
  const fields = [...Object.keys(toGroupFields(by)), 'groups', ...Object.keys(total)]
  const records = usage.map((row): UsageFields => ({ ...row, groups: 1 }))
  if (rest) records.push(rest)
  return toCsv(
    fields,
    records.map((record) => fields.map((field) => record[field] ?? null)),
  )
}
