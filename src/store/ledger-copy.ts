/** Copies the whole ledger from one database to another, and compares both. */
import type { StoredCall, StoredRequest } from './ledger-rows.ts'
import { HISTOGRAMS, MEASURES, PLACE } from './reports/measures.ts'

const TOTALS = [...MEASURES.map(({ name }) => name), ...HISTOGRAMS.map(([name]) => name)]

/** Tables that stay when requests are removed. The first columns are the key. */
export const SUM_TABLES = {
  usage_hourly: { key: ['hour_ms', ...PLACE], values: TOTALS },
  usage_daily: { key: ['dimension', 'day_ms', 'value'], values: TOTALS },
  refusals_hourly: { key: ['hour_ms', 'key_id', 'team_id', 'code'], values: ['refused', 'last_ms'] },
  key_uses: { key: ['key_id'], values: ['last_used_ms', 'last_model'] },
} as const satisfies Record<string, { key: readonly string[]; values: readonly string[] }>

export type SumTable = keyof typeof SUM_TABLES
export const ALL_SUMS: readonly SumTable[] = ['usage_hourly', 'usage_daily', 'refusals_hourly', 'key_uses']

export const columnsOf = (table: SumTable): readonly string[] => [...SUM_TABLES[table].key, ...SUM_TABLES[table].values]
export const isHistogram = (column: string) => column.endsWith('_histogram')

/** Values in the order of the columns, as text, since totals may exceed a number's range. A histogram is `12:3,13:1`. */
export type SumRow = readonly string[]

export interface WholeRequest {
  request: StoredRequest
  /** Empty for a request with one call. */
  calls: StoredCall[]
}

export interface LedgerCopy {
  /** By ID. */
  requestsAfter(id: string, limit: number): Promise<WholeRequest[]>
  /** By key. Refusals are totals of all nodes. */
  sumsAfter(table: SumTable, after: SumRow | null, limit: number): Promise<SumRow[]>
  /** Time since which no request was removed; 0 if none ever was. */
  keptFromMs(): Promise<number>
}

export interface LedgerTarget extends LedgerCopy {
  /** Replaces rows with the same key. */
  putSums(table: SumTable, rows: readonly SumRow[]): Promise<void>
  /** Marks requests from before as removed. Never decreases. */
  keepFrom(ms: number): Promise<void>
}

const PAGE = 1_000

export async function* sumsOf(copy: LedgerCopy, table: SumTable): AsyncGenerator<SumRow[]> {
  for (let after: SumRow | null = null; ; ) {
    const rows: SumRow[] = await copy.sumsAfter(table, after, PAGE)
    if (rows.length === 0) return
    yield rows
    after = rows.at(-1) ?? null
  }
}

export interface Compared {
  /** Settled or abandoned requests of all time. */
  requests: bigint
  costNanoUsd: bigint
  /** Number of compared rows. */
  sums: number
  /** The first row that is missing in one database or differs; null if all are equal. */
  difference: { table: SumTable; key: readonly string[] } | null
}

export async function compareSums(one: LedgerCopy, other: LedgerCopy): Promise<Compared> {
  const compared: Compared = { requests: 0n, costNanoUsd: 0n, sums: 0, difference: null }
  const [requests, cost] = ['requests', 'cost_nano_usd'].map((name) => columnsOf('usage_hourly').indexOf(name))
  for (const table of ALL_SUMS) {
    const { key } = SUM_TABLES[table]
    const pages = sumsOf(other, table)
    for await (const rows of sumsOf(one, table)) {
      const found = (await pages.next()).value ?? []
      const at = rows.findIndex((row, i) => JSON.stringify(row) !== JSON.stringify(found[i]))
      const wrong = at >= 0 ? rows[at] : found[rows.length]
      if (wrong) return { ...compared, difference: { table, key: wrong.slice(0, key.length) } }
      compared.sums += rows.length
      if (table !== 'usage_hourly') continue
      for (const row of rows) {
        compared.requests += BigInt(row[requests ?? -1] ?? 0)
        compared.costNanoUsd += BigInt(row[cost ?? -1] ?? 0)
      }
    }
    const [more] = (await pages.next()).value ?? []
    if (more) return { ...compared, difference: { table, key: more.slice(0, key.length) } }
  }
  return compared
}
