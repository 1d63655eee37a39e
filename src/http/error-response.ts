/** Error responses in the format of the client's API, and their log lines. */
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

export function answerError(
  deps: ErrorDeps,
  request: Request,
  error: GatewayError,
  format: ErrorFormat = openAiErrors,
): Response {
  const response = toErrorResponse(logged(deps, request, error), format)
  // The rest of the body is not read. Without this, Bun would go through it chunk by chunk.
  if (request.headers.has('transfer-encoding')) response.headers.set('connection', 'close')
  return response
}

/** Sets the request ID if the gateway has not, and logs what is not logged yet. */
function logged({ log, now }: ErrorDeps, request: Request, error: GatewayError): GatewayError {
  if (error.requestId === null) {
    const id = mintId(now())
    error.requestId = toRequestId(id)
    const path = pathOf(request)
    log.info('request_refused', 'request rejected', {
      id,
      method: request.method,
      path,
      http: error.status,
      code: error.code ?? error.kind,
      key: error.key?.id,
      ...error.logged,
    })
  }
  if (error.kind === 'internal') {
    log.error('internal_error', 'request failed with an internal error', {
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
