/** Reads the whole ledger from any database. */
import { columnsOf, isHistogram, type LedgerCopy, SUM_TABLES, type SumRow, type SumTable } from '../ledger-copy.ts'
import type { StoredCall, StoredRequest } from '../ledger-rows.ts'
import { CALL_FIELDS, REQUEST_FIELDS, toSelection } from './columns.ts'
import { type Dialect, type Engine, toNamed } from './engine.ts'

const isTime = (column: string) => column.endsWith('_ms')

export function createLedgerCopy({ dialect, rows, lists, keptFromMs }: Engine): LedgerCopy {
  const requests = `
    SELECT ${dialect.toId('id')} AS id, ${toSelection(REQUEST_FIELDS)} FROM requests WHERE id > ?1
    ORDER BY requests.id LIMIT ?2`
  const calls = `
    SELECT ${dialect.toId('request_id')} AS "requestId", ${toSelection(CALL_FIELDS)} FROM calls
    WHERE request_id > ?1 AND request_id <= ?2 ORDER BY calls.request_id, number`
  return {
    keptFromMs,
    async requestsAfter(id, limit) {
      const found = await rows<StoredRequest>(requests, [dialect.toBound(id), limit])
      const last = found.at(-1)
      const all = last ? await rows<StoredCall>(calls, [dialect.toBound(id), dialect.toBound(last.id)]) : []
      const byRequest = Map.groupBy(all, ({ requestId }) => requestId)
      return found.map((request) => ({ request, calls: byRequest.get(request.id) ?? [] }))
    },
    async sumsAfter(table, after, limit) {
      const columns = columnsOf(table)
      const values = toAfter(table, after)
      const found = await lists(toSums(dialect, table, values.length > 0), [...values, limit])
      return found.map((row) => columns.map((column, i) => toSumText(dialect, column, row[i])))
    },
  }
}

const toAfter = (table: SumTable, after: SumRow | null) =>
  after === null ? [] : SUM_TABLES[table].key.map((column, i) => (isTime(column) ? Number(after[i]) : (after[i] ?? '')))

function toSums(dialect: Dialect, table: SumTable, isAfter: boolean): string {
  const { key } = SUM_TABLES[table]
  const names = key.map((column) => `${table}.${column}`)
  const select = columnsOf(table).map((column) => {
    if (isHistogram(column)) return dialect.toText(`${table}.${column}`)
    if (table !== 'refusals_hourly' || names.includes(`${table}.${column}`)) return `CAST(${table}.${column} AS TEXT)`
    return `CAST(${column === 'last_ms' ? 'MAX' : 'SUM'}(${table}.${column}) AS TEXT)`
  })
  const where = isAfter ? `WHERE (${names.join(', ')}) > (${names.map((_, i) => `?${i + 1}`).join(', ')})` : ''
  const group = table === 'refusals_hourly' ? `GROUP BY ${names.join(', ')}` : ''
  const limit = `LIMIT ?${isAfter ? names.length + 1 : 1}`
  return `SELECT ${toNamed(select)} FROM ${table} ${where} ${group} ORDER BY ${names.join(', ')} ${limit}`
}

const toSumText = (dialect: Dialect, column: string, value: unknown): string =>
  isHistogram(column)
    ? Object.entries(dialect.readText(String(value)))
        .map(([bucket, count]) => `${bucket}:${count}`)
        .join(',')
    : String(value)
