/**
 * The table of `usage`: a line a group, its cost as a bar (its requests, where nothing cost anything), and the total beneath. What does
 * not fit a terminal is left out, the least telling first. Pure.
 */

import type { UsageFields } from '../documents/usage.ts'
import { toShortId } from '../domain/id.ts'
import { asText } from '../domain/json.ts'
import type { Dimension } from '../domain/report-filters.ts'
import { toDay } from '../domain/time.ts'
import { toShort, toTable, toTime } from './io.ts'
import { toRounded } from './money.ts'
import type { Paint } from './terminal.ts'
import type { Usage } from './usage.ts'

interface Column {
  heading: string
  /** '-' where there is nothing to say. */
  cell(figures: UsageFields): string
}

const toCount = (value: UsageFields[string] = 0): string => toNumber(Number(value))

/** From what a line is read for first. */
const COLUMNS: readonly Column[] = [
  { heading: 'COST', cell: (figures) => (costOf(figures) === 0n ? '-' : toRounded(costOf(figures))) },
  { heading: 'REQUESTS', cell: (figures) => toCount(figures.requests) },
  { heading: 'FAILED', cell: (figures) => toCount(figures.errors) },
  { heading: 'UNPRICED', cell: (figures) => toCount(figures.unpriced) },
  { heading: 'IN', cell: (figures) => toCount(figures.prompt_tokens) },
  { heading: 'OUT', cell: (figures) => toCount(figures.completion_tokens) },
  { heading: 'FIRST p50/p95', cell: (figures) => toPair(figures.first_token_p50_ms, figures.first_token_p95_ms) },
  { heading: 'WHOLE p50/p95', cell: (figures) => toPair(figures.duration_p50_ms, figures.duration_p95_ms) },
  { heading: 'CUT', cell: (figures) => toCount(figures.cuts) },
  { heading: 'ESTIMATED', cell: (figures) => toPercent(Number(figures.estimated_share ?? 0)) },
]

const costOf = ({ cost_nano_usd: cost }: UsageFields) => BigInt(cost ?? 0)

const HEADINGS: Record<Dimension, string> = {
  key: 'KEY',
  team: 'TEAM',
  model: 'MODEL',
  upstream: 'UPSTREAM',
  endpoint: 'ENDPOINT',
  user: 'USER',
  day: 'DAY (UTC)',
  hour: 'HOUR (UTC)',
}

const GAP = 2
const BAR = { least: 8, most: 30 }

export interface Terminal {
  /** Columns. */
  width: number
  paint: Paint
}

export function toUsageTable(report: Usage, by: readonly Dimension[], { width, paint }: Terminal): string {
  const { usage: rows, rest, total } = report
  const names = toNames(rows, by)
  const first = (text: string) => by.map((_, i) => (i === 0 ? text : ''))
  const lines = rows.map((figures, row) => ({ name: names[row] ?? [], figures }))
  if (rest) lines.push({ name: first(`${rest.groups} more`), figures: rest })
  lines.push({ name: first('total'), figures: total })

  const named = by.map((dimension, i) => [HEADINGS[dimension], ...lines.map(({ name }) => name[i] ?? '')])
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

/** A name that several of them have stands with its id. */
function toNames(rows: readonly UsageFields[], by: readonly Dimension[]): string[][] {
  const ids = Map.groupBy(rows, ({ key }) => key)
  const isShared = (name: string) => new Set(ids.get(name)?.map(({ key_id: id }) => id)).size > 1
  const toKey = (id: string, name: string) => {
    if (name === '') return toShort(id.length === 32 ? toShortId(id) : id)
    return isShared(name) ? `${toShort(name)} (${toShortId(id)})` : toShort(name)
  }
  const cells: Record<Dimension, (row: UsageFields) => string> = {
    key: ({ key_id: id, key }) => toKey(asText(id), asText(key)),
    team: ({ team_id: id, team }) => (id === null ? '(no team)' : toShort(asText(team) || toShortId(asText(id)))),
    model: ({ model }) => toShort(asText(model), MODEL_WIDTH),
    upstream: ({ upstream }) => toShort(asText(upstream)),
    endpoint: ({ endpoint }) => toShort(asText(endpoint)),
    user: ({ user }) => (user === null ? '(no user)' : toShort(asText(user))),
    day: ({ day_ms: ms }) => toDay(Number(ms)),
    hour: ({ hour_ms: ms }) => toTime(Number(ms)),
  }
  return rows.map((row) => by.map((dimension) => cells[dimension](row)))
}

const MODEL_WIDTH = 32

const widthOf = (columns: readonly string[][]) =>
  columns.reduce((sum, column) => sum + GAP + Math.max(...column.map((cell) => Bun.stringWidth(cell))), 0)

function toRight(column: string[]): string[] {
  const width = Math.max(...column.map((cell) => cell.length))
  return column.map((cell) => cell.padStart(width))
}

const EIGHTHS = ' ▏▎▍▌▋▊▉'

/** As long as their share of the longest one, in eighths of a column; what is not nothing shows. */
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

const toPercent = (share: number) => (share === 0 ? '-' : share < 0.01 ? '<1 %' : `${Math.round(100 * share)} %`)

/** A percentile is known to a factor of 1.4: two digits say more than that. */
const toPair = (p50: UsageFields[string] = null, p95: UsageFields[string] = null) =>
  p50 === null || p95 === null ? '-' : `${toTwoDigits(Number(p50))}/${toTwoDigits(Number(p95))}`

function toTwoDigits(ms: number): string {
  if (ms < 1_000) return `${Number(ms.toPrecision(2))}ms`
  return ms < 100_000 ? `${Number((ms / 1_000).toPrecision(2))}s` : `${Math.round(ms / 60_000)}min`
}
