/**
 * The public surface: mounts the controllers, and turns whatever they throw into the error that clients know from OpenAI's
 * API. Built from its dependencies alone, so that a test can run it with a clock and upstreams of its own.
 */
import { GatewayError, internalError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { MAX_BODY_BYTES } from '../gateway/intake.ts'
import { authenticate, toToken } from '../keys/token.ts'
import { traceOf } from '../log.ts'
import { chatController, IDLE_SECONDS } from './chat.ts'
import { type HealthDeps, healthController } from './health.ts'
import { createInstance, NoRoute, pathOf } from './instance.ts'
import { type ModelsDeps, modelsController } from './models.ts'

/** Above our own limit, so that our 413 comes first. */
export const LARGEST_BODY_BYTES = 64 * MAX_BODY_BYTES

export type AppDeps = HandleDeps & ModelsDeps & HealthDeps

export function createApp(deps: AppDeps) {
  const app = createInstance({
    toResponse: (error, request) => toErrorResponse(logged(deps, request, toGatewayError(deps, request, error))),
    // For connections that have not proved a key, and for those between two requests.
    idleSeconds: IDLE_SECONDS,
    maxBodyBytes: LARGEST_BODY_BYTES,
  })
  return app.use(chatController(deps, app)).use(modelsController(deps)).use(healthController(deps))
}

export type App = ReturnType<typeof createApp>

function toGatewayError(deps: AppDeps, request: Request, error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  if (!(error instanceof NoRoute)) return internalError(error)
  const { path, allow, message } = error
  // Under /v1 only a key learns what there is.
  if (path === '/v1' || path.startsWith('/v1/')) {
    const key = authenticate(deps.live.snapshot, toToken(undefined, request.headers.get('authorization')), deps.now())
    if (key instanceof GatewayError) return key
  }
  return allow === null
    ? new GatewayError('unknown_url', message)
    : new GatewayError('method_not_supported', message, { headers: { allow } })
}

/** Gives an error its request's id, where the gateway has not done so, and logs what has not been logged yet. */
function logged({ log, now }: AppDeps, request: Request, error: GatewayError): GatewayError {
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

/** What a client reads of an error that has its request's id. */
export function toErrorResponse(error: GatewayError): Response {
  return Response.json(error.toBody(), {
    status: error.status,
    headers: { 'x-request-id': error.requestId ?? '', ...error.headers },
  })
}
