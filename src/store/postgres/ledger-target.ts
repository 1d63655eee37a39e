/** The ledger of all nodes as the target of a copy from a single node. */
import { columnsOf, isHistogram, type LedgerTarget, SUM_TABLES, type SumTable } from '../ledger-copy.ts'
import { createLedgerCopy } from '../reports/ledger-copy.ts'
import type { Queries } from './client.ts'
import { createEngine } from './engine.ts'

/** @param node ID of the node whose counts get the refusals. */
export function createLedgerTarget(postgres: Queries, node: string): LedgerTarget {
  return {
    ...createLedgerCopy(createEngine(postgres)),
    async putSums(table, rows) {
      const columns = columnsOf(table)
      const toRow = (row: readonly string[]) =>
        Object.fromEntries(columns.map((column, i) => [column, toValue(column, row[i] ?? '')]))
      const values = [JSON.stringify(rows.map(toRow)), ...(table === 'refusals_hourly' ? [node] : [])]
      await postgres.query(toPut(table), values)
    },
    async keepFrom(ms) {
      await postgres.query('update tollgate.ledger_state set kept_from_ms = $1 where kept_from_ms < $1', [ms])
    },
  }
}

function toPut(table: SumTable): string {
  const { key, values } = SUM_TABLES[table]
  const columns = columnsOf(table).join(', ')
  const [node, value] = table === 'refusals_hourly' ? [', node', ', $2'] : ['', '']
  return `
    insert into tollgate.${table} (${columns}${node})
    select ${columns}${value} from json_populate_recordset(null::tollgate.${table}, $1::text::json)
    on conflict (${key.join(', ')}${node}) do update set
    ${values.map((column) => `${column} = excluded.${column}`).join(', ')}`
}

function toValue(column: string, text: string): string | number[] {
  if (!isHistogram(column)) return text
  const counts: number[] = []
  for (const each of text === '' ? [] : text.split(',')) {
    const [bucket = 0, count = 0] = each.split(':').map(Number)
    while (counts.length <= bucket) counts.push(0)
    counts[bucket] = count
  }
  return counts
}
