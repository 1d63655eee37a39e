/** Sums calls as providers count them: by upstream, credential, and the upstream's model. One page of requests per statement. Read-only. */
import type { Database } from 'bun:sqlite'
import { toFirstId } from '../../domain/id.ts'
import { CORRECTION } from '../../domain/report-filters.ts'
import { DAY_MS, HOUR_MS } from '../../domain/time.ts'
import type { CallReader, CallRef, CallSum } from '../report-store.ts'
import { column, createIdSlices, placeholders, SUMMED_COUNTS, toIdAfter } from './ledger-schema.ts'
import { createKeptFrom } from './prune.ts'

/** Nothing was served, as far as we know. */
const IS_UNUSED = `status = 'failed' AND prompt_tokens = 0 AND completion_tokens = 0`

const OF_CALL = [
  ...['created_ms', 'upstream', 'upstream_model', 'credential', 'status', 'http_status', 'error_code'],
  ...['estimated', 'unpriced', 'cost_nano_usd', ...SUMMED_COUNTS.map(column)],
]

/** A request's calls are in `calls` only if there were several. Parameters: first ID, ID after the last, fromMs, untilMs. */
const toCalls = (upstreams: readonly string[]) => {
  const select = (table: string, id: string, model: string, reason: string, more: string) => `
    SELECT ${id} AS id, ${model} AS model, ${reason} AS reason, ${OF_CALL.map((name) => `${table}.${name}`).join(', ')}
    FROM ${table} ${more}
    WHERE ${id} >= ?1 AND ${id} < ?2 AND ${table}.status <> 'open' AND ${table}.created_ms >= ?3
      AND ${table}.created_ms < ?4 AND ${table}.upstream IN (${placeholders(upstreams)})`
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
  return { sql: `(${own} AND requests.attempts = 1 UNION ALL ${several})`, values: [...upstreams, ...upstreams] }
}

type Value = string | number

export function createCallReader(sqlite: Database): CallReader {
  const slicesOf = createIdSlices(sqlite)
  // A request's later calls may be of another day than its ID.
  const slices = (fromMs: number, untilMs: number) => slicesOf(toFirstId(fromMs - DAY_MS), toIdAfter(untilMs + HOUR_MS))

  return {
    keptFromMs: createKeptFrom(sqlite),
    async *sums({ fromMs, untilMs }, upstreams) {
      const { sql, values } = toCalls(upstreams)
      const statement = sqlite.query<CallSum, Value[]>(`
        SELECT created_ms - created_ms % ${DAY_MS} AS dayMs, upstream, credential, upstream_model AS upstreamModel,
          MIN(model) AS model, SUM(reason NOT IN ('within', '${CORRECTION}') AND NOT (${IS_UNUSED})) AS requests, SUM(${IS_UNUSED}) AS failed, SUM(reason = '${CORRECTION}') AS corrections,
          SUM(cost_nano_usd) AS costNanoUsd, ${SUMMED_COUNTS.map((field) => `SUM(${column(field)}) AS ${field}`).join(', ')}
        FROM ${sql} GROUP BY 1, 2, 3, 4`)
      for (const [first, end] of slices(fromMs, untilMs)) yield statement.all(first, end, fromMs, untilMs, ...values)
    },
    async refs({ fromMs, untilMs }, upstreams, { models, limit }) {
      const { sql, values } = toCalls(upstreams)
      const which =
        models === null ? `status <> 'ok' OR estimated OR unpriced` : `upstream_model IN (${placeholders(models)})`
      const statement = sqlite.query<CallRef, Value[]>(`
        SELECT id, upstream, credential, upstream_model AS upstreamModel, status, http_status AS httpStatus,
          error_code AS errorCode, estimated, unpriced, cost_nano_usd AS costNanoUsd
        FROM ${sql} WHERE ${which} ORDER BY id LIMIT ?`)
      const found: CallRef[] = []
      for (const [first, end] of slices(fromMs, untilMs)) {
        if (found.length >= limit) break
        found.push(...statement.all(first, end, fromMs, untilMs, ...values, ...(models ?? []), limit - found.length))
      }
      return found
    },
  }
}
