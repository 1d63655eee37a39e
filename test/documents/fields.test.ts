/** Documents name fields like their columns. */
import { expect, test } from 'bun:test'
import { getTableColumns } from 'drizzle-orm'
import { toColumn } from '../../src/documents/fields.ts'
import { calls, requests, usageHourly } from '../../src/store/sqlite/ledger-schema.ts'

test.each([
  ['requests', requests],
  ['calls', calls],
  ['usage_hourly', usageHourly],
])('every field of %s has the name of its column', (_, table) => {
  const columns = Object.entries(getTableColumns(table))
  expect(columns.map(([field]) => toColumn(field))).toEqual(columns.map(([, { name }]) => name))
})
