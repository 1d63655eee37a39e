/** Reads requests by ID, which begins with their time, because there is no other index. Failures have a partial index. */
import { toFirstId } from '../../domain/id.ts'
import { DAY_MS, dayOf } from '../../domain/time.ts'
import { type StoredCall, toOnlyCall } from '../ledger-rows.ts'
import {
  EXACT,
  EXACT_FILTERS,
  type FailureCell,
  type FailureFilter,
  type FailureReader,
  type FoundRequest,
  type RequestReader,
  type RequestSearch,
} from '../report-store.ts'
import { AFTER_ALL, CALL_FIELDS, HAS_ERROR_SQL, REQUEST_FIELDS, SLACK_MS, toIdAfter, toSelection } from './columns.ts'
import { createParameters, type Dialect, type Engine } from './engine.ts'
import { toConditions } from './usage-statement.ts'

/** @param first, end range of the request's ID, the first parameters */
function toSearch(dialect: Dialect, search: RequestSearch, range: { first: string; end: string }) {
  const { ownKeys, model, statuses, sinceMs, untilMs, id } = search
  const parameters = createParameters()
  const { add, addAll } = parameters
  const [first, end] = [add(dialect.toBound(range.first)), add(dialect.toBound(range.end))]
  const conditions = [`id >= ${first}`, `id < ${end}`]
  if (ownKeys) conditions.push(ownKeys.length === 0 ? '1 = 0' : `key_id IN ${addAll(ownKeys)}`)
  for (const name of EXACT_FILTERS) {
    const value = search[name]
    if (value !== undefined) conditions.push(`"${EXACT[name]}" = ${add(value)}`)
  }
  if (model !== undefined) conditions.push(dialect.matches('model', add(dialect.toPattern(model))))
  if (statuses) conditions.push(statuses.length === 0 ? '1 = 0' : `status IN ${addAll(statuses)}`)
  if (sinceMs !== undefined) conditions.push(`created_ms >= ${add(sinceMs)}`)
  if (untilMs !== undefined) conditions.push(`created_ms < ${add(untilMs)}`)
  if (id) {
    const { end: digits = '-' } = id
    const ending = dialect.endsWith('id', add(digits), digits.length)
    const ofUpstream = `upstream_request_id = ${add(id.ofUpstream)}`
    // Match the upstream's request ID of any call.
    const ofCalls = `SELECT request_id FROM calls WHERE request_id >= ${first} AND request_id < ${end} AND ${ofUpstream}`
    conditions.push(`(${ending} OR ${ofUpstream} OR id IN (${ofCalls}))`)
  }
  return { which: conditions.join(' AND '), parameters }
}

export const toRequestColumns = (dialect: Dialect) =>
  `${dialect.toId('id')} AS id, ${toSelection(REQUEST_FIELDS)}${dialect.ofRequests}`

export function createRequestReader(
  { dialect, rows, keptFromMs }: Engine,
  price: RequestReader['price'],
): RequestReader {
  const id = dialect.toId('id')
  const request = toRequestColumns(dialect)
  const call = `${dialect.toId('request_id')} AS "requestId", ${toSelection(CALL_FIELDS)}`
  return {
    async slice(search, before, limit, size) {
      const { sinceMs, untilMs } = search
      const first = sinceMs === undefined ? '' : toFirstId(sinceMs - SLACK_MS)
      const last = untilMs === undefined ? AFTER_ALL : toIdAfter(untilMs + SLACK_MS)
      const end = before !== null && before < last ? before : last
      const [oldest] = await rows<{ id: string }>(
        `SELECT ${id} AS id FROM requests WHERE id >= ?1 AND id < ?2 ORDER BY requests.id DESC LIMIT 1 OFFSET ?3`,
        [dialect.toBound(first), dialect.toBound(end), size - 1],
      )
      const next = oldest?.id ?? null
      const { which, parameters } = toSearch(dialect, search, { first: next ?? first, end })
      const found = await rows<FoundRequest>(
        `SELECT ${request} FROM requests WHERE ${which} ORDER BY requests.id DESC LIMIT ${parameters.add(limit)}`,
        parameters.values,
      )
      return { rows: found, next }
    },
    get: async (id) =>
      (await rows<FoundRequest>(`SELECT ${request} FROM requests WHERE id = ?1`, [dialect.toBound(id)]))[0] ?? null,
    async beginning(digits, limit, most, ownKeys) {
      const parameters = createParameters()
      const [first, end] = [digits, digits + AFTER_ALL].map((text) => parameters.add(dialect.toBound(text)))
      const range = `id >= ${first} AND id < ${end} ORDER BY id LIMIT ${parameters.add(most)}`
      const isOwn = ownKeys?.length === 0 ? '1 = 0' : ownKeys ? `key_id IN ${parameters.addAll(ownKeys)}` : '1 = 1'
      const found = await rows<{ id: string }>(
        `SELECT ${id} AS id FROM (SELECT id, key_id FROM requests WHERE ${range}) AS beginning
         WHERE ${isOwn} LIMIT ${parameters.add(limit)}`,
        parameters.values,
      )
      return found.map(({ id }) => id)
    },
    keptFromMs,
    async calls({ node: _, ...request }) {
      const stored = await rows<StoredCall>(`SELECT ${call} FROM calls WHERE request_id = ?1 ORDER BY number`, [
        dialect.toBound(request.id),
      ])
      return stored[0]?.number === 1 ? stored : [toOnlyCall(request), ...stored]
    },
    price,
  }
}

/** Parameters: fromMs, untilMs, stepMs, and the filter's values. */
export function toFailureStatement(dialect: Dialect, where: FailureFilter) {
  const parameters = createParameters(3)
  const conditions = toConditions(dialect, 'requests', where, parameters)
  const which = [HAS_ERROR_SQL, 'created_ms >= ?1 AND created_ms < ?2', ...conditions].join(' AND ')
  const sql = `
    SELECT created_ms - created_ms % ?3 AS "atMs", status, error_code AS "errorCode", COUNT(*) AS requests
    FROM requests WHERE ${which} GROUP BY 1, 2, 3`
  return { sql, values: parameters.values }
}

export const NEXT_FAILURE = `SELECT MIN(created_ms) AS ms FROM requests WHERE ${HAS_ERROR_SQL} AND created_ms >= ?1 AND created_ms < ?2`

export function createFailureReader({ dialect, rows, keptFromMs }: Engine): FailureReader {
  const find = async (fromMs: number, untilMs: number) =>
    (await rows<{ ms: number | null }>(NEXT_FAILURE, [fromMs, untilMs]))[0]?.ms ?? null
  return {
    async *pages({ span: { fromMs, untilMs }, stepMs, where }) {
      const { sql, values } = toFailureStatement(dialect, where)
      for (let at = await find(fromMs, untilMs); at !== null; ) {
        const end = Math.min(dayOf(at) + DAY_MS, untilMs)
        yield await rows<FailureCell>(sql, [at, end, stepMs, ...values])
        at = await find(end, untilMs)
      }
    },
    keptFromMs,
  }
}
