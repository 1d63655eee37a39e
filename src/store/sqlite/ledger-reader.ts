/**
 * Reads from the ledger what limits must know of the past: what a key or a team has spent, for budgets and for lists,
 * and the requests of the last minute, for the rates of a server that has just started. It goes by keys and indexes, never through all requests.
 */
import type { Database } from 'bun:sqlite'
import { toFirstId } from '../../domain/id.ts'
import type { CountedRequest, LedgerReader, RecentRequest } from '../ledger-store.ts'
import { ofAdditionalCalls, readSpending } from './ledger-spending.ts'

/** One statement, so that a request which settles meanwhile is counted once. Parameters: id of key or team, fromMs, untilMs. */
// The index of teams has none but them, and is used only where that is said.
const spentBy = (owner: string) => `
  SELECT (
    SELECT COALESCE(SUM(cost_nano_usd), 0) FROM usage_hourly WHERE ${owner} = ?1 AND ${owner} <> '' AND hour_ms >= ?2 AND hour_ms < ?3
  ) + (
    SELECT COALESCE(SUM(reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')}), 0)
    FROM requests WHERE status = 'open' AND ${owner} = ?1 AND created_ms >= ?2 AND created_ms < ?3
  ) AS nanoUsd`

/** The open ones among them. Parameters as above. */
const underWayOf = (owner: string) => `
  SELECT id, reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')} AS nanoUsd
  FROM requests WHERE status = 'open' AND ${owner} = ?1 AND created_ms >= ?2 AND created_ms < ?3`

/** An abandoned row has its reserves as its tokens. */
const tokens = (additional = '0') => `created_ms AS createdMs, CASE status
  WHEN 'open' THEN reserved_prompt_tokens + reserved_completion_tokens + ${additional}
  ELSE prompt_tokens + completion_tokens END AS tokens`

/** Parameters: first id, id after the last, sinceMs. */
const RECENT = `
  SELECT key_id AS keyId, team_id AS teamId, NULL AS upstream,
    ${tokens(ofAdditionalCalls('calls.reserved_prompt_tokens + calls.reserved_completion_tokens'))}
  FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
  ORDER BY created_ms, id`

/**
 * The row of a request stands for its only call; of several, `first_call` says where the first one went, which used what the
 * others did not. What was refused for the limits of an upstream was no call: the refusals of a minute would keep it shut
 * after a start. A call may belong to a request that began a while before. Parameters as above, the ids from further back.
 */
const RECENT_CALLS = `
  SELECT NULL AS keyId, NULL AS teamId, upstream, ${tokens()} FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
    AND attempts = 1 AND COALESCE(error_code, '') <> 'upstream_rate_limited'
  UNION ALL
  SELECT NULL, NULL, first_call ->> '$.upstream', created_ms,
    MAX(0, prompt_tokens + completion_tokens - ${ofAdditionalCalls('calls.prompt_tokens + calls.completion_tokens')})
  FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
    AND first_call IS NOT NULL AND COALESCE(first_call ->> '$.error_code', '') <> 'upstream_rate_limited'
  UNION ALL
  SELECT NULL, NULL, upstream, ${tokens()} FROM calls WHERE request_id >= ?1 AND request_id < ?2 AND created_ms >= ?3
  ORDER BY createdMs`

const COUNTED_REQUEST = `
  SELECT key_id AS keyId, team_id AS teamId, created_ms AS createdMs, status = 'open' AS isOpen,
    CASE status
      WHEN 'open' THEN reserved_nano_usd + ${ofAdditionalCalls('calls.reserved_nano_usd')} ELSE cost_nano_usd
    END AS nanoUsd
  FROM requests WHERE id = ?`

/** The statements as they are prepared; a test reads their plans. */
export const SPEND_QUERIES = {
  key: spentBy('key_id'),
  team: spentBy('team_id'),
  underWayOfKey: underWayOf('key_id'),
  underWayOfTeam: underWayOf('team_id'),
  recent: RECENT,
  recentCalls: RECENT_CALLS,
}

/** By the rollup, which is short, and the index of open rows. */
const COUNT = `
  SELECT (SELECT COALESCE(SUM(requests), 0) FROM usage_hourly) + (SELECT COUNT(*) FROM requests WHERE status = 'open') AS requests`

/** Counts the requests on record. */
export const countRequests = (sqlite: Database): number =>
  sqlite.query<{ requests: number }, []>(COUNT).get()?.requests ?? 0

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
  const counted = sqlite.query<Omit<CountedRequest, 'isOpen'> & { isOpen: number }, [string]>(COUNTED_REQUEST)

  return {
    spent: ({ kind, id }, { fromMs, untilMs }) => sums[kind].get(id, fromMs, untilMs)?.nanoUsd ?? 0,
    underWay: ({ kind, id }, { fromMs, untilMs }) =>
      new Map(underWay[kind].all(id, fromMs, untilMs).map((request) => [request.id, request.nanoUsd])),
    spending: (kind, spans, id) => readSpending(sqlite, kind, spans, id),
    latestHour: (untilMs) => latest.get(untilMs)?.ms ?? 0,
    recent(sinceMs) {
      const end = toFirstId(sinceMs + 2 * MINUTE_MS)
      return [
        ...recent.all(toFirstId(sinceMs), end, sinceMs),
        ...recentCalls.all(toFirstId(sinceMs - 10 * MINUTE_MS), end, sinceMs),
      ]
    },
    count: () => countRequests(sqlite),
    counted(requestId) {
      const found = counted.get(requestId)
      return found && { ...found, isOpen: found.isOpen === 1 }
    },
  }
}
