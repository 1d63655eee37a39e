/**
 * Sums settled rows by the hour and by the day, and notes when each key was last used, inside the transaction that settles them. A batch
 * of rows mostly falls into few cells (hour, key, team, model, upstream, endpoint), so deltas are gathered in memory and each
 * cell is written once. `ledger-apply.ts` calls it; `ledger-audit.ts` holds the same measures against the rows.
 */
import type { Database } from 'bun:sqlite'
import { dayOf, hourOf } from '../../domain/time.ts'
import { addBuckets, type Buckets, countDuration, mergeBuckets } from '../histogram.ts'
import type { ClosedRow, OpenRow } from '../ledger-rows.ts'
import { DAILY, type Daily, SCOPES, type Scope, WITHIN } from '../report-store.ts'
import { column, placeholders, type SUMMED, SUMMED_COUNTS } from './ledger-schema.ts'

interface Rollup {
  /** Counts a row (`sign` 1), or takes back what it counted before (-1). Call it inside the transaction of the row. */
  add(row: ClosedRow, sign: 1 | -1): void
  /** Writes the gathered deltas. Call it inside the transaction of the rows. */
  flush(): void
  /** Forgets the gathered deltas, after a rollback. */
  clear(): void
}

interface Cell extends Sums {
  hourMs: number
  place: string[]
}

export function createRollup(sqlite: Database): Rollup {
  const cells = new Map<string, Cell>()
  /** Of the row before: most rows of a batch are of one cell. */
  let latest: Cell | null = null
  const write = createSumWriter(sqlite, 'usage_hourly', ['hour_ms', ...PLACE])
  const days = createDays(sqlite)

  const cellOf = (row: ClosedRow): Cell => {
    const hourMs = hourOf(row.createdMs)
    if (latest !== null && isOf(row, hourMs, latest)) return latest
    const place = [row.keyId, row.teamId ?? '', row.model, row.upstream, row.endpoint]
    const name = JSON.stringify([hourMs, ...place])
    latest = cells.get(name) ?? { hourMs, place, ...createSums() }
    cells.set(name, latest)
    return latest
  }

  const clear = () => {
    cells.clear()
    days.clear()
    latest = null
  }

  const flush = () => {
    // In the order of the tables: a page that is written to is left for good before the next one.
    for (const cell of [...cells.values()].sort(byPlace)) {
      write([cell.hourMs, ...cell.place], cell)
      days.add(cell.hourMs, cell.place, cell)
    }
    days.flush()
    clear()
  }

  return {
    add(row, sign) {
      // SQLite adds up exactly far beyond what a number holds.
      if (Math.abs(cellOf(row).sums[COST] ?? 0) + row.costNanoUsd > Number.MAX_SAFE_INTEGER) flush()
      const cell = cellOf(row)
      for (let i = 0; i < MEASURES.length; i++) cell.sums[i] = (cell.sums[i] ?? 0) + sign * (MEASURES[i]?.of(row) ?? 0)
      countDuration(cell.firstToken, row.firstTokenMs, sign)
      countDuration(cell.duration, row.durationMs, sign)
    },
    flush,
    clear,
  }
}

const byPlace = ({ place: [a = ''] }: Cell, { place: [b = ''] }: Cell) => (a < b ? -1 : Number(a > b))

const isOf = (row: ClosedRow, hourMs: number, { hourMs: hour, place: [key, team, model, upstream, endpoint] }: Cell) =>
  hour === hourMs &&
  row.keyId === key &&
  (row.teamId ?? '') === team &&
  row.model === model &&
  row.upstream === upstream &&
  row.endpoint === endpoint

function createDays(sqlite: Database) {
  const write = createSumWriter(sqlite, 'usage_daily', ['dimension', 'day_ms', 'value'])
  /** Of one day, by their value. */
  const days = DAY_SUMS.map((of) => ({ ...of, values: new Map<string, Sums>() }))
  let dayMs = 0

  const add = ({ dimension, values }: (typeof days)[number], value: string, cell: Sums): void => {
    let sum = values.get(value)
    // SQLite adds up exactly far beyond what a number holds.
    if (sum && Math.abs(sum.sums[COST] ?? 0) + Math.abs(cell.sums[COST] ?? 0) > Number.MAX_SAFE_INTEGER) {
      write([dimension, dayMs, value], sum)
      sum = undefined
    }
    if (!sum) {
      sum = createSums()
      values.set(value, sum)
    }
    addSums(sum, cell)
  }

  const clear = () => {
    for (const { values } of days) values.clear()
  }

  const flush = () => {
    for (const { dimension, values } of days) for (const [value, sum] of values) write([dimension, dayMs, value], sum)
    clear()
  }

  return {
    /** @param place what the cell is of, in the order of DAILY. */
    add(hourMs: number, place: readonly string[], cell: Sums): void {
      // Hardly a batch is of two days.
      if (dayOf(hourMs) !== dayMs) flush()
      dayMs = dayOf(hourMs)
      for (const day of days) {
        const value = place[day.of] ?? ''
        const scope = day.scope === null ? null : place[day.scope]
        // What has no team is within none.
        if (scope !== '') add(day, scope === null ? value : scope + BETWEEN + value, cell)
      }
    },
    /** Writes what was gathered. Call it inside the transaction of the cells. */
    flush,
    /** Forgets it, after a rollback. */
    clear,
  }
}

/** A column that sums something: what a row adds to it, and the same in SQL. */
interface Measure {
  name: string
  of(row: ClosedRow): number
  sql: string
}

function toMeasure(field: (typeof SUMMED)[number]): Measure {
  return { name: column(field), of: (row) => row[field], sql: column(field) }
}

export const MEASURES: readonly Measure[] = [
  { name: 'requests', of: () => 1, sql: '1' },
  {
    name: 'errors',
    of: ({ status }) => (status === 'failed' || status === 'abandoned' ? 1 : 0),
    sql: `status IN ('failed', 'abandoned')`,
  },
  { name: 'cuts', of: ({ status }) => (status === 'cut' ? 1 : 0), sql: `status = 'cut'` },
  ...SUMMED_COUNTS.map(toMeasure),
  { name: 'unpriced', of: ({ unpriced }) => (unpriced ? 1 : 0), sql: 'unpriced' },
  toMeasure('costNanoUsd'),
  {
    name: 'estimated_cost_nano_usd',
    of: ({ estimated, costNanoUsd }) => (estimated ? costNanoUsd : 0),
    sql: 'CASE WHEN estimated THEN cost_nano_usd ELSE 0 END',
  },
]

/** Where in a list of sums the cost stands. */
const COST = MEASURES.findIndex(({ name }) => name === 'cost_nano_usd')

/** What a cell is of, as columns of `usage_hourly`; in `requests` a key without a team has none. */
export const PLACE = ['key_id', 'team_id', 'model', 'upstream', 'endpoint'] as const

/** What days are summed by: the dimension that a row says, and where in a place that stands which it is of, and is within, if it is. */
interface DaySums {
  dimension: string
  of: number
  scope: number | null
}

/** How sums within a model, or a team, are named: `key of model`. */
export const toPair = (of: Daily, scope: Scope) => `${of} of ${scope}`

/** In a value, between the model, or the team, and what is summed within it. Names of models have none, nor has an id. */
export const BETWEEN = ' '

export const DAY_SUMS: readonly DaySums[] = [
  ...DAILY.map((of, at) => ({ dimension: of, scope: null, of: at })),
  ...SCOPES.flatMap((scope) =>
    WITHIN[scope].map((of) => ({
      dimension: toPair(of, scope),
      scope: DAILY.indexOf(scope),
      of: DAILY.indexOf(of),
    })),
  ),
]

/** Histograms of a cell, and the column of the ledger whose known values each counts. */
export const HISTOGRAMS = [
  ['first_token_histogram', 'first_token_ms'],
  ['duration_histogram', 'duration_ms'],
] as const

interface Sums {
  /** In the order of MEASURES. */
  sums: number[]
  firstToken: Buckets
  duration: Buckets
}

const createSums = (): Sums => ({ sums: MEASURES.map(() => 0), firstToken: [], duration: [] })

/** Adds `delta`, in place. */
function addSums(sum: Sums, delta: Sums): void {
  for (let i = 0; i < sum.sums.length; i++) sum.sums[i] = (sum.sums[i] ?? 0) + (delta.sums[i] ?? 0)
  addBuckets(sum.firstToken, delta.firstToken)
  addBuckets(sum.duration, delta.duration)
}

/**
 * Writes sums into rows of a table, on top of what they have.
 *
 * @param place the columns of its primary key, whose values come with the sums.
 */
function createSumWriter(sqlite: Database, table: 'usage_hourly' | 'usage_daily', place: readonly string[]) {
  const where = place.map((name) => `${name} = ?`).join(' AND ')
  const read = sqlite.query<{ first: string; whole: string }, (string | number)[]>(
    `SELECT first_token_histogram AS first, duration_histogram AS whole FROM ${table} WHERE ${where}`,
  )
  const names = [...place, ...MEASURES.map(({ name }) => name), ...HISTOGRAMS.map(([name]) => name)]
  const upsert = sqlite.query(
    `INSERT INTO ${table} (${names.join(', ')}) VALUES (${placeholders(names)})
     ON CONFLICT (${place.join(', ')}) DO UPDATE SET
     ${MEASURES.map(({ name }) => `${name} = ${name} + excluded.${name}`).join(', ')},
     ${HISTOGRAMS.map(([name]) => `${name} = excluded.${name}`).join(', ')}`,
  )
  const removeEmpty = sqlite.query(`DELETE FROM ${table} WHERE ${where} AND requests = 0`)

  return (of: readonly (string | number)[], { sums, firstToken, duration }: Sums): void => {
    const stored = read.get(...of)
    upsert.run(
      ...[...of, ...sums],
      mergeBuckets(stored?.first ?? '{}', firstToken),
      mergeBuckets(stored?.whole ?? '{}', duration),
    )
    // A fallback settled elsewhere what had been abandoned here.
    if ((sums[0] ?? 0) <= 0) removeEmpty.run(...of)
  }
}

type Use = Pick<OpenRow, 'keyId' | 'createdMs' | 'model'>

interface KeyUses {
  note(row: Use): void
  /** Writes what was noted. Call it inside the transaction of the rows. */
  flush(): void
  /** Forgets what was noted, after a rollback. */
  clear(): void
}

export function createKeyUses(sqlite: Database): KeyUses {
  const uses = new Map<string, Use>()
  // Of two in one millisecond it is always the same one.
  const upsert = sqlite.query(
    `INSERT INTO key_uses (key_id, last_used_ms, last_model) VALUES (?, ?, ?)
     ON CONFLICT (key_id) DO UPDATE SET last_used_ms = excluded.last_used_ms, last_model = excluded.last_model
     WHERE (excluded.last_used_ms, excluded.last_model) > (last_used_ms, last_model)`,
  )

  return {
    note(row) {
      const latest = uses.get(row.keyId)
      if (!latest || isLater(row, latest)) uses.set(row.keyId, row)
    },
    flush() {
      for (const { keyId, createdMs, model } of uses.values()) upsert.run(keyId, createdMs, model)
      uses.clear()
    },
    clear: () => uses.clear(),
  }
}

const isLater = (one: Use, other: Use) =>
  one.createdMs > other.createdMs || (one.createdMs === other.createdMs && one.model > other.model)
