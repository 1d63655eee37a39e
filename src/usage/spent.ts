/**
 * Reads from the ledger what limits must know of the past: what a key or a team has spent, for budgets and for lists,
 * and the requests of the last minute, for the rates of a server that has just started. Synchronous, on whatever
 * connection it is given; prepared once. It goes by indexes, never through all requests.
 */
import type { Database } from 'bun:sqlite'

export interface SpendReader {
  /**
   * Nano-dollars that a key, or all keys of a team, have spent on requests created since `fromMs`: settled ones at
   * their cost, open ones at all that they have reserved. `fromMs` is the first ms of a UTC hour; 0 = ever.
   */
  spent(scope: { kind: 'key' | 'team'; id: string }, fromMs: number): number
  /**
   * Requests since `sinceMs`, which is a minute ago, oldest first, with the tokens that they used; where that is not
   * known, what they had reserved. A clock that was set back has left requests in the future: those of the next minute
   * are among them, later ones, which may be any number, are not.
   */
  recent(sinceMs: number): RecentRequest[]
}

export interface RecentRequest {
  keyId: string
  /** The upstream of its row: of several calls, one. Null where it was not called, because its limits left no room. */
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

/**
 * What was refused for the limits of an upstream counts for its key alone: for the upstream too, the refusals of a minute
 * would keep it shut after a start. An abandoned row has its reserves as its tokens.
 * Parameters: first id, id after the last, sinceMs.
 */
const RECENT = `
  SELECT key_id AS keyId, created_ms AS createdMs,
    CASE error_code WHEN 'upstream_rate_limited' THEN NULL ELSE upstream END AS upstream,
    CASE status
      WHEN 'open' THEN reserved_prompt_tokens + reserved_completion_tokens
        + ${furtherReserves('calls.reserved_prompt_tokens + calls.reserved_completion_tokens')}
      ELSE prompt_tokens + completion_tokens
    END AS tokens
  FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3
  ORDER BY created_ms, id`

/** The statements as they are prepared; a test reads their plans. */
export const SPEND_QUERIES = {
  key: spentBy('= ?1'),
  team: spentBy('IN (SELECT id FROM keys WHERE team_id = ?1)'),
  recent: RECENT,
}

const MINUTE_MS = 60_000

export function createSpendReader(sqlite: Database): SpendReader {
  const sums = {
    key: sqlite.query<{ nanoUsd: number }, [string, number]>(SPEND_QUERIES.key),
    team: sqlite.query<{ nanoUsd: number }, [string, number]>(SPEND_QUERIES.team),
  }
  const recent = sqlite.query<RecentRequest, [string, string, number]>(SPEND_QUERIES.recent)
  return {
    spent: ({ kind, id }, fromMs) => sums[kind].get(id, fromMs)?.nanoUsd ?? 0,
    recent: (sinceMs) => recent.all(toFirstId(sinceMs), toFirstId(sinceMs + 2 * MINUTE_MS), sinceMs),
  }
}

/** The time in an id is `created_ms`, or a little later: no id of that time sorts before this one. */
const toFirstId = (ms: number) => Math.max(0, ms).toString(16).padStart(12, '0')
