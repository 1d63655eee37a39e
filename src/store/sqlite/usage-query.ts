/** The statements of `usage-reader.ts`, and from their rows to cells. Pure. */
import { addDuration, type Histogram, sumHistograms } from '../../domain/histogram.ts'
import {
  type Dimension,
  toDaily,
  type UsageCell,
  type UsageCount,
  type UsageFigures,
  type UsageFilter,
  type UsageQuery,
} from '../usage-store.ts'
import { placeholders, SUMMED } from './ledger-columns.ts'
import { HISTOGRAMS, MEASURES } from './ledger-measures.ts'
import { toGlob } from './pattern.ts'

type Value = string | number | bigint | Uint8Array | null

export interface UsageStatement {
  sql: string
  /** Of the filter, behind those of the span. */
  values: string[]
  /** A row's first column is, of requests, where a next page goes on; else how many sums it is made of. */
  toCell(row: readonly Value[]): UsageCell
}

/** What a report counts beside money, in the order in which a statement selects it. */
export const COUNTS: readonly UsageCount[] = [
  'requests',
  'errors',
  'cuts',
  ...SUMMED.filter((field) => field !== 'costNanoUsd'),
]
const MONEY = ['cost_nano_usd', 'estimated_cost_nano_usd']

type Source = UsageQuery['from']

const toTimes = (atMs: string) => ({ hour: `${atMs} - ${atMs} % 3600000`, day: `${atMs} - ${atMs} % 86400000` })

const EXPRESSIONS: Record<Source, Record<Dimension, string>> = {
  // Of one thing at a time, whichever that is.
  days: {
    ...{ key: 'value', team: 'value', model: 'value', upstream: 'value', endpoint: 'value' },
    user: "''",
    ...toTimes('day_ms'),
  },
  hours: {
    key: 'key_id',
    team: 'team_id',
    model: 'model',
    upstream: 'upstream',
    endpoint: 'endpoint',
    user: "''",
    ...toTimes('hour_ms'),
  },
  requests: {
    key: 'key_id',
    team: `COALESCE(team_id, '')`,
    model: 'model',
    upstream: 'upstream',
    endpoint: 'endpoint',
    user: `COALESCE(user, '')`,
    ...toTimes('created_ms'),
  },
}

/** Requests of a page: some tens of milliseconds. */
export const PAGE = 10_000

/** Parameters of sums: fromMs, untilMs. Of requests: id before the first, id after the last, fromMs, untilMs. */
const FROM: Record<Source, (daily: string | null) => string> = {
  days: (daily) => `FROM usage_daily WHERE dimension = '${daily}' AND day_ms >= ?1 AND day_ms < ?2`,
  hours: () => 'FROM usage_hourly WHERE hour_ms >= ?1 AND hour_ms < ?2',
  requests: () =>
    `FROM requests WHERE id > ?1 AND id < ?2 AND created_ms >= ?3 AND created_ms < ?4 AND status <> 'open'`,
}

/** Money is read in two halves: a sum of it may be beyond what a number holds exactly. */
const HALF = 30
const toHalves = (sql: string) => `(${sql}) >> ${HALF}, (${sql}) & ${2 ** HALF - 1}`

/** The figures that a statement selects, each as `of` reads it; what is not wanted is null. */
const toMeasures = (figures: UsageFigures, of: (measure: (typeof MEASURES)[number]) => string) =>
  MEASURES.map((measure) => (figures === 'all' || SPEND.has(measure.name) ? of(measure) : 'NULL')).join(', ')

const SPEND: ReadonlySet<string> = new Set(['requests', ...MONEY])

const isMoney = ({ name }: { name: string }) => MONEY.includes(name)

/** Of one request. */
const toEach = (figures: UsageFigures) =>
  `${toMeasures(figures, (one) => (isMoney(one) ? toHalves(one.sql) : one.sql))}, ${toLatencies(figures, (_, counted) => counted)}`

/** What sums come to by the group: its histograms stand in one text. */
const toAdded = (figures: UsageFigures) =>
  `${toMeasures(figures, (one) =>
    isMoney(one) ? `SUM(${one.name} >> ${HALF}), SUM(${one.name} & ${2 ** HALF - 1})` : `SUM(${one.name})`,
  )}, ${toLatencies(figures, (name) => `group_concat(${name})`)}`

/** The same where each of them is a group of its own. */
const toAlone = (figures: UsageFigures) =>
  `${toMeasures(figures, (one) => (isMoney(one) ? toHalves(one.name) : one.name))}, ${toLatencies(figures, (name) => name)}`

/** What the latencies of a row, or of many, are read from. */
const toLatencies = (figures: UsageFigures, of: (name: string, counted: string) => string) =>
  HISTOGRAMS.map(([name, counted]) => (figures === 'all' ? of(name, counted) : 'NULL')).join(', ')

export function toUsageStatement({ from, by, where, figures = 'all' }: Omit<UsageQuery, 'span'>): UsageStatement {
  const { conditions, values } = toConditions(from, where)
  const groups = by.map((dimension) => EXPRESSIONS[from][dimension]).join(', ')
  const which = [FROM[from](toDaily(by, where)), ...conditions].join(' AND ')
  const isAlone = from === 'days' && by.includes('day')
  const sql = {
    requests: `SELECT id, ${groups}, ${toEach(figures)} ${which} ORDER BY id LIMIT ${PAGE}`,
    hours: `SELECT COUNT(*), ${groups}, ${toAdded(figures)} ${which} GROUP BY ${groups}`,
    days: isAlone
      ? `SELECT 1, ${groups}, ${toAlone(figures)} ${which}`
      : `SELECT COUNT(*), ${groups}, ${toAdded(figures)} ${which} GROUP BY ${groups}`,
  }[from]
  const toHistogram = from === 'requests' ? createCounter() : (texts: Value) => sumHistograms(String(texts ?? ''))
  const counted = 1 + by.length
  const paid = counted + COUNTS.length
  const toCell = (row: readonly Value[]): UsageCell => ({
    of: row.slice(1, counted) as (string | number)[],
    counts: row.slice(counted, paid) as number[],
    costNanoUsd: toSum(row[paid], row[paid + 1]),
    estimatedCostNanoUsd: toSum(row[paid + 2], row[paid + 3]),
    firstToken: toHistogram(row[paid + 4] ?? null),
    duration: toHistogram(row[paid + 5] ?? null),
  })
  return { sql, values, toCell }
}

const toSum = (high: Value | undefined, low: Value | undefined) =>
  (BigInt(Number(high)) << BigInt(HALF)) + BigInt(Number(low))

/** Any of the values of a list will do, of each list that is there. */
export function toConditions(from: Source, where: UsageFilter): { conditions: string[]; values: string[] } {
  const { key, team, model, upstream, endpoint, user } = EXPRESSIONS[from]
  const among = (expression: string, wanted: readonly string[] = []) =>
    wanted.length === 0 ? [] : [{ condition: `${expression} IN (${placeholders(wanted)})`, values: wanted }]
  const patterns = where.models ?? []
  const all = [
    ...(where.ownKeys ? [{ condition: `${key} IN (${placeholders(where.ownKeys)})`, values: where.ownKeys }] : []),
    ...among(key, where.keys),
    ...among(team, where.teams),
    // The index of teams has no rows without one, and is used only where that is said.
    ...((where.teams ?? []).length === 0 ? [] : [{ condition: `${team} <> ''`, values: [] }]),
    ...(patterns.length === 0
      ? []
      : [{ condition: `(${patterns.map(() => `${model} GLOB ?`).join(' OR ')})`, values: patterns.map(toGlob) }]),
    ...among(upstream, where.upstreams),
    ...among(endpoint, where.endpoints),
    ...among(user, where.users),
  ]
  return { conditions: all.map(({ condition }) => condition), values: all.flatMap(({ values }) => values) }
}

/** Times of which most have been seen before. */
const MOST_KNOWN = 10_000

/** Makes histograms of one time each. */
function createCounter() {
  const known = new Map<Value, Histogram>()
  return (ms: Value): Histogram => {
    const found = known.get(ms)
    if (found) return found
    if (known.size >= MOST_KNOWN) known.clear()
    const made = {}
    addDuration(made, ms === null ? null : Number(ms), 1)
    known.set(ms, made)
    return made
  }
}
