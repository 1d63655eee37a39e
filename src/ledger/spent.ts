/**
 * Reads from the ledger what limits must know of the past: what a key or a team has spent, for budgets and for lists,
 * and the requests of the last minute, for the rates of a server that has just started. Synchronous, on whatever
 * connection it is given; prepared once. It goes by indexes, never through all requests.
 */
import type { Database } from 'bun:sqlite'
import { toFirstId } from '../domain/id.ts'

export interface SpendReader {
  /**
   * Nano-dollars that a key, or all keys of a team, have spent on requests created since `fromMs`: settled ones at
   * their cost, open ones at all that they have reserved. `fromMs` is the first ms of a UTC hour; 0 = ever.
   */
  spent(scope: { kind: 'key' | 'team'; id: string }, fromMs: number): number
  /**
   * Requests since `sinceMs`, which is a minute ago, and their calls, each oldest first, with the tokens that they used;
   * where that is not known, what they had reserved. A clock that was set back has left requests in the future: those of
   * the next minute are among them, later ones, which may be any number, are not.
   */
  recent(sinceMs: number): RecentRequest[]
}

/** A request, as its key knows it, or a call, as its upstream does: the other one's name is null. */
export interface RecentRequest {
  keyId: string | null
  upstream: string | null
  tokens: number
  createdMs: number
}

/** What the further calls of an open request have reserved; the first call's reserve stands in the request's row. */
const furtherReserves = (sum: string) =>
  `(SELECT COALESCE(SUM(${sum}), 0) FROM calls WHERE calls.request_id = requests.id)`

/** One statement, so that a request which settles meanwhile is counted once. Parameters: id of the scope, fromMs. */
const spentBy = (keys: string) => `
  SELECT (
    SELECT COALESCE(SUM(cost_nano_usd), 0) FROM usage_hourly WHERE key_id ${keys} AND hour_ms >= ?2
  ) + (
    SELECT COALESCE(SUM(reserved_nano_usd + ${furtherReserves('calls.reserved_nano_usd')}), 0)
    FROM requests WHERE status = 'open' AND key_id ${keys} AND created_ms >= ?2
  ) AS nanoUsd`

/** An abandoned row has its reserves as its tokens. Parameters: first id, id after the last, sinceMs. */
const RECENT = `
  SELECT key_id AS keyId, NULL AS upstream, created_ms AS createdMs,
    CASE status
      WHEN 'open' THEN reserved_prompt_tokens + reserved_completion_tokens
        + ${furtherReserves('calls.reserved_prompt_tokens + calls.reserved_completion_tokens')}
      ELSE prompt_tokens + completion_tokens
    END AS tokens
  FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
  ORDER BY created_ms, id`

/**
 * The row of a request stands for its only call; of several, the first one's upstream is not on record once another was
 * asked. What was refused for the limits of an upstream was no call: the refusals of a minute would keep it shut after a
 * start. A call may belong to a request that began a while before. Parameters as above, the ids from further back.
 */
const RECENT_CALLS = `
  SELECT NULL AS keyId, upstream, created_ms AS createdMs,
    CASE status
      WHEN 'open' THEN reserved_prompt_tokens + reserved_completion_tokens
      ELSE prompt_tokens + completion_tokens
    END AS tokens
  FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
    AND attempts = 1 AND COALESCE(error_code, '') <> 'upstream_rate_limited'
  UNION ALL
  SELECT NULL, upstream, created_ms,
    CASE status
      WHEN 'open' THEN reserved_prompt_tokens + reserved_completion_tokens
      ELSE prompt_tokens + completion_tokens
    END
  FROM calls WHERE request_id >= ?1 AND request_id < ?2 AND created_ms >= ?3
  ORDER BY createdMs`

/** The statements as they are prepared; a test reads their plans. */
export const SPEND_QUERIES = {
  key: spentBy('= ?1'),
  team: spentBy('IN (SELECT id FROM keys WHERE team_id = ?1)'),
  recent: RECENT,
  recentCalls: RECENT_CALLS,
}

const MINUTE_MS = 60_000

export function createSpendReader(sqlite: Database): SpendReader {
  const sums = {
    key: sqlite.query<{ nanoUsd: number }, [string, number]>(SPEND_QUERIES.key),
    team: sqlite.query<{ nanoUsd: number }, [string, number]>(SPEND_QUERIES.team),
  }
  const recent = sqlite.query<RecentRequest, [string, string, number]>(SPEND_QUERIES.recent)
  const recentCalls = sqlite.query<RecentRequest, [string, string, number]>(SPEND_QUERIES.recentCalls)
  return {
    spent: ({ kind, id }, fromMs) => sums[kind].get(id, fromMs)?.nanoUsd ?? 0,
    recent(sinceMs) {
      const end = toFirstId(sinceMs + 2 * MINUTE_MS)
      return [
        ...recent.all(toFirstId(sinceMs), end, sinceMs),
        ...recentCalls.all(toFirstId(sinceMs - 10 * MINUTE_MS), end, sinceMs),
      ]
    },
  }
}
