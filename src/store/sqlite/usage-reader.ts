/** Reads usage, one page per statement: a snapshot held for a whole report would keep the WAL from being reset. Read-only. */
import { Database } from 'bun:sqlite'
import { toFirstId } from '../../domain/id.ts'
import { type Dimension, USAGE_FILTERS } from '../../domain/report-filters.ts'
import { DAY_MS, HOUR_MS } from '../../domain/time.ts'
import { addDuration, type Histogram, sumHistograms } from '../histogram.ts'
import {
  type DailySums,
  type Ranking,
  toDaily,
  toGroupId,
  type UsageCell,
  type UsageCount,
  type UsageFigures,
  type UsageFilter,
  type UsageQuery,
  type UsageReader,
} from '../report-store.ts'
import { BETWEEN, HISTOGRAMS, MEASURES, toPair } from './ledger-rollup.ts'
import { createIdSlices, placeholders, SLACK_MS, SUMMED_COUNTS, toIdAfter } from './ledger-schema.ts'
import { createKeptFrom } from './prune.ts'

/** Per page. */
const MAX_HOURS = 24
/** Per page: some tens of milliseconds. */
const MAX_SUMS = 40_000
/** Per page. */
const MAX_DAYS = 32

export function createUsageReader(sqlite: Database): UsageReader {
  const hourIn = sqlite.query<{ ms: number | null }, [number, number]>(
    'SELECT MIN(hour_ms) AS ms FROM usage_hourly WHERE hour_ms >= ? AND hour_ms < ?',
  )
  const dayIn = sqlite.query<{ ms: number | null }, [number, number]>(
    "SELECT MIN(day_ms) AS ms FROM usage_daily WHERE dimension = 'endpoint' AND day_ms >= ? AND day_ms < ?",
  )
  const slicesOf = createIdSlices(sqlite)
  const keptFromMs = createKeptFrom(sqlite)

  const read = ({ sql, values, toCell }: UsageStatement, ...span: (string | number)[]) => {
    const rows = sqlite.query<object, (string | number)[]>(sql).values(...span, ...values)
    return { cells: rows.map(toCell), firsts: rows.map(([first]) => first) }
  }

  async function* pagesOfDays({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    for (let at = dayIn.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
      const end = Math.min(at + MAX_DAYS * DAY_MS, untilMs)
      yield read(statement, at, end).cells
      at = dayIn.get(end, untilMs)?.ms ?? null
    }
  }

  async function* pagesOfHours({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    let many = 1
    for (let at = hourIn.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
      const end = Math.min(at + many * HOUR_MS, untilMs)
      const { cells, firsts } = read(statement, at, end)
      yield cells
      const size = firsts.reduce<number>((sum, count) => sum + Number(count), 0)
      if (size > MAX_SUMS) many = Math.max(1, Math.floor(many / 2))
      else if (size < MAX_SUMS / 4) many = Math.min(MAX_HOURS, many * 2)
      at = hourIn.get(end, untilMs)?.ms ?? null
    }
  }

  async function* pagesOfRequests({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    for (const [first, stop] of slicesOf(toFirstId(fromMs - SLACK_MS), toIdAfter(untilMs + SLACK_MS))) {
      let cursor = first
      for (let isMore = true; isMore; ) {
        const { cells, firsts } = read(statement, cursor, stop, fromMs, untilMs)
        yield cells
        isMore = cells.length === PAGE
        cursor = String(firsts.at(-1) ?? cursor)
      }
    }
  }

  return {
    counts: COUNTS,
    pages(query) {
      const statement = toUsageStatement(query)
      if (query.from === 'days') return pagesOfDays(query.span, statement)
      return query.from === 'hours' ? pagesOfHours(query.span, statement) : pagesOfRequests(query.span, statement)
    },
    hasHours: async ({ fromMs, untilMs }) => (hourIn.get(fromMs, untilMs)?.ms ?? null) !== null,
    keptFromMs,
    rank: createRanking,
  }
}

type Value = string | number | bigint | Uint8Array | null

interface UsageStatement {
  sql: string
  /** After the span's: the scope of pairs, then the filter's. */
  values: string[]
  /** First column: where the next page of requests starts, or the number of totals. */
  toCell(row: readonly Value[]): UsageCell
}

/** In column order. */
const COUNTS: readonly UsageCount[] = ['requests', 'errors', 'cuts', ...SUMMED_COUNTS, 'unpriced']
const MONEY = ['cost_nano_usd', 'estimated_cost_nano_usd']

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
    user: `COALESCE(user, '')`,
    ...toTimes('created_ms'),
  },
}

/** Some tens of milliseconds. */
const PAGE = 10_000

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

const BEHIND = String.fromCharCode(BETWEEN.charCodeAt(0) + 1)

/** In two halves, since sums may exceed a safe integer. */
const HALF = 30
const toHalves = (sql: string) => `(${sql}) >> ${HALF}, (${sql}) & ${2 ** HALF - 1}`

/** Unwanted ones are null. */
const toMeasures = (figures: UsageFigures, of: (measure: (typeof MEASURES)[number]) => string) =>
  MEASURES.map((measure) => (figures !== 'spend' || SPEND.has(measure.name) ? of(measure) : 'NULL')).join(', ')

const SPEND: ReadonlySet<string> = new Set(['requests', ...MONEY])

const isMoney = ({ name }: { name: string }) => MONEY.includes(name)

const toEach = (figures: UsageFigures) =>
  `${toMeasures(figures, (one) => (isMoney(one) ? toHalves(one.sql) : one.sql))}, ${toLatencies(figures, (_, counted) => counted)}`

/** Histograms are concatenated. */
const toAdded = (figures: UsageFigures) =>
  `${toMeasures(figures, (one) =>
    isMoney(one) ? `SUM(${one.name} >> ${HALF}), SUM(${one.name} & ${2 ** HALF - 1})` : `SUM(${one.name})`,
  )}, ${toLatencies(figures, (name) => `group_concat(${name})`)}`

const toAlone = (figures: UsageFigures) =>
  `${toMeasures(figures, (one) => (isMoney(one) ? toHalves(one.name) : one.name))}, ${toLatencies(figures, (name) => name)}`

const toLatencies = (figures: UsageFigures, of: (name: string, counted: string) => string) =>
  HISTOGRAMS.map(([name, counted]) => (figures === 'all' ? of(name, counted) : 'NULL')).join(', ')

export function toUsageStatement({ from, by, where, figures = 'all' }: Omit<UsageQuery, 'span'>): UsageStatement {
  const daily = from === 'days' ? toDaily(by, where) : null
  const within = daily?.within ?? null
  const source = within === null ? from : 'pairs'
  const { conditions, values } = toConditions(source, daily?.where ?? where)
  const groups = by.map((dimension) => EXPRESSIONS[source][dimension]).join(', ')
  const which = [FROM[source](toDimension(daily)), ...conditions].join(' AND ')
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
  return { sql, values: within === null ? values : [within.name, ...values], toCell }
}

const toDimension = (daily: DailySums | null) =>
  daily?.within ? toPair(daily.of, daily.within.scope) : String(daily?.of)

const toSum = (high: Value | undefined, low: Value | undefined) =>
  (BigInt(Number(high)) << BigInt(HALF)) + BigInt(Number(low))

/** A row must match one value of each list. */
export function toConditions(from: Source, where: UsageFilter): { conditions: string[]; values: string[] } {
  const of = EXPRESSIONS[from]
  const among = (expression: string, wanted: readonly string[] = []) =>
    wanted.length === 0 ? [] : [{ condition: `${expression} IN (${placeholders(wanted)})`, values: wanted }]
  const patterns = where.model ?? []
  const all = [
    ...(where.ownKeys ? [{ condition: `${of.key} IN (${placeholders(where.ownKeys)})`, values: where.ownKeys }] : []),
    ...USAGE_FILTERS.flatMap((name) => (name === 'model' ? [] : among(of[name], where[name]))),
    // For the partial index of teams.
    ...((where.team ?? []).length === 0 ? [] : [{ condition: `${of.team} <> ''`, values: [] }]),
    ...(patterns.length === 0
      ? []
      : [{ condition: `(${patterns.map(() => `${of.model} GLOB ?`).join(' OR ')})`, values: patterns.map(toGlob) }]),
  ]
  return { conditions: all.map(({ condition }) => condition), values: all.flatMap(({ values }) => values) }
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

function createRanking(): Ranking {
  const sqlite = new Database('')
  // Larger sums rank correctly, though not exact.
  sqlite.run('CREATE TABLE groups (id TEXT PRIMARY KEY, cost REAL NOT NULL, requests INTEGER NOT NULL) WITHOUT ROWID')
  const insert = sqlite.query(
    `INSERT INTO groups VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET cost = cost + excluded.cost, requests = requests + excluded.requests`,
  )
  return {
    add: sqlite.transaction((cells: readonly UsageCell[]) => {
      for (const { of, counts, costNanoUsd } of cells) insert.run(toGroupId(of), Number(costNanoUsd), counts[0] ?? 0)
    }),
    count: () => sqlite.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM groups').get()?.n ?? 0,
    top: (limit) =>
      sqlite
        .query<{ id: string }, [number]>('SELECT id FROM groups ORDER BY cost DESC, requests DESC, id LIMIT ?')
        .all(limit)
        .map(({ id }) => id),
    [Symbol.dispose]: () => sqlite.close(),
  }
}

export const toGlob = (pattern: string) => pattern.replace(/[?[]/g, '[$&]')
