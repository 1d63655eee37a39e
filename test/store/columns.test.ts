/** Columns are named as the fields of rows, so that readers of any database find them. */
import { expect, test } from 'bun:test'
import { getTableColumns } from 'drizzle-orm'
import { CALL_FIELDS, REQUEST_FIELDS, SUMMED_COUNTS, toColumn } from '../../src/store/reports/columns.ts'
import { calls, requests, tokenColumns } from '../../src/store/sqlite/ledger-schema.ts'

test.each([
  ['requests', requests, ['id', ...REQUEST_FIELDS]],
  ['calls', calls, ['requestId', ...CALL_FIELDS]],
] as const)('%s have the columns that readers know, and no other', (_, table, fields) => {
  const columns = Object.values(getTableColumns(table)).map(({ name }) => name)
  expect(columns.toSorted()).toEqual(fields.map(toColumn).toSorted())
})

test('totals have the tokens in the order of their columns', () => {
  expect(SUMMED_COUNTS.map(String)).toEqual(Object.keys(tokenColumns()))
})
