/** What a client reads of a failure, in the shape of what it speaks, and the line that it leaves in the log. */
import type { GatewayError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import { openAiErrors } from '../formats/chat/chat.ts'
import type { ErrorFormat } from '../formats/format.ts'
import { type Log, traceOf } from '../log.ts'
import { pathOf } from './instance.ts'

interface ErrorDeps {
  log: Log
  now(): number
}

/** Answers a request that has failed, and logs what has not been logged yet. */
export function answerError(
  deps: ErrorDeps,
  request: Request,
  error: GatewayError,
  format: ErrorFormat = openAiErrors,
): Response {
  const response = toErrorResponse(logged(deps, request, error), format)
  // Nobody reads what may still come of its body, and Bun would go through it chunk by chunk, however small they are.
  if (request.headers.has('transfer-encoding')) response.headers.set('connection', 'close')
  return response
}

/** Gives an error its request's id, where the gateway has not done so, and logs what has not been logged yet. */
function logged({ log, now }: ErrorDeps, request: Request, error: GatewayError): GatewayError {
  if (error.requestId === null) {
    const id = mintId(now())
    error.requestId = toRequestId(id)
    const path = pathOf(request)
    log.info('request_refused', 'refused', {
      id,
      method: request.method,
      path,
      http: error.status,
      code: error.code ?? error.kind,
      ...error.logged,
    })
  }
  if (error.kind === 'internal') {
    log.error('internal_error', 'a request failed for an internal error', {
      id: error.requestId,
      error: traceOf(error.cause),
    })
  }
  return error
}

export function toErrorResponse(error: GatewayError, format: ErrorFormat = openAiErrors): Response {
  return Response.json(format.error(error), {
    status: format.status?.(error) ?? error.status,
    headers: { ...format.ids(error.requestId ?? ''), ...error.headers },
  })
}
