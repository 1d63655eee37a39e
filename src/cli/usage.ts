/** `tollgate usage`: a table with bars on a terminal, CSV in a pipe. Read-only. */

import type { Command } from 'commander'
import { toGroupFields, type UsageFields } from '../documents/usage.ts'
import { CORRECTION, type Dimension, toDimensionTitle, USAGE_FILTERS } from '../domain/report-filters.ts'
import { count, toCsv } from '../domain/text.ts'
import { toUsageFigure, USAGE_FIGURE_NAMES, USAGE_FIGURES, type UsageFigureName } from '../domain/usage-figures.ts'
import { SYSTEM } from '../keys/find.ts'
import { toDimensions } from '../ledger/usage.ts'
import { RESOLUTION } from '../store/histogram.ts'
import { readAnswerOf, toBehindNote, withAdmin } from './admin-client.ts'
import { type Context, printJson, toExamples, toTable, toTime } from './io.ts'
import { toRounded } from './money.ts'
import { refusals } from './refusals.ts'
import type { Paint } from './terminal.ts'
import { toForm, toNames, toReportQuery, type UsageFlags } from './usage-options.ts'
import { addParameters } from './values.ts'

export function addUsage(command: Command, context: Context): void {
  const filters = [...USAGE_FILTERS, 'code'] as const
  addParameters(command, ['by', 'since', 'until', ...filters], {
    repeatable: filters,
    defaults: { by: 'key', since: '7d' },
  })
    .option('--refusals', 'requests rejected before they were recorded, by key and code unless --by is set')
    .option('--limit <n>', 'max rows by cost; the rest are summed into one', '10000')
    .option('--csv', 'print CSV even in a terminal')
    .option('--table', 'print a table even in a pipe')
    .addHelpText(
      'after',
      toExamples(
        'usage --by day,model --since 2026-11-01 --until 2026-12-01 --csv > november.csv',
        'usage --refusals --key ann --since 24h',
      ),
    )
    .action((flags: UsageFlags & { refusals?: boolean }) => {
      if (!flags.refusals) return usage(flags, context)
      const isByDefault = command.getOptionValueSource('by') === 'default'
      return refusals(isByDefault ? { ...flags, by: 'key,code' } : flags, context)
    })
}

/** Exact sums: integers beyond 2^53 are bigints. */
export interface Usage {
  usage: UsageFields[]
  other: UsageFields | null
  total: UsageFields
  since_ms: number
  until_ms: number
  pending_records: number
}

export async function usage(flags: UsageFlags, io: Context): Promise<void> {
  const form = toForm(flags, io)
  const by = toDimensions(flags.by)
  const { query, nowMs, sinceMs, untilMs } = toReportQuery(flags, USAGE_FILTERS, io)
  const { report, behind } = await withAdmin(io, { readonly: true }, async ({ send, behind }) => ({
    behind: await behind(),
    report: await readAnswerOf<Usage>(send(`/admin/api/usage?${query}`), toExact),
  }))
  const { since_ms, until_ms, usage } = report
  const isMoved = since_ms !== sinceMs || (untilMs !== null && until_ms !== untilMs)
  io.stderr(toBehindNote({ ...behind, waiting: report.pending_records }) + toNotes(report, isMoved))
  if (form === 'json') return printJson(io, report)
  if (form === 'csv') return io.stdout(toText(report, by))
  if (usage.length === 0) return io.stderr('No requests in this period. Try a longer one: --since 30d\n')
  io.stdout(toUsageTable(report, by, { width: io.columns(), paint: io.paint }) + io.paint.aside(toScope(report, nowMs)))
}

/** `JSON.parse` alone would round integers beyond 2^53. */
const toExact = (_: string, value: unknown, { source = '' }: { source?: string }) =>
  typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(source) : value

function toNotes({ other, since_ms, until_ms }: Usage, isMoved: boolean): string {
  const moved = `older requests were deleted, except for hourly totals (without users): this report covers ${toTime(since_ms)} to ${toTime(until_ms)} (UTC)`
  const cut = `the last row sums ${count(Number(other?.groups ?? 0), 'more row')}; use a larger --limit to see them`
  return (isMoved ? `note: ${moved}.\n` : '') + (other ? `note: ${cut}.\n` : '')
}

const toScope = ({ usage, since_ms, until_ms }: Usage, nowMs: number) => {
  const keys = new Set(usage.map(({ key_id: id }) => id))
  const [system, correction] = [
    keys.has(SYSTEM) ? 'system: requests by the owner of the data folder (`tollgate ask` without a key).\n' : '',
    keys.has(CORRECTION) ? "correction: taken from a provider's bill (`tollgate reconcile --take`).\n" : '',
  ]
  return `${toTime(since_ms)} to ${until_ms > nowMs ? 'now' : toTime(until_ms)} (UTC). Latencies are approximate (within ${RESOLUTION.toFixed(1)}x).\n${system}${correction}`
}

/** `groups` is above 1 only for the sum of the rest. */
function toText({ usage, other, total }: Usage, by: readonly Dimension[]): string {
  const fields = [...Object.keys(toGroupFields(by)), 'groups', ...Object.keys(total)]
  const records = usage.map((row): UsageFields => ({ ...row, groups: 1 }))
  if (other) records.push(other)
  return toCsv(
    fields,
    records.map((record) => fields.map((field) => record[field] ?? null)),
  )
}

interface Column {
  heading: string
  /** '-' if empty. */
  cell(figures: UsageFields): string
}

const toCount = (value: UsageFields[string] = 0): string => toNumber(Number(value))

/** Narrow terminals drop the last. */
const COLUMNS: readonly Column[] = [
  { heading: 'COST', cell: (figures) => (costOf(figures) === 0n ? '-' : toRounded(costOf(figures))) },
  { heading: 'REQUESTS', cell: (figures) => toCount(figures.requests) },
  { heading: 'ERRORS', cell: (figures) => toCount(figures.errors) },
  { heading: 'UNPRICED', cell: (figures) => toCount(figures.unpriced) },
  { heading: 'INPUT', cell: (figures) => toCount(figures.prompt_tokens) },
  { heading: 'OUTPUT', cell: (figures) => toCount(figures.completion_tokens) },
  { heading: 'TTFT p50/p95', cell: (figures) => toPair(figures.first_token_p50_ms, figures.first_token_p95_ms) },
  { heading: 'DURATION p50/p95', cell: (figures) => toPair(figures.duration_p50_ms, figures.duration_p95_ms) },
  { heading: 'INTERRUPTED', cell: (figures) => toCount(figures.cuts) },
  ...USAGE_FIGURE_NAMES.filter((name) => 'ratio' in USAGE_FIGURES[name]).map((name) => ({
    heading: USAGE_FIGURES[name].title.toUpperCase(),
    cell: (figures: UsageFields) => toFigureText(name, figures),
  })),
  { heading: 'ESTIMATED', cell: (figures) => toPercent(Number(figures.estimated_share ?? 0)) },
]

function toFigureText(name: UsageFigureName, figures: UsageFields): string {
  const value = toUsageFigure(name, figures) ?? 0
  return USAGE_FIGURES[name].kind === 'share' ? toPercent(value) : value === 0 ? '-' : toRounded(BigInt(value))
}

const costOf = ({ cost_nano_usd: cost }: UsageFields) => BigInt(cost ?? 0)

const GAP = 2
const BAR = { least: 8, most: 30 }

interface Terminal {
  /** Columns. */
  width: number
  paint: Paint
}

function toUsageTable(report: Usage, by: readonly Dimension[], { width, paint }: Terminal): string {
  const { usage: rows, other, total } = report
  const names = toNames(rows, by)
  const first = (text: string) => by.map((_, i) => (i === 0 ? text : ''))
  const lines = rows.map((figures, row) => ({ name: names[row] ?? [], figures }))
  if (other) lines.push({ name: first(`${other.groups} more`), figures: other })
  lines.push({ name: first('total'), figures: total })

  const named = by.map((dimension, i) => [
    toDimensionTitle(dimension).toUpperCase(),
    ...lines.map(({ name }) => name[i] ?? ''),
  ])
  const columns = COLUMNS.map(({ heading, cell }) => [heading, ...lines.map(({ figures }) => cell(figures))])
    .filter(([, ...cells]) => cells.some((cell) => cell !== '-'))
    .map(toRight)
  const room = width - widthOf(named) - BAR.least
  const fitting = columns.filter((_, i) => i === 0 || widthOf(columns.slice(0, i + 1)) <= room)
  const barWidth = Math.min(BAR.most, width - widthOf(named) - widthOf(fitting))
  const bars = barWidth < BAR.least ? [] : ['', ...toBars(lines.slice(0, rows.length), barWidth)]
  const [cost = [], ...others] = fitting
  const table = [...named, cost, bars, ...others].filter((column) => column.length > 0)
  const toLine = (i: number) => table.map((column) => column[i] ?? '')
  return toTable(
    toLine(0),
    lines.map((_, i) => toLine(i + 1)),
    paint,
  )
}

const widthOf = (columns: readonly string[][]) =>
  columns.reduce((sum, column) => sum + GAP + Math.max(...column.map((cell) => Bun.stringWidth(cell))), 0)

function toRight(column: string[]): string[] {
  const width = Math.max(...column.map((cell) => cell.length))
  return column.map((cell) => cell.padStart(width))
}

const EIGHTHS = ' ▏▎▍▌▋▊▉'

/** A non-zero value always shows. */
function toBars(lines: readonly { figures: UsageFields }[], width: number): string[] {
  const isPaid = lines.some(({ figures }) => costOf(figures) > 0n)
  const sizes = lines.map(({ figures }) => Number(isPaid ? figures.cost_nano_usd : figures.requests))
  const most = Math.max(...sizes)
  return sizes.map((size) => {
    const eighths = most === 0 ? 0 : Math.max(size > 0 ? 1 : 0, Math.round((8 * width * size) / most))
    return `${'█'.repeat(Math.floor(eighths / 8))}${EIGHTHS[eighths % 8]}`.trimEnd()
  })
}

const UNITS: readonly [unit: string, size: number][] = [
  ['T', 1e12],
  ['G', 1e9],
  ['M', 1e6],
]

/** Such as `1,204`, and `3.41M` from a million on; `-` for 0. */
function toNumber(count: number): string {
  const [unit, size] = UNITS.find(([, size]) => count >= size) ?? []
  if (unit !== undefined && size !== undefined)
    return `${(count / size).toPrecision(3).slice(0, 4).replace(/\.$/, '')}${unit}`
  return count === 0 ? '-' : count.toLocaleString('en-US')
}

const toPercent = (share: number) => (share === 0 ? '-' : share < 0.01 ? '<1%' : `${Math.round(100 * share)}%`)

/** Percentiles are within a factor of 1.4, so two digits are enough. */
const toPair = (p50: UsageFields[string] = null, p95: UsageFields[string] = null) =>
  p50 === null || p95 === null ? '-' : `${toTwoDigits(Number(p50))}/${toTwoDigits(Number(p95))}`

function toTwoDigits(ms: number): string {
  if (ms < 1_000) return `${Number(ms.toPrecision(2))}ms`
  return ms < 100_000 ? `${Number((ms / 1_000).toPrecision(2))}s` : `${Math.round(ms / 60_000)}min`
}
