/**
 * Reads for lists what all keys, or all teams, have spent in several spans at a time, and when each key was last used.
 * `ledger-reader.ts` hands it on; what limits ask of one key at a time is there.
 */
import type { Database } from 'bun:sqlite'
import { PERIODS, type Period } from '../../domain/limits.ts'
import type { Spender } from '../../domain/snapshot.ts'
import type { Span, Spending } from '../ledger-store.ts'

/** A sum over the additional calls of a request, such as of what they have reserved; the first call's part is in the request's row. */
export const ofAdditionalCalls = (sum: string) =>
  `(SELECT COALESCE(SUM(${sum}), 0) FROM calls WHERE calls.request_id = requests.id)`

/** Parameters: `fromMs` and `untilMs` of each period. */
const SUMS = PERIODS.map(
  (period, i) => `SUM(CASE WHEN ms >= ?${2 * i + 1} AND ms < ?${2 * i + 2} THEN nano_usd ELSE 0 END) AS ${period}`,
).join(', ')

/**
 * One statement, so that a request which settles meanwhile is counted once: by the sums of days and the index of open rows, of which
 * there may be a row each.
 *
 * @param only a condition on the id, which is the parameter behind the spans.
 */
const spendingOf = (owner: 'key_id' | 'team_id', settled: string, only = '') => `
  SELECT id, ${SUMS} FROM (${settled}) GROUP BY id
  UNION ALL
  SELECT ${owner}, ${SUMS}
  FROM (
    SELECT ${owner}, created_ms AS ms, reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')} AS nano_usd
    FROM requests WHERE status = 'open' AND ${owner} <> ''${only}
  )
  GROUP BY ${owner}`

const only = (owner: string) => ` AND ${owner} = ?${2 * PERIODS.length + 1}`

/** Of all a row for each of its days; of one, a row for each of its hours, which an index has next to each other. */
const daysOf = (kind: Spender['kind']) =>
  `SELECT value AS id, day_ms AS ms, cost_nano_usd AS nano_usd FROM usage_daily WHERE dimension = '${kind}' AND value <> ''`
const hoursOf = (owner: string) =>
  `SELECT ${owner} AS id, hour_ms AS ms, cost_nano_usd AS nano_usd FROM usage_hourly WHERE ${owner} <> ''${only(owner)}`

/** The statements as they are prepared; a test reads their plans. */
export const SPENDING_QUERIES = {
  key: { all: spendingOf('key_id', daysOf('key')), one: spendingOf('key_id', hoursOf('key_id'), only('key_id')) },
  team: { all: spendingOf('team_id', daysOf('team')), one: spendingOf('team_id', hoursOf('team_id'), only('team_id')) },
}

const LAST_USES = 'SELECT key_id AS id, last_used_ms AS atMs, last_model AS model FROM key_uses'

interface LastUse {
  id: string
  atMs: number
  model: string
}

/** See `LedgerReader.spending`. */
export function readSpending(
  sqlite: Database,
  kind: Spender['kind'],
  spans: Readonly<Record<Period, Span>>,
  id?: string,
): Map<string, Spending> {
  const bounds = PERIODS.flatMap((period) => [spans[period].fromMs, spans[period].untilMs])
  const which = id === undefined ? [] : [id]
  const sql = SPENDING_QUERIES[kind][id === undefined ? 'all' : 'one']
  const found = new Map<string, Spending>()
  const rows = sqlite.query<Record<Period, number> & { id: string }, (string | number)[]>(sql).all(...bounds, ...which)
  for (const { id: owner, ...nanoUsd } of rows) {
    const settled = found.get(owner)
    if (settled) for (const period of PERIODS) settled.nanoUsd[period] += nanoUsd[period]
    else found.set(owner, { nanoUsd, lastUse: null })
  }
  if (kind === 'team') return found
  const uses = sqlite.query<LastUse, string[]>(id === undefined ? LAST_USES : `${LAST_USES} WHERE key_id = ?`)
  for (const { id: owner, ...lastUse } of uses.all(...which)) {
    const spending = found.get(owner)
    if (spending) spending.lastUse = lastUse
  }
  return found
}
