/** The statements of `usage-reader.ts`, and from their rows to cells. Pure. */
import { addDuration, type Histogram } from '../../domain/histogram.ts'
import type { Dimension, UsageCell, UsageCount, UsageFilter, UsageQuery } from '../usage-store.ts'
import { placeholders, SUMMED } from './ledger-columns.ts'
import { HISTOGRAMS, MEASURES } from './ledger-rollup.ts'
import { toGlob } from './pattern.ts'

type Value = string | number | bigint | Uint8Array | null

export interface UsageStatement {
  sql: string
  /** Of the filter, behind those of the span. */
  values: string[]
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
  rollup: {
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

/** Cells of a page: some tens of milliseconds. */
export const PAGE = 10_000

/** Parameters of the rollup: hour, hour after the last. Of requests: id before the first, id after the last, fromMs, untilMs. */
const FROM: Record<Source, string> = {
  rollup: 'FROM usage_hourly WHERE hour_ms >= ?1 AND hour_ms < ?2',
  requests: `FROM requests WHERE id > ?1 AND id < ?2 AND created_ms >= ?3 AND created_ms < ?4 AND status <> 'open'`,
}
const END: Record<Source, string> = { rollup: '', requests: `ORDER BY id LIMIT ${PAGE}` }

/** Money is read in two halves: a sum of it may be beyond what a number holds exactly. */
const HALF = 30
const toHalves = (sql: string) => `(${sql}) >> ${HALF}, (${sql}) & ${2 ** HALF - 1}`

/** The first column is where a next page of requests goes on. */
const SELECTED: Record<Source, string> = {
  rollup: MEASURES.map(({ name }) => (MONEY.includes(name) ? toHalves(name) : name))
    .concat(HISTOGRAMS.map(([name]) => name))
    .join(', '),
  requests: MEASURES.map(({ name, sql }) => (MONEY.includes(name) ? toHalves(sql) : sql))
    .concat(HISTOGRAMS.map(([, counted]) => counted))
    .join(', '),
}
const START: Record<Source, string> = { rollup: 'hour_ms', requests: 'id' }

export function toUsageStatement({ from, by, where }: Omit<UsageQuery, 'span'>): UsageStatement {
  const { conditions, values } = toConditions(from, where)
  const selected = [START[from], ...by.map((dimension) => EXPRESSIONS[from][dimension]), SELECTED[from]]
  const sql = [`SELECT ${selected.join(', ')}`, [FROM[from], ...conditions].join(' AND '), END[from]].join(' ')
  const toHistogram = from === 'rollup' ? createParser() : createCounter()
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
function toConditions(from: Source, where: UsageFilter): { conditions: string[]; values: string[] } {
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

/** Texts and times of which most have been seen before. */
const MOST_KNOWN = 10_000

/** Reads histograms of the rollup: of few requests there are few different ones. */
function createParser() {
  return createMemory((text): Histogram => JSON.parse(String(text ?? '{}')))
}

/** Makes histograms of one time each. */
function createCounter() {
  return createMemory((ms): Histogram => {
    const histogram = {}
    addDuration(histogram, ms === null ? null : Number(ms), 1)
    return histogram
  })
}

function createMemory(make: (value: Value) => Histogram) {
  const known = new Map<Value, Histogram>()
  return (value: Value): Histogram => {
    const found = known.get(value)
    if (found) return found
    if (known.size >= MOST_KNOWN) known.clear()
    const made = make(value)
    known.set(value, made)
    return made
  }
}
