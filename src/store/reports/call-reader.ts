/** Sums calls as providers count them: by upstream, credential, and the upstream's model. One page of requests per statement. */
import { SUMMED_COUNTS } from '../../domain/call-counts.ts'
import { toFirstId } from '../../domain/id.ts'
import { CORRECTION } from '../../domain/report-filters.ts'
import { DAY_MS, HOUR_MS } from '../../domain/time.ts'
import type { CallReader, CallRef, CallSum } from '../report-store.ts'
import { toColumn, toIdAfter } from './columns.ts'
import { createParameters, type Dialect, type Engine, type Parameters, sliceIds } from './engine.ts'

/** The call used nothing, as far as known. */
const IS_UNUSED = `status = 'failed' AND prompt_tokens = 0 AND completion_tokens = 0`

const OF_CALL = [
  ...['created_ms', 'upstream', 'upstream_model', 'credential', 'status', 'http_status', 'error_code'],
  ...['estimated', 'unpriced', 'cost_nano_usd', ...SUMMED_COUNTS.map(toColumn)],
]

/** A request's calls are in `calls` only if there were several. Parameters: first ID, ID after the last, fromMs, untilMs. */
function toCalls(dialect: Dialect, upstreams: readonly string[], parameters: Parameters): string {
  const wanted = parameters.addAll(upstreams)
  const select = (table: string, id: string, model: string, reason: string, more: string) => `
    SELECT ${dialect.toId(id)} AS id, ${model} AS model, ${reason} AS reason, ${OF_CALL.map((name) => `${table}.${name}`).join(', ')}
    FROM ${table} ${more}
    WHERE ${id} >= ?1 AND ${id} < ?2 AND ${table}.status <> 'open' AND ${table}.created_ms >= ?3
      AND ${table}.created_ms < ?4 AND ${table}.upstream IN ${wanted}`
  const own = select(
    'requests',
    'requests.id',
    'requests.model',
    `CASE WHEN requests.key_id = '${CORRECTION}' THEN '${CORRECTION}' ELSE 'first' END`,
    '',
  )
  const several = select(
    ...(['calls', 'calls.request_id', 'requests.model', 'calls.reason'] as const),
    'LEFT JOIN requests ON requests.id = calls.request_id',
  )
  return `(${own} AND requests.attempts = 1 UNION ALL ${several}) AS made`
}

const countOf = (condition: string) => `SUM(CASE WHEN ${condition} THEN 1 ELSE 0 END)`

export function createCallReader(engine: Engine): CallReader {
  const { dialect, rows } = engine
  // A request's later calls may be of another day than its ID.
  const slices = (fromMs: number, untilMs: number) =>
    sliceIds(engine, toFirstId(fromMs - DAY_MS), toIdAfter(untilMs + HOUR_MS), HOUR_MS)
  const toRange = (first: string, end: string) => [dialect.toBound(first), dialect.toBound(end)]

  return {
    keptFromMs: engine.keptFromMs,
    async *sums({ fromMs, untilMs }, upstreams) {
      const parameters = createParameters(4)
      const sql = `
        SELECT created_ms - created_ms % ${DAY_MS} AS "dayMs", upstream, credential, upstream_model AS "upstreamModel",
          MIN(model) AS model, ${countOf(`reason NOT IN ('within', '${CORRECTION}') AND NOT (${IS_UNUSED})`)} AS requests,
          ${countOf(IS_UNUSED)} AS failed, ${countOf(`reason = '${CORRECTION}'`)} AS corrections,
          SUM(cost_nano_usd) AS "costNanoUsd", ${SUMMED_COUNTS.map((field) => `SUM(${toColumn(field)}) AS "${field}"`).join(', ')}
        FROM ${toCalls(dialect, upstreams, parameters)} GROUP BY 1, 2, 3, 4`
      for await (const [first, end] of slices(fromMs, untilMs))
        yield await rows<CallSum>(sql, [...toRange(first, end), fromMs, untilMs, ...parameters.values])
    },
    async refs({ fromMs, untilMs }, upstreams, { models, limit }) {
      const parameters = createParameters(4)
      const from = toCalls(dialect, upstreams, parameters)
      const which =
        models === null
          ? `status <> 'ok' OR estimated = 1 OR unpriced = 1`
          : `upstream_model IN ${parameters.addAll(models)}`
      const found: CallRef[] = []
      for await (const [first, end] of slices(fromMs, untilMs)) {
        if (found.length >= limit) break
        const sql = `
          SELECT id, upstream, credential, upstream_model AS "upstreamModel", status, http_status AS "httpStatus",
            error_code AS "errorCode", estimated, unpriced, cost_nano_usd AS "costNanoUsd"
          FROM ${from} WHERE ${which} ORDER BY id LIMIT ${limit - found.length}`
        found.push(...(await rows<CallRef>(sql, [...toRange(first, end), fromMs, untilMs, ...parameters.values])))
      }
      return found
    },
  }
}
