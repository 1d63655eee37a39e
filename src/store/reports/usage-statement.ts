/** Statements of usage: which table, conditions, groups, and figures. */
import { SUMMED_COUNTS } from '../../domain/call-counts.ts'
import { type Dimension, USAGE_FILTERS } from '../../domain/report-filters.ts'
import { addDuration, type Histogram } from '../histogram.ts'
import {
  type DailySums,
  toDaily,
  type UsageCell,
  type UsageCount,
  type UsageFilter,
  type UsageQuery,
} from '../report-store.ts'
import { createParameters, type Dialect, type Given, type Parameters, toNamed, type Value } from './engine.ts'
import { BETWEEN, HISTOGRAMS, MEASURES, toPair } from './measures.ts'

export interface UsageStatement {
  sql: string
  /** Values after those of the span: the scope of pairs, then the filter. */
  values: readonly Given[]
  /** First column: the start of the next page of requests, or the number of summed rows. */
  toCell(row: readonly Value[]): UsageCell
}

/** In column order. */
export const COUNTS: readonly UsageCount[] = ['requests', 'errors', 'cuts', ...SUMMED_COUNTS, 'unpriced']
const MONEY = ['cost_nano_usd', 'estimated_cost_nano_usd']
const SPEND: ReadonlySet<string> = new Set(['requests', ...MONEY])

/** Requests per page if read one by one; a page takes tens of milliseconds. */
export const PAGE = 10_000

/** `pairs`: daily totals within one model or team. */
type Source = UsageQuery['from'] | 'pairs'

const toTimes = (atMs: string) => ({ hour: `${atMs} - ${atMs} % 3600000`, day: `${atMs} - ${atMs} % 86400000` })

const ofDays = (value: string) => ({
  ...{ key: value, team: value, model: value, upstream: value, endpoint: value },
  user: "''",
  ...toTimes('day_ms'),
})

const EXPRESSIONS: Record<Source, Record<Dimension, string>> = {
  days: ofDays('value'),
  pairs: ofDays(`substr(value, length(?3) + ${BETWEEN.length + 1})`),
  hours: {
    key: 'key_id',
    team: 'team_id',
    model: 'model',
    upstream: 'upstream',
    endpoint: 'endpoint',
    user: "''",
    ...toTimes('hour_ms'),
    // In the order of the table, so nothing is sorted.
    hour: 'hour_ms',
  },
  requests: {
    key: 'key_id',
    team: `COALESCE(team_id, '')`,
    model: 'model',
    upstream: 'upstream',
    endpoint: 'endpoint',
    user: `COALESCE("user", '')`,
    ...toTimes('created_ms'),
  },
}

const BEHIND = String.fromCharCode(BETWEEN.charCodeAt(0) + 1)

/** Parameters of totals: fromMs, untilMs, of pairs also the scope; of requests: ID before the first, ID after the last, fromMs, untilMs. */
const FROM: Record<Source, (dimension: string) => string> = {
  days: (dimension) => `FROM usage_daily WHERE dimension = '${dimension}' AND day_ms >= ?1 AND day_ms < ?2`,
  // Day by day, since each day also has other models.
  pairs: (dimension) =>
    `FROM usage_daily WHERE dimension = '${dimension}' AND day_ms IN (
      SELECT day_ms FROM usage_daily WHERE dimension = 'endpoint' AND day_ms >= ?1 AND day_ms < ?2
    ) AND value >= ?3 || '${BETWEEN}' AND value < ?3 || '${BEHIND}'`,
  hours: () => 'FROM usage_hourly WHERE hour_ms >= ?1 AND hour_ms < ?2',
  requests: () =>
    `FROM requests WHERE id > ?1 AND id < ?2 AND created_ms >= ?3 AND created_ms < ?4 AND status <> 'open'`,
}

/** In two halves, since sums may exceed a safe integer. */
const HALF = 30

export function toUsageStatement(
  dialect: Dialect,
  { from, by, where, figures = 'all' }: Omit<UsageQuery, 'span'>,
): UsageStatement {
  const daily = from === 'days' ? toDaily(by, where) : null
  const within = daily?.within ?? null
  const source = within === null ? from : 'pairs'
  const parameters = createParameters(from === 'requests' ? 4 : 2)
  if (within !== null) parameters.add(within.name)
  const conditions = toConditions(dialect, source, daily?.where ?? where, parameters)
  const groups = by.map((dimension) => EXPRESSIONS[source][dimension])
  const which = [FROM[source](toDimension(daily)), ...conditions].join(' AND ')
  const isEach = from === 'requests' && dialect.countDurations === null
  const isAdded = !isEach && !(from === 'days' && by.includes('day'))
  const first = isEach ? 'id' : isAdded ? 'COUNT(*)' : '1'
  const add = (sql: string) => (isAdded ? `SUM(${sql})` : sql)
  const measures = MEASURES.flatMap(({ name, sql }) => {
    const value = from === 'requests' ? sql : name
    const columns = MONEY.includes(name) ? [`(${value}) >> ${HALF}`, `(${value}) & ${2 ** HALF - 1}`] : [value]
    return columns.map((column) => (figures !== 'spend' || SPEND.has(name) ? add(column) : 'NULL'))
  })
  const histograms = HISTOGRAMS.map(([name, ms]) => {
    if (figures !== 'all') return 'NULL'
    if (from === 'requests') return dialect.countDurations?.(ms) ?? ms
    return isAdded ? dialect.addUp(name) : dialect.toText(name)
  })
  const end = isEach ? ` ORDER BY id LIMIT ${PAGE}` : isAdded ? ` GROUP BY ${by.map((_, i) => `c${i + 1}`)}` : ''
  return {
    sql: `SELECT ${toNamed([first, ...groups, ...measures, ...histograms])} ${which}${end}`,
    values: parameters.values,
    toCell: createToCell(by.length, isEach ? createCounter() : (text) => dialect.readText(String(text ?? ''))),
  }
}

const toDimension = (daily: DailySums | null) =>
  daily?.within ? toPair(daily.of, daily.within.scope) : String(daily?.of)

const createToCell = (dimensions: number, toHistogram: (value: Value) => Histogram): UsageStatement['toCell'] => {
  const counted = 1 + dimensions
  const paid = counted + COUNTS.length
  return (row) => ({
    of: row.slice(1, counted) as (string | number)[],
    counts: row.slice(counted, paid).map(Number),
    costNanoUsd: toSum(row[paid], row[paid + 1]),
    estimatedCostNanoUsd: toSum(row[paid + 2], row[paid + 3]),
    firstToken: toHistogram(row[paid + 4] ?? null),
    duration: toHistogram(row[paid + 5] ?? null),
  })
}

const toSum = (high: Value | undefined, low: Value | undefined) => (toWhole(high) << BigInt(HALF)) + toWhole(low)
const toWhole = (value: Value | undefined) => (typeof value === 'bigint' ? value : BigInt(Number(value)))

/** A row must match one value of each list. */
export function toConditions(
  dialect: Dialect,
  from: Source,
  where: UsageFilter,
  parameters: Parameters,
): readonly string[] {
  const of = EXPRESSIONS[from]
  const among = (expression: string, wanted: readonly string[] = []) =>
    wanted.length === 0 ? [] : [`${expression} IN ${parameters.addAll(wanted)}`]
  const patterns = where.model ?? []
  const toMatch = (pattern: string) => dialect.matches(of.model, parameters.add(dialect.toPattern(pattern)))
  return [
    ...(where.ownKeys?.length === 0 ? ['1 = 0'] : among(of.key, where.ownKeys)),
    ...USAGE_FILTERS.flatMap((name) => (name === 'model' ? [] : among(of[name], where[name]))),
    // For the partial index of teams.
    ...((where.team ?? []).length === 0 ? [] : [`${of.team} <> ''`]),
    ...(patterns.length === 0 ? [] : [`(${patterns.map(toMatch).join(' OR ')})`]),
  ]
}

const MAX_KNOWN = 10_000

function createCounter() {
  const known = new Map<Value, Histogram>()
  return (ms: Value): Histogram => {
    const found = known.get(ms)
    if (found) return found
    if (known.size >= MAX_KNOWN) known.clear()
    const made = {}
    addDuration(made, ms === null ? null : Number(ms), 1)
    known.set(ms, made)
    return made
  }
}
