/** Past spend and recent requests for limits, by indexes only. */
import type { Database } from 'bun:sqlite'
import { toFirstId } from '../../domain/id.ts'
import type { CountedRequest, LedgerReader, OpenRequest, RecentRequest } from '../ledger-store.ts'
import { ofAdditionalCalls } from '../reports/spend-reader.ts'

/** One statement, so that a request that settles at the same time counts once. Parameters: ID of key or team, fromMs, untilMs. */
// The partial index of teams is used only with this condition.
const spentBy = (owner: string) => `
  SELECT (
    SELECT COALESCE(SUM(cost_nano_usd), 0) FROM usage_hourly WHERE ${owner} = ?1 AND ${owner} <> '' AND hour_ms >= ?2 AND hour_ms < ?3
  ) + (
    SELECT COALESCE(SUM(reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')}), 0)
    FROM requests WHERE status = 'open' AND ${owner} = ?1 AND created_ms >= ?2 AND created_ms < ?3
  ) AS nanoUsd`

/** Parameters as above. */
const underWayOf = (owner: string) => `
  SELECT id, reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')} AS nanoUsd
  FROM requests WHERE status = 'open' AND ${owner} = ?1 AND created_ms >= ?2 AND created_ms < ?3`

/** Abandoned rows have their reservation as tokens. */
const tokens = (additional = '0') => `created_ms AS createdMs, CASE status
  WHEN 'open' THEN reserved_prompt_tokens + reserved_completion_tokens + ${additional}
  ELSE prompt_tokens + completion_tokens END AS tokens`

/** Parameters: first ID, ID after the last, sinceMs. */
const RECENT = `
  SELECT key_id AS keyId, team_id AS teamId, NULL AS upstream,
    ${tokens(ofAdditionalCalls('calls.reserved_prompt_tokens + calls.reserved_completion_tokens'))}
  FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
  ORDER BY created_ms, id`

/**
 * A request's row stands for its only call. Rejections by an upstream limit were not calls. Calls may belong to older requests. Parameters as above, with an
 * earlier first ID.
 */
const RECENT_CALLS = `
  SELECT NULL AS keyId, NULL AS teamId, upstream, ${tokens()} FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
    AND attempts = 1 AND COALESCE(error_code, '') <> 'upstream_rate_limited'
  UNION ALL
  SELECT NULL, NULL, upstream, ${tokens()} FROM calls WHERE request_id >= ?1 AND request_id < ?2 AND created_ms >= ?3
    AND COALESCE(error_code, '') <> 'upstream_rate_limited'
  ORDER BY createdMs`

const COUNTED_REQUEST = `
  SELECT key_id AS keyId, team_id AS teamId, created_ms AS createdMs, status = 'open' AS isOpen,
    CASE status
      WHEN 'open' THEN reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')} ELSE cost_nano_usd
    END AS nanoUsd
  FROM requests WHERE id = ?`

/** For a test of query plans. */
export const SPEND_QUERIES = {
  key: spentBy('key_id'),
  team: spentBy('team_id'),
  underWayOfKey: underWayOf('key_id'),
  underWayOfTeam: underWayOf('team_id'),
  recent: RECENT,
  recentCalls: RECENT_CALLS,
}

/** The rollup is small. */
const COUNT = `
  SELECT (SELECT COALESCE(SUM(requests), 0) FROM usage_hourly) + (SELECT COUNT(*) FROM requests WHERE status = 'open') AS requests`

export const countRequests = (sqlite: Database): number =>
  sqlite.query<{ requests: number }, []>(COUNT).get()?.requests ?? 0

export const readNewestMs = (sqlite: Database): number | null =>
  sqlite.query<{ ms: number }, []>('SELECT created_ms AS ms FROM requests ORDER BY id DESC LIMIT 1').get()?.ms ?? null

const MINUTE_MS = 60_000

interface Reserved {
  id: string
  nanoUsd: number
}

export function createLedgerReader(sqlite: Database): LedgerReader {
  const sums = {
    key: sqlite.query<{ nanoUsd: number }, [string, number, number]>(SPEND_QUERIES.key),
    team: sqlite.query<{ nanoUsd: number }, [string, number, number]>(SPEND_QUERIES.team),
  }
  const underWay = {
    key: sqlite.query<Reserved, [string, number, number]>(SPEND_QUERIES.underWayOfKey),
    team: sqlite.query<Reserved, [string, number, number]>(SPEND_QUERIES.underWayOfTeam),
  }
  const recent = sqlite.query<RecentRequest, [string, string, number]>(SPEND_QUERIES.recent)
  const recentCalls = sqlite.query<RecentRequest, [string, string, number]>(SPEND_QUERIES.recentCalls)
  const latest = sqlite.query<{ ms: number | null }, [number]>(
    'SELECT MAX(hour_ms) AS ms FROM usage_hourly WHERE hour_ms < ?',
  )
  const openOf = sqlite.query<OpenRequest, [string]>(
    `SELECT id, instance, key_id AS keyId, team_id AS teamId, upstream FROM requests
     WHERE status = 'open' AND instance IN (SELECT value FROM json_each(?))`,
  )
  const counted = sqlite.query<Omit<CountedRequest, 'isOpen'> & { isOpen: number }, [string]>(COUNTED_REQUEST)

  return {
    spent: ({ kind, id }, { fromMs, untilMs }) => sums[kind].get(id, fromMs, untilMs)?.nanoUsd ?? 0,
    underWay: ({ kind, id }, { fromMs, untilMs }) =>
      new Map(underWay[kind].all(id, fromMs, untilMs).map((request) => [request.id, request.nanoUsd])),
    latestHour: (untilMs) => latest.get(untilMs)?.ms ?? 0,
    recent(sinceMs) {
      const end = toFirstId(sinceMs + 2 * MINUTE_MS)
      return [
        ...recent.all(toFirstId(sinceMs), end, sinceMs),
        ...recentCalls.all(toFirstId(sinceMs - 10 * MINUTE_MS), end, sinceMs),
      ]
    },
    count: () => countRequests(sqlite),
    openOf: (instances) => (instances.length === 0 ? [] : openOf.all(JSON.stringify(instances))),
    counted(requestId) {
      const found = counted.get(requestId)
      return found && { ...found, isOpen: found.isOpen === 1 }
    },
  }
}
