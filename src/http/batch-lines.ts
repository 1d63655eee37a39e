/** Runs a line of a batch as a request of its key, like any other request. */
import type { LineAnswer, LineRequest } from '../batches/gateway-lines.ts'
import { type BatchUsage, NO_BATCH_USAGE } from '../domain/batches.ts'
import type { ErrorKind } from '../domain/error.ts'
import { GatewayError, internalError } from '../domain/error.ts'
import { toRequestId } from '../domain/id.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'
import { type HandleDeps, handle } from '../gateway/handle.ts'
import { errorsOf, formatOf } from './endpoints.ts'
import { answerError } from './error-response.ts'

/** Refused for now; not charged. */
const AGAIN: ReadonlySet<ErrorKind> = new Set([
  'request_limit',
  'token_limit',
  'over_share',
  'overloaded',
  'model_not_ready',
  'ledger_unavailable',
  'upstream_rate_limited',
])

/** Never throws. */
export async function answerLine(deps: HandleDeps, line: LineRequest): Promise<LineAnswer> {
  const { endpoint, key, requestId, body } = line
  let usage: BatchUsage = NO_BATCH_USAGE
  let isCharged = false
  const noting: HandleDeps = {
    ...deps,
    onFinished(finished) {
      const { row } = finished
      if (row.id === requestId) {
        isCharged = row.costNanoUsd > 0
        usage = {
          ...{ input: row.promptTokens, cached: row.cachedTokens },
          ...{ output: row.completionTokens, reasoning: row.reasoningTokens },
        }
      }
      deps.onFinished(finished)
    },
  }
  const headers = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }
  const request = new Request(`http://localhost${ENDPOINT_PATHS[endpoint]}`, { method: 'POST', headers, body })
  const incoming = {
    ...{ request, headers, owner: key, token: null, id: requestId, ipOf: () => null },
    ...{ liftIdleLimit: () => {}, restoreIdleLimit: () => {} },
  }
  try {
    const response = await handle(noting, await formatOf(endpoint), incoming)
    return {
      status: response.status,
      body: await response.text(),
      requestId,
      usage,
      outcome: 'done',
      retryAfterMs: null,
    }
  } catch (cause) {
    const error = cause instanceof GatewayError ? cause : internalError(cause)
    error.requestId ??= toRequestId(requestId)
    const response = answerError(deps, request, error, errorsOf(endpoint))
    const retryAfterS = Number(error.headers['retry-after'])
    return {
      ...{ status: response.status, body: await response.text(), requestId, usage },
      // One of several calls may have been charged, and another refused. Each line is charged only once.
      outcome: isCharged ? 'done' : outcomeOf(error),
      retryAfterMs: Number.isFinite(retryAfterS) ? retryAfterS * 1_000 : null,
    }
  }
}

function outcomeOf({ kind, headers }: GatewayError): LineAnswer['outcome'] {
  if (kind === 'stopped') return 'stopped'
  if (kind === 'insufficient_quota') return 'spent'
  return AGAIN.has(kind) && headers['x-should-retry'] !== 'false' ? 'again' : 'done'
}
