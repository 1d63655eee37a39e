/**
 * Holds further calls against their requests, an hour of them in one statement: a request says how many calls it took,
 * and what it cost contains what they did. `audit.ts` calls it.
 */
import type { Database } from 'bun:sqlite'

export interface CallFinding {
  kind: 'calls'
  hour_ms: number
  /**
   * `orphans`: calls without their request. `attempts`: a request took another number of calls than are on record.
   * `sums`: a request cost less, or took fewer tokens, than its further calls alone.
   */
  problem: 'orphans' | 'attempts' | 'sums'
  /** How many requests that concerns, and the first of them. */
  requests: number
  request_id: string
}

const SUMS = ['prompt_tokens', 'cached_tokens', 'cache_write_tokens', 'completion_tokens', 'reasoning_tokens']
const FIELDS = [...SUMS, 'cost_nano_usd']

/**
 * Open calls are under way, or another finding. Requests without a call are looked at one by one only where they say
 * that they had several. Parameters: first id, id after the last.
 */
const CHECK = `
  WITH further AS (
    SELECT request_id, COUNT(*) AS calls, ${FIELDS.map((name) => `SUM(${name}) AS ${name}`).join(', ')}
    FROM calls WHERE request_id >= ?1 AND request_id < ?2 AND status <> 'open' GROUP BY request_id
  ), found AS (
    SELECT request_id AS id, requests.id IS NULL AS orphan, attempts <> 1 + calls AS attempts,
      ${FIELDS.map((name) => `further.${name} > requests.${name}`).join(' OR ')} AS sums
    FROM further LEFT JOIN requests ON requests.id = request_id WHERE COALESCE(status, '') <> 'open'
    UNION ALL
    SELECT id, 0, 1, 0 FROM requests WHERE id >= ?1 AND id < ?2 AND attempts > 1 AND status <> 'open'
      AND NOT EXISTS (SELECT 1 FROM calls WHERE request_id = id AND calls.status <> 'open')
  )
  SELECT 'orphans' AS problem, COUNT(*) AS requests, MIN(id) AS request_id FROM found WHERE orphan
  UNION ALL SELECT 'attempts', COUNT(*), MIN(id) FROM found WHERE attempts
  UNION ALL SELECT 'sums', COUNT(*), MIN(id) FROM found WHERE sums`

type Problem = Omit<CallFinding, 'kind' | 'hour_ms'>

/** Prepares the check of an hour, which is given by its first id and the first one after it. */
export function createCallCheck(sqlite: Database): (hourMs: number, firstId: string, endId: string) => CallFinding[] {
  const check = sqlite.query<Problem, [string, string]>(CHECK)
  return (hourMs, firstId, endId) =>
    check
      .all(firstId, endId)
      .filter(({ requests }) => requests > 0)
      .map((problem) => ({ kind: 'calls', hour_ms: hourMs, ...problem }))
}
