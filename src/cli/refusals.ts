/** `tollgate usage --refusals`: requests that were rejected before they were recorded. */
import { type RefusalsDocument, toRefusalFields } from '../documents/usage.ts'
import { REFUSAL_FILTERS, toDimensionTitle } from '../domain/report-filters.ts'
import { count, toCsv } from '../domain/text.ts'
import { toRefusalDimensions } from '../ledger/usage.ts'
import { readAnswerOf, withAdmin } from './admin-client.ts'
import { type Context, printJson, toDescribedTable, toPrintable, toTime } from './io.ts'
import { toForm, toNames, toReportQuery, type UsageFlags } from './usage-options.ts'

export async function refusals(flags: UsageFlags, io: Context): Promise<void> {
  const form = toForm(flags, io)
  const by = toRefusalDimensions(flags.by)
  const { query, nowMs } = toReportQuery(flags, REFUSAL_FILTERS, io)
  const report = await withAdmin(io, { readonly: true }, ({ send }) =>
    readAnswerOf<RefusalsDocument>(send(`/admin/api/usage/refusals?${query}`), (_, value) => value),
  )
  const { refusals: rows, other_count: others, since_ms, until_ms } = report
  if (others > 0)
    io.stderr(`note: ${count(others, 'more request')} in other groups; use a larger --limit to see them.\n`)
  if (form === 'json') return printJson(io, report)
  if (form === 'csv') {
    const fields = Object.keys(toRefusalFields(by))
    const lines = rows.map((row) => fields.map((field) => row[field] ?? null))
    return io.stdout(toCsv(fields, lines))
  }
  if (rows.length === 0) return io.stderr('No refused requests in this period. Try a longer one: --since 30d\n')
  const names = toNames(rows, by)
  const table = toDescribedTable(
    [...by.map((dimension) => toDimensionTitle(dimension).toUpperCase()), 'REFUSED', 'LAST (UTC)'],
    rows.map((row, i) => [
      ...(names[i] ?? []),
      Number(row.refused).toLocaleString('en-US'),
      toTime(Number(row.last_ms)),
    ]),
    rows.map(({ meaning = null }) => [toPrintable(String(meaning ?? ''))]),
    io.paint,
  )
  const period = `${toTime(since_ms)} to ${until_ms > nowMs ? 'now' : toTime(until_ms)} (UTC)`
  io.stdout(table + io.paint.aside(`${count(report.total, 'refused request')} from ${period}, in whole hours.\n`))
}
