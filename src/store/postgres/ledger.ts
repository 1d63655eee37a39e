/** The ledger of all nodes in PostgreSQL: taking a node's rows, and removing old ones. Throws a PostgresRefusal. */
import { DAY_MS } from '../../domain/time.ts'
import type { OutboxBatch } from '../ledger-store.ts'
import type { Postgres } from './client.ts'

/** How far a node's outbox has arrived. */
export interface ShipCursor {
  seq: number
  /** What the outbox has there; '' if nothing ever arrived. */
  mark: string
  /** By PostgreSQL's clock, ms; 0 if nothing ever arrived. */
  shippedMs: number
}

export interface Shipped extends Pick<ShipCursor, 'seq' | 'mark'> {
  /** False if the cursor was elsewhere: then nothing has changed. */
  isApplied: boolean
  /** Requests of a time whose requests were removed: their sums may be counted already. */
  ignored: number
}

export interface SharedLedger {
  cursor(): Promise<ShipCursor>
  /** Rows, sums, and cursor in one transaction. A batch that arrived before changes nothing. */
  ship(from: number, batch: Pick<OutboxBatch, 'to' | 'mark' | 'ids' | 'rows'>): Promise<Shipped>
  /** Of these requests, how many have ended there. */
  countEnded(ids: readonly string[]): Promise<number>
  /** Makes the partitions of all months in the span; returns how many. */
  makeMonths(span: { fromMs: number; untilMs: number }): Promise<number>
  /** Removes the requests of whole months before; sums stay. Returns how many partitions were dropped. */
  retain(beforeMs: number): Promise<number>
  /** Does both for PostgreSQL's time. @param keepMs Infinity = forever. */
  upkeep(keepMs: number): Promise<{ made: number; dropped: number }>
}

/** A batch takes some 30 ms. */
const SHIP_MS = 5_000
const UPKEEP_MS = 60_000

/** Partitions are there so long before they are needed. */
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
      // A clock that is far ahead of all requests is wrong.
      const beforeMs = Math.min(nowMs, latestMs + MAX_AHEAD_MS) - keepMs
      return { made, dropped: beforeMs > 0 ? await this.retain(beforeMs) : 0 }
    },
    makeMonths: ({ fromMs, untilMs }) => count('make_ledger_months($1::int8, $2::int8)', [fromMs, untilMs]),
    retain: (beforeMs) => count('retain_ledger($1::int8)', [beforeMs]),
  }
}
