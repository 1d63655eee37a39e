/**
 * Counts requests that did not end well, from an index that has nothing but those, and all that a report needs of them. Only reads.
 * Contract in `../failure-store.ts`.
 */
import type { Database } from 'bun:sqlite'
import { DAY_MS, dayOf } from '../../domain/time.ts'
import type { FailureCell, FailureFilter, FailureReader } from '../failure-store.ts'
import { createKeptFrom } from './ledger-prune.ts'
import { UNWELL_SQL } from './ledger-schema.ts'
import { toConditions } from './usage-query.ts'

/** Parameters: fromMs, untilMs, stepMs, and the values of the filter. */
export function toFailureStatement(where: FailureFilter): { sql: string; values: string[] } {
  const { conditions, values } = toConditions('requests', where)
  const which = [UNWELL_SQL, 'created_ms >= ?1 AND created_ms < ?2', ...conditions].join(' AND ')
  const sql = `
    SELECT created_ms - created_ms % ?3 AS atMs, status, error_code AS errorCode, COUNT(*) AS requests
    FROM requests WHERE ${which} GROUP BY 1, 2, 3`
  return { sql, values }
}

/** The first that is in a span. */
export const NEXT_FAILURE = `SELECT MIN(created_ms) AS ms FROM requests WHERE ${UNWELL_SQL} AND created_ms >= ?1 AND created_ms < ?2`

export function createFailureReader(sqlite: Database): FailureReader {
  const next = sqlite.query<{ ms: number | null }, [number, number]>(NEXT_FAILURE)
  return {
    *pages({ span: { fromMs, untilMs }, stepMs, where }) {
      const { sql, values } = toFailureStatement(where)
      for (let at = next.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
        const end = Math.min(dayOf(at) + DAY_MS, untilMs)
        yield sqlite.query<FailureCell, (string | number)[]>(sql).all(at, end, stepMs, ...values)
        at = next.get(end, untilMs)?.ms ?? null
      }
    },
    keptFromMs: createKeptFrom(sqlite),
  }
}
