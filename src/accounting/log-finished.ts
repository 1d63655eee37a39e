/** The one log line of a request that has finished. `server/` gives it to every settlement as its listener. */
import { type Log, traceOf } from '../log.ts'
import type { Finished } from './settle.ts'

export function logFinished(log: Log, { row, reason, mistake }: Finished): void {
  if (mistake !== undefined) {
    log.error('internal_error', 'an answer was cut by an internal error', { id: row.id, error: traceOf(mistake) })
  }
  log.info('request_finished', 'request', {
    id: row.id,
    key: row.keyId,
    model: row.model,
    upstream: row.upstream,
    stream: row.stream === 1,
    status: row.status,
    http: row.httpStatus,
    code: row.errorCode,
    ...(reason ? { reason } : {}),
    attempts: row.attempts,
    ms: row.durationMs,
    first_token_ms: row.firstTokenMs,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    estimated: row.estimated === 1,
    cost_nano_usd: row.costNanoUsd,
  })
}
