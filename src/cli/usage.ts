/**
 * `tollgate usage`: who spent what. A table with bars on a terminal, CSV elsewhere (`--table`, `--csv` and `--json` say otherwise). Works
 * beside a running server, which brings its database up to date first, and reads only.
 */

import { toFigureFields, toGroupFields, toUsageDocument, type UsageFields } from '../documents/usage.ts'
import { toDefined } from '../domain/changes.ts'
import { type Dimension, USAGE_FILTERS } from '../domain/report-filters.ts'
import { count, toCsv } from '../domain/text.ts'
import { reportUsage, toDimensions, type UsageReport } from '../ledger/usage.ts'
import type { Figures } from '../ledger/usage-gather.ts'
import { RESOLUTION } from '../store/histogram.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toTime, withStore } from './io.ts'
import { catchUp, toBehindNote } from './live.ts'
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

/** Nobody waits longer for a table. */
const LIMIT_MS = 60_000
const MOST_ROWS = 100_000

export async function usage(flags: UsageFlags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const form = toForm(flags, io)
  const by = toDimensions(flags.by)
  const sinceMs = toMoment('--since', flags.since, nowMs)
  const untilMs = flags.until === undefined ? null : toMoment('--until', flags.until, nowMs)
  if (sinceMs >= (untilMs ?? nowMs + 1)) throw usageError('--since must be before --until, and not in the future.')
  const options = {
    by,
    sinceMs,
    untilMs,
    where: toDefined(Object.fromEntries(USAGE_FILTERS.map((name) => [name, flags[name]]))),
    limit: toLimit(flags.limit),
    limitMs: LIMIT_MS,
  }
  const { report, behind } = await withStore(io, { readonly: true }, async (store, { usage: reader, audit }) => {
    const behind = await catchUp(audit, io.dataFolder)
    const names = await store.read()
    const clock = () => performance.now()
    return { behind, report: reportUsage(reader, names, options, { nowMs, clock }) }
  })
  io.stderr(toBehindNote(behind) + toNotes(report))
  if (form === 'json') return printJson(io, toUsageDocument(report, by, behind.waiting))
  if (form === 'csv') return io.stdout(toText(report, by))
  if (report.rows.length > 0)
    io.stdout(
      toUsageTable(report, by, { width: io.columns(), paint: io.paint }) + io.paint.aside(toScope(report, nowMs)),
    )
  else io.stderr('Nothing was asked in that time that this is about.\n')
}

function toForm({ csv, table }: UsageFlags, io: Context): 'json' | 'csv' | 'table' {
  if (Number(io.json) + Number(csv === true) + Number(table === true) > 1)
    throw usageError('--json, --csv and --table exclude each other.')
  if (io.json) return 'json'
  if (csv || table) return csv ? 'csv' : 'table'
  return io.isTerminal(1) ? 'table' : 'csv'
}

function toLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text.trim()) ? Number(text) : 0
  if (limit >= 1 && limit <= MOST_ROWS) return limit
  throw usageError(`--limit '${text}' is no number of rows: write a whole number from 1 to ${MOST_ROWS}.`)
}

function toNotes({ rest, sinceMs, untilMs, isMoved }: UsageReport): string {
  const moved = `requests of before are gone, all but their sums of whole hours, which know no users: this is about ${toTime(sinceMs)} to ${toTime(untilMs)} (UTC)`
  const cut = `the last row stands for ${count(rest?.groups ?? 0, 'more row')}; a larger --limit tells them apart`
  return (isMoved ? `note: ${moved}.\n` : '') + (rest ? `note: ${cut}.\n` : '')
}

/** What stands beneath a table. */
const toScope = ({ rows, sinceMs, untilMs }: UsageReport, nowMs: number) =>
  `${toTime(sinceMs)} to ${untilMs > nowMs ? 'now' : toTime(untilMs)} (UTC). Times are right to within a factor of ${RESOLUTION.toFixed(1)}.\n${rows.some(({ group }) => group.key?.id === 'system') ? 'system: what the owner of the data folder asked, with `tollgate ask` and no key.\n' : ''}`

/** `groups` tells the last row, of all that are not told apart, from the others. */
function toText({ rows, rest, total }: UsageReport, by: readonly Dimension[]): string {
  const records = rows.map(({ group, figures }) => toRecord(toGroupFields(by, group), 1, figures))
  if (rest) records.push(toRecord(toGroupFields(by), rest.groups, rest.figures))
  const fields = Object.keys(toRecord(toGroupFields(by), 0, total))
  return toCsv(
    fields,
    records.map((record) => fields.map((field) => record[field] ?? null)),
  )
}

const toRecord = (group: UsageFields, groups: number, figures: Figures): UsageFields => ({
  ...group,
  groups,
  ...toFigureFields(figures),
})
