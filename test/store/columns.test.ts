/** Columns are named as the fields of rows, so that readers of any database find them. */
import { expect, test } from 'bun:test'
import { getTableColumns } from 'drizzle-orm'
import { SUMMED_COUNTS } from '../../src/domain/call-counts.ts'
import { CALL_FIELDS, REQUEST_FIELDS, toColumn } from '../../src/store/reports/columns.ts'
import { calls, requests, usageDaily, usageHourly } from '../../src/store/sqlite/ledger-schema.ts'

test.each([
  ['requests', requests, ['id', ...REQUEST_FIELDS]],
  ['calls', calls, ['requestId', ...CALL_FIELDS]],
] as const)('%s have the columns that readers know, and no other', (_, table, fields) => {
  const columns = Object.values(getTableColumns(table)).map(({ name }) => name)
  expect(columns.toSorted()).toEqual(fields.map(toColumn).toSorted())
})

test.each([usageHourly, usageDaily])('totals have a column for each count that is summed', (table) => {
  const columns = new Set(Object.values(getTableColumns(table)).map(({ name }) => name))
  expect(SUMMED_COUNTS.filter((field) => !columns.has(toColumn(field)))).toEqual([])
})
