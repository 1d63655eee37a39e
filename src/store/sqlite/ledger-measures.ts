/**
 * What the rollup sums of settled rows, by the hour and by the day, and how such sums are written. `ledger-rollup.ts` and
 * `ledger-days.ts` gather them; `ledger-audit.ts` holds the same measures against the rows.
 */
import type { Database } from 'bun:sqlite'
import { addBuckets, type Buckets, mergeBuckets } from '../histogram.ts'
import type { ClosedRow } from '../ledger-rows.ts'
import { DAILY, type Daily, SCOPES, type Scope, WITHIN } from '../usage-store.ts'
import { column, placeholders, type SUMMED, SUMMED_COUNTS } from './ledger-columns.ts'

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
export const COST = MEASURES.findIndex(({ name }) => name === 'cost_nano_usd')

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

export interface Sums {
  /** In the order of MEASURES. */
  sums: number[]
  firstToken: Buckets
  duration: Buckets
}

export const createSums = (): Sums => ({ sums: MEASURES.map(() => 0), firstToken: [], duration: [] })

/** Adds `delta`, in place. */
export function addSums(sum: Sums, delta: Sums): void {
  for (let i = 0; i < sum.sums.length; i++) sum.sums[i] = (sum.sums[i] ?? 0) + (delta.sums[i] ?? 0)
  addBuckets(sum.firstToken, delta.firstToken)
  addBuckets(sum.duration, delta.duration)
}

/**
 * Writes sums into rows of a table, on top of what they have.
 *
 * @param place the columns of its primary key, whose values come with the sums.
 */
export function createSumWriter(sqlite: Database, table: 'usage_hourly' | 'usage_daily', place: readonly string[]) {
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
