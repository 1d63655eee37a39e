/**
 * The composition root of the HTTP surface: mounts the controllers, and turns whatever they throw into the contract's
 * error shape. Built from its dependencies alone, so that a test can run it with a clock and upstreams of its own.
 */

import { Elysia } from 'elysia'
import { GatewayError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import { authenticate } from '../gateway/authenticate.ts'
import { MAX_BODY_BYTES } from '../gateway/body.ts'
import { traceOf } from '../log.ts'
import { toToken } from './bearer.ts'
import { type ChatDeps, chatController, IDLE_SECONDS } from './chat.ts'
import { type HealthDeps, healthController } from './health.ts'
import { type ModelsDeps, modelsController } from './models.ts'
import { pathOf } from './path.ts'

export type AppDeps = Omit<ChatDeps, 'setIdleLimit'> & ModelsDeps & HealthDeps

export function createApp(deps: AppDeps) {
  // Taken from the closure: as part of Elysia's context it would cost every request a property of its own.
  const setIdleLimit = (request: Request, seconds: number) => app.server?.timeout(request, seconds)
  const app = new Elysia({
    serve: {
      // For connections that have not proved a key, and for those between two requests.
      idleTimeout: IDLE_SECONDS,
      // Bun's own 413 has no body: ours comes first, for every body up to this one.
      maxRequestBodySize: 64 * MAX_BODY_BYTES,
      reusePort: false,
      // Bun's own error page, with our sources in it, is its default even in a compiled binary.
      development: false,
    },
    // Otherwise the router takes part of a short host name for the path.
    handler: { standardHostname: false },
  })
    .onError(({ error, code, request }) => toResponse(toGatewayError(deps, error, code, request)))
    .use(chatController({ ...deps, setIdleLimit }))
    .use(modelsController(deps))
    .use(healthController(deps))
  return app
}

export type App = ReturnType<typeof createApp>

function toGatewayError(deps: AppDeps, error: unknown, code: unknown, request: Request): GatewayError {
  const told =
    code === 'NOT_FOUND'
      ? toNoRoute(deps, request)
      : error instanceof GatewayError
        ? error
        : new GatewayError('internal', OUR_MISTAKE, { cause: error })
  // The walk has given its refusals an id and a log line already.
  if (told.requestId === null) {
    const id = mintId(deps.now())
    told.requestId = toRequestId(id)
    const { method } = request
    deps.log.info('refused', {
      id,
      method,
      path: pathOf(request),
      http: told.status,
      code: told.code ?? told.kind,
    })
  }
  if (told.kind === 'internal') {
    const { cause, requestId } = told
    deps.log.error('a request failed for a reason of our own', {
      id: requestId,
      error: traceOf(cause),
    })
  }
  return told
}

const OUR_MISTAKE = 'Tollgate made a mistake; its log has the cause under this request id.'

/** An URL or a method that is not served; under `/v1` only a key learns which of them it was. */
function toNoRoute(deps: AppDeps, request: Request): GatewayError {
  const pathname = pathOf(request)
  if (pathname === '/v1' || pathname.startsWith('/v1/')) {
    const token = toToken(undefined, request.headers.toJSON())
    const key = authenticate(deps.snapshot(), token, deps.now())
    if (!key.ok) return key.error
  }
  const allowed = allowedMethod(pathname)
  if (allowed === null || allowed === request.method) {
    return new GatewayError('unknown_url', `Invalid URL (${request.method} ${pathname.slice(0, 200)})`)
  }
  return new GatewayError(
    'method_not_supported',
    `Not allowed to ${request.method} on ${pathname}; use ${allowed} instead.`,
    { headers: { allow: allowed } },
  )
}

function allowedMethod(pathname: string): string | null {
  if (pathname === '/v1/chat/completions') return 'POST'
  if (pathname === '/healthz' || pathname === '/readyz') return 'GET'
  return pathname === '/v1/models' || pathname.startsWith('/v1/models/') ? 'GET' : null
}

function toResponse(error: GatewayError): Response {
  return Response.json(error.toBody(), {
    status: error.status,
    headers: { 'x-request-id': error.requestId ?? '', ...error.headers },
  })
}
