/** Reads the spend of keys and teams from daily totals and open requests, and their last use and refusal. */
import { PERIODS, type Period } from '../../domain/limits.ts'
import type { Spender } from '../../domain/snapshot.ts'
import type { LastRefusal, Spending, SpendReader } from '../report-store.ts'
import type { Engine } from './engine.ts'

/** Sums over an open request's calls after the first. */
export const ofAdditionalCalls = (sum: string) =>
  `(SELECT COALESCE(SUM(${sum}), 0) FROM calls WHERE calls.request_id = requests.id AND number > 1)`

/** Parameters: `fromMs` and `untilMs` of each period. */
const SUMS = PERIODS.map(
  (period, i) => `SUM(CASE WHEN ms >= ?${2 * i + 1} AND ms < ?${2 * i + 2} THEN nano_usd ELSE 0 END) AS "${period}"`,
).join(', ')

/**
 * One statement, so that a request that settles at the same time counts once.
 * @param only a condition on the ID, the parameter after the spans.
 */
const spendingOf = (owner: 'key_id' | 'team_id', settled: string, only = '') => `
  SELECT id, ${SUMS} FROM (${settled}) AS settled GROUP BY id
  UNION ALL
  SELECT ${owner}, ${SUMS}
  FROM (
    SELECT ${owner}, created_ms AS ms, reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')} AS nano_usd
    FROM requests WHERE status = 'open' AND ${owner} <> ''${only}
  ) AS unsettled
  GROUP BY ${owner}`

const only = (owner: string) => ` AND ${owner} = ?${2 * PERIODS.length + 1}`

const daysOf = (kind: Spender['kind']) =>
  `SELECT value AS id, day_ms AS ms, cost_nano_usd AS nano_usd FROM usage_daily WHERE dimension = '${kind}' AND value <> ''`
/** Day by day, because each day has the rows of all others too. */
const daysOfOne = (kind: Spender['kind']) =>
  `${daysOf(kind)}${only('value')} AND day_ms IN (SELECT day_ms FROM usage_daily WHERE dimension = 'endpoint')`

/** For a test of query plans. */
export const SPENDING_QUERIES = {
  key: { all: spendingOf('key_id', daysOf('key')), one: spendingOf('key_id', daysOfOne('key'), only('key_id')) },
  team: { all: spendingOf('team_id', daysOf('team')), one: spendingOf('team_id', daysOfOne('team'), only('team_id')) },
}

const LAST_USES = 'SELECT key_id AS id, last_used_ms AS "atMs", last_model AS model FROM key_uses'

interface LastUse {
  id: string
  atMs: number
  model: string
}

/** @param refusals by kind and whether one is wanted: `id`, `atMs`, `code`, `refused`. Parameters: since, a whole hour; ID, if one is wanted. */
export function createSpendReader(
  { rows }: Engine,
  refusals: (kind: Spender['kind'], isOne: boolean) => string,
): SpendReader {
  return {
    async spending(kind, spans, id) {
      const bounds = PERIODS.flatMap((period) => [spans[period].fromMs, spans[period].untilMs])
      const which = id === undefined ? [] : [id]
      const sql = SPENDING_QUERIES[kind][id === undefined ? 'all' : 'one']
      const found = new Map<string, Spending>()
      for (const { id: owner, ...sums } of await rows<Record<Period, number> & { id: string }>(sql, [
        ...bounds,
        ...which,
      ])) {
        const nanoUsd = found.get(owner)?.nanoUsd ?? { day: 0, week: 0, month: 0, total: 0 }
        for (const period of PERIODS) nanoUsd[period] += Number(sums[period])
        found.set(owner, { nanoUsd, lastUse: null })
      }
      if (kind === 'team') return found
      for (const { id: owner, ...lastUse } of await rows<LastUse>(
        id === undefined ? LAST_USES : `${LAST_USES} WHERE key_id = ?1`,
        which,
      )) {
        const spending = found.get(owner)
        if (spending) spending.lastUse = lastUse
      }
      return found
    },
    async refused(kind, sinceMs, id) {
      const found = await rows<LastRefusal & { id: string }>(refusals(kind, id !== undefined), [
        sinceMs,
        ...(id === undefined ? [] : [id]),
      ])
      return new Map(found.map(({ id, ...last }) => [id, last]))
    },
    async latestHour(untilMs) {
      const sql = 'SELECT MAX(hour_ms) AS ms FROM usage_hourly WHERE hour_ms < ?1'
      return (await rows<{ ms: number | null }>(sql, [untilMs]))[0]?.ms ?? 0
    },
  }
}
