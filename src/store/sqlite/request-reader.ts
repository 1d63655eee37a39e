/** Reads requests by ID, which begins with their time, as there is no other index; failures have a partial index. Read-only. */
import type { Database } from 'bun:sqlite'
import { eq, getTableColumns } from 'drizzle-orm'
import { toFirstId } from '../../domain/id.ts'
import { DAY_MS, dayOf } from '../../domain/time.ts'
import { type StoredCall, type StoredRequest, toOnlyCall } from '../ledger-rows.ts'
import {
  EXACT,
  EXACT_FILTERS,
  type FailureCell,
  type FailureFilter,
  type FailureReader,
  type RequestReader,
  type RequestSearch,
} from '../report-store.ts'
import { toTables } from './config-store.ts'
import {
  AFTER_ALL,
  calls,
  HAS_ERROR_SQL,
  placeholders,
  requests,
  SLACK_MS,
  selection,
  toIdAfter,
} from './ledger-schema.ts'
import { createKeptFrom } from './prune.ts'
import { prices } from './schema.ts'
import { toConditions, toGlob } from './usage-reader.ts'

const REQUEST = selection(Object.keys(getTableColumns(requests)))
const CALL = selection(Object.keys(getTableColumns(calls)))

type Value = string | number

/** @param first, end range of the request's ID */
function toSearchConditions(search: RequestSearch, first: string, end: string): { sql: string; values: Value[] } {
  const conditions: string[] = []
  const values: Value[] = []
  const add = (sql: string, ...given: readonly (Value | undefined)[]) => {
    if (given.some((value) => value === undefined)) return
    conditions.push(sql)
    values.push(...(given as Value[]))
  }
  const { ownKeys, model, statuses, id } = search
  if (ownKeys) add(`key_id IN (${placeholders(ownKeys)})`, ...ownKeys)
  for (const name of EXACT_FILTERS) add(`${EXACT[name]} = ?`, search[name])
  add('model GLOB ?', model === undefined ? model : toGlob(model))
  if (statuses) add(`status IN (${placeholders(statuses)})`, ...statuses)
  add('created_ms >= ?', search.sinceMs)
  add('created_ms < ?', search.untilMs)
  if (id) {
    const { end: digits = '-', ofUpstream } = id
    add(`(substr(id, ?) = ? OR ${OF_UPSTREAM})`, -digits.length, digits, ofUpstream, first, end, ofUpstream)
  }
  return { sql: conditions.map((condition) => ` AND ${condition}`).join(''), values }
}

/** The ID that the upstream gave the last call, or another one. */
const OF_UPSTREAM =
  'upstream_request_id = ? OR id IN (SELECT request_id FROM calls WHERE request_id >= ? AND request_id < ? AND upstream_request_id = ?)'

export function createRequestReader(sqlite: Database): RequestReader {
  const oldestOf = sqlite.query<{ id: string }, [string, string, number]>(
    'SELECT id FROM requests WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  )
  const get = sqlite.query<StoredRequest, [string]>(`SELECT ${REQUEST} FROM requests WHERE id = ?`)
  const beginning = sqlite.query<{ id: string }, [string, string, number, string | null, number]>(
    `SELECT id FROM (SELECT id, key_id FROM requests WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3)
     WHERE ?4 IS NULL OR key_id IN (SELECT value FROM json_each(?4)) LIMIT ?5`,
  )
  const callsOf = sqlite.query<StoredCall, [string]>(`SELECT ${CALL} FROM calls WHERE request_id = ? ORDER BY number`)
  return {
    async slice(search, before, limit, size) {
      const { sinceMs, untilMs } = search
      const first = sinceMs === undefined ? '' : toFirstId(sinceMs - SLACK_MS)
      const last = untilMs === undefined ? AFTER_ALL : toIdAfter(untilMs + SLACK_MS)
      const end = before !== null && before < last ? before : last
      const next = oldestOf.get(first, end, size - 1)?.id ?? null
      const { sql, values } = toSearchConditions(search, next ?? first, end)
      const rows = sqlite
        .query<StoredRequest, Value[]>(
          `SELECT ${REQUEST} FROM requests WHERE id >= ? AND id < ?${sql} ORDER BY id DESC LIMIT ?`,
        )
        .all(next ?? first, end, ...values, limit)
      return { rows, next }
    },
    get: async (id) => get.get(id),
    beginning: async (digits, limit, most, ownKeys) =>
      beginning
        .all(digits, digits + AFTER_ALL, most, ownKeys ? JSON.stringify(ownKeys) : null, limit)
        .map(({ id }) => id),
    keptFromMs: createKeptFrom(sqlite),
    async calls(request) {
      const stored = callsOf.all(request.id)
      return stored[0]?.number === 1 ? stored : [toOnlyCall(request), ...stored]
    },
    price: async (id) => toTables(sqlite).select().from(prices).where(eq(prices.id, id)).get() ?? null,
  }
}

/** Parameters: fromMs, untilMs, stepMs, and the filter's values. */
export function toFailureStatement(where: FailureFilter): { sql: string; values: string[] } {
  const { conditions, values } = toConditions('requests', where)
  const which = [HAS_ERROR_SQL, 'created_ms >= ?1 AND created_ms < ?2', ...conditions].join(' AND ')
  const sql = `
    SELECT created_ms - created_ms % ?3 AS atMs, status, error_code AS errorCode, COUNT(*) AS requests
    FROM requests WHERE ${which} GROUP BY 1, 2, 3`
  return { sql, values }
}

export const NEXT_FAILURE = `SELECT MIN(created_ms) AS ms FROM requests WHERE ${HAS_ERROR_SQL} AND created_ms >= ?1 AND created_ms < ?2`

export function createFailureReader(sqlite: Database): FailureReader {
  const next = sqlite.query<{ ms: number | null }, [number, number]>(NEXT_FAILURE)
  return {
    async *pages({ span: { fromMs, untilMs }, stepMs, where }) {
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
