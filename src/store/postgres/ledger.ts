/** The ledger of all nodes in PostgreSQL: stores a node's rows, and removes old ones. Throws a PostgresRefusal. */
import { DAY_MS } from '../../domain/time.ts'
import type { OutboxBatch } from '../ledger-store.ts'
import type { Postgres } from './client.ts'

/** The last entry of a node's outbox in PostgreSQL. */
export interface ShipCursor {
  seq: number
  /** Mark of this entry; '' if nothing ever arrived. */
  mark: string
  /** By PostgreSQL's clock, ms; 0 if nothing ever arrived. */
  shippedMs: number
}

export interface Shipped extends Pick<ShipCursor, 'seq' | 'mark'> {
  /** False if the cursor was elsewhere. Then nothing has changed. */
  isApplied: boolean
  /** Ignored requests from removed months, whose totals may be counted already. */
  ignored: number
}

export interface SharedLedger {
  cursor(): Promise<ShipCursor>
  /** Writes rows, totals, and cursor in one transaction. A repeated batch changes nothing. */
  ship(from: number, batch: Pick<OutboxBatch, 'to' | 'mark' | 'ids' | 'rows'>): Promise<Shipped>
  /** Number of these requests that have ended in PostgreSQL. */
  countEnded(ids: readonly string[]): Promise<number>
  /** Creates the partitions of all months in the span; returns their number. */
  makeMonths(span: { fromMs: number; untilMs: number }): Promise<number>
  /** Drops partitions of whole months before `beforeMs`; totals stay. Returns the number of dropped partitions. */
  retain(beforeMs: number): Promise<number>
  /** Does both, by PostgreSQL's clock. @param keepMs Infinity = forever. */
  upkeep(keepMs: number): Promise<{ made: number; dropped: number }>
}

/** A batch takes about 30 ms. */
const SHIP_MS = 5_000
const UPKEEP_MS = 60_000

/** How long in advance partitions are created. */
const AHEAD_MS = 62 * DAY_MS
const MAX_AHEAD_MS = 7 * DAY_MS
const TIMES = `select tollgate.now_ms() as "nowMs", coalesce(max(hour_ms), 0) as "latestMs" from tollgate.usage_hourly`
const ENDED = `select count(*) as count from tollgate.requests where id = any($1::text::uuid[]) and status <> 'open'`
const CURSOR = 'select seq, mark, shipped_ms as "shippedMs" from tollgate.ledger_cursors where node = $1'
const SHIP = `
  select seq, mark, is_applied as "isApplied", ignored
  from tollgate.ship_ledger($1, $2::int8, $3::int8, $4, $5::text::uuid[], $6::text::json)`

export function createSharedLedger(postgres: Pick<Postgres, 'query'>, node: string): SharedLedger {
  const count = async (call: string, values: readonly number[]): Promise<number> => {
    const [row] = await postgres.query<{ count: number }>(`select tollgate.${call} as count`, values, {
      timeoutMs: UPKEEP_MS,
    })
    return row?.count ?? 0
  }
  return {
    async cursor() {
      const [row] = await postgres.query<ShipCursor>(CURSOR, [node])
      return row ?? { seq: 0, mark: '', shippedMs: 0 }
    },
    async ship(from, { to, mark, ids, rows }) {
      const values = [node, from, to, mark, `{${ids.join(',')}}`, rows]
      const [shipped] = await postgres.query<Shipped>(SHIP, values, { timeoutMs: SHIP_MS })
      if (!shipped) throw new Error('tollgate.ship_ledger returned nothing')
      return shipped
    },
    async countEnded(ids) {
      const [row] = await postgres.query<{ count: number }>(ENDED, [`{${ids.join(',')}}`])
      return row?.count ?? 0
    },
    async upkeep(keepMs) {
      const [row] = await postgres.query<{ nowMs: number; latestMs: number }>(TIMES)
      if (!row) throw new Error('PostgreSQL has no time')
      const { nowMs, latestMs } = row
      const made = await this.makeMonths({ fromMs: nowMs, untilMs: nowMs + AHEAD_MS })
      // If the clock is far ahead of all requests, it is wrong.
      const beforeMs = Math.min(nowMs, latestMs + MAX_AHEAD_MS) - keepMs
      return { made, dropped: beforeMs > 0 ? await this.retain(beforeMs) : 0 }
    },
    makeMonths: ({ fromMs, untilMs }) => count('make_ledger_months($1::int8, $2::int8)', [fromMs, untilMs]),
    retain: (beforeMs) => count('retain_ledger($1::int8)', [beforeMs]),
  }
}
