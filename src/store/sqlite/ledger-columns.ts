/**
 * The ledger's columns, as the statements of `ledger-*.ts` want them: fields of a row in a fixed order, with their names in
 * SQL. All of it follows from the groups of columns in `ledger-schema.ts`; no column is listed a second time.
 */
import { getTableColumns } from 'drizzle-orm'
import type { ClosedCall, ClosedRow, OpenCall, OpenRow } from '../ledger-rows.ts'
import { calls, outcomeColumns, requests, reservedColumns, targetColumns, tokenColumns } from './ledger-schema.ts'

type Value = string | number | null

const fieldsOf = <T extends object>(group: T) => Object.keys(group) as (keyof T & string)[]

const outcome = fieldsOf(outcomeColumns())
/** What the end of a request has beside that of a call. */
const ofRequests = ['attempts', 'firstCall'] as const
const isOutcome: ReadonlySet<string> = new Set([...outcome, ...ofRequests])

/** What stands in the row of a request when it is opened, and once it is closed. */
export const OPEN = fieldsOf(getTableColumns(requests)).filter((field): field is keyof OpenRow => !isOutcome.has(field))
export const CLOSED: readonly (keyof ClosedRow)[] = [...OPEN, ...outcome, ...ofRequests]
/** What a call holds, which only grows. */
export const RESERVED = fieldsOf(reservedColumns())
/** What an outcome changes: a fallback may have moved the request to another target than the one it was opened for. */
export const SETTLED = [...fieldsOf(targetColumns()), ...RESERVED, ...outcome, ...ofRequests] as const

export const OPEN_CALL = fieldsOf(getTableColumns(calls)).filter(
  (field): field is keyof OpenCall => !isOutcome.has(field),
)
export const CLOSED_CALL: readonly (keyof ClosedCall)[] = [...OPEN_CALL, ...outcome]

/** What the rollup sums, and what a request has in common with its calls. */
export const SUMMED_COUNTS = fieldsOf(tokenColumns())
export const SUMMED = [...SUMMED_COUNTS, 'costNanoUsd'] as const

const names: Record<string, { name: string; default: unknown }> = {
  ...getTableColumns(calls),
  ...getTableColumns(requests),
}

/** The column of a field. */
export const column = (field: string): string => names[field]?.name ?? field
/** A list of columns that gives a row by its fields. */
export const selection = (fields: readonly string[]) => fields.map((field) => `${column(field)} AS ${field}`).join(', ')
export const placeholders = (fields: readonly unknown[]) => fields.map(() => '?').join(', ')

/** Adds a row where there is none yet. */
export function insertion(table: 'requests' | 'calls', fields: readonly string[], status?: 'open'): string {
  const [name, value] = status ? [', status', `, '${status}'`] : ['', '']
  const names = fields.map(column).join(', ')
  return `INSERT INTO ${table} (${names}${name}) VALUES (${placeholders(fields)}${value}) ON CONFLICT DO NOTHING`
}

/** A row's values, in the order of a list of its fields. What an older version did not write has the column's default. */
export function values<T extends string>(row: Record<T, Value>, fields: readonly T[]): Value[] {
  const out = new Array<Value>(fields.length)
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] as T
    const value = row[field]
    out[i] = value === undefined ? ((names[field]?.default ?? null) as Value) : value
  }
  return out
}
