/** Figures of hourly and daily totals, and the names of their rows. */
import { SUMMED_COUNTS } from '../../domain/call-counts.ts'
import type { ClosedRow } from '../ledger-rows.ts'
import { DAILY, type Daily, SCOPES, type Scope, WITHIN } from '../report-store.ts'
import { type SUMMED, toColumn } from './columns.ts'

interface Measure {
  /** Column of totals. */
  name: string
  of(row: ClosedRow): number
  /** Value of a row in `requests`. */
  sql: string
}

const toMeasure = (field: (typeof SUMMED)[number]): Measure => ({
  ...{ name: toColumn(field), of: (row) => row[field] ?? 0, sql: toColumn(field) },
})

export const MEASURES: readonly Measure[] = [
  { name: 'requests', of: () => 1, sql: '1' },
  {
    name: 'errors',
    of: ({ status }) => (status === 'failed' || status === 'abandoned' ? 1 : 0),
    sql: `CASE WHEN status IN ('failed', 'abandoned') THEN 1 ELSE 0 END`,
  },
  {
    name: 'cuts',
    of: ({ status }) => (status === 'cut' ? 1 : 0),
    sql: `CASE status WHEN 'cut' THEN 1 ELSE 0 END`,
  },
  ...SUMMED_COUNTS.map(toMeasure),
  { name: 'unpriced', of: ({ unpriced }) => (unpriced ? 1 : 0), sql: 'unpriced' },
  toMeasure('costNanoUsd'),
  {
    name: 'estimated_cost_nano_usd',
    of: ({ estimated, costNanoUsd }) => (estimated ? costNanoUsd : 0),
    sql: 'CASE estimated WHEN 0 THEN 0 ELSE cost_nano_usd END',
  },
]

/** '' for no team. */
export const PLACE = ['key_id', 'team_id', 'model', 'upstream', 'endpoint'] as const

/** Indexes in PLACE of its value and, for pairs, of its scope. */
interface DaySums {
  dimension: string
  of: number
  scope: number | null
}

/** `key of model`. */
export const toPair = (of: Daily, scope: Scope) => `${of} of ${scope}`

/** Occurs in no ID. */
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

/** With the ledger column each counts. */
export const HISTOGRAMS = [
  ['first_token_histogram', 'first_token_ms'],
  ['duration_histogram', 'duration_ms'],
] as const
