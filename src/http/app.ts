/**
 * The public surface: mounts the controllers, and turns whatever they throw into the error that clients know from OpenAI's
 * API. Built from its dependencies alone, so that a test can run it with a clock and upstreams of its own.
 */
import { GatewayError, internalError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { IpRange } from '../domain/ip.ts'
import { MAX_BODY_BYTES } from '../gateway/body.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { type AdminSurface, adminController, isForAdmins } from './admin.ts'
import { createIpOf } from './client-ip.ts'
import { createCors } from './cors.ts'
import { COUNTS, countController, DOORS, doorController, errorFormatOf, IDLE_SECONDS } from './doors.ts'
import { answerError } from './error-response.ts'
import { healthController, type ReadinessDeps } from './health.ts'
import { createInstance, hasHost, methodsOf, NoRoute, pathOf, type Route } from './instance.ts'
import { findMeant } from './meant.ts'
import { type ModelsDeps, modelsController } from './models.ts'
import { openApiController } from './openapi.ts'
import { whyNoResponses } from './stored-responses.ts'

/** Above our own limit, so that our 413 comes first. */
export const LARGEST_BODY_BYTES = 64 * MAX_BODY_BYTES

export interface AppDeps extends HandleDeps, ModelsDeps, ReadinessDeps, AdminSurface {
  /** Origins whose pages may read answers; `*` for all of them, none by default. */
  corsOrigins: readonly string[]
  /** Whose word counts for where a client is, in `x-forwarded-for`. */
  trustedProxies: readonly IpRange[]
}

export function createApp(deps: AppDeps) {
  const cors = createCors(deps.corsOrigins)
  const app = createInstance({
    toResponse(error, request) {
      const opening = isForAdmins(pathOf(request)) ? null : cors
      const preflight = opening?.preflight(request, toRequestId(mintId(deps.now())))
      if (preflight) return preflight
      const response = answerError(deps, request, toGatewayError(app.routes, error, request), errorFormatOf(request))
      return opening?.open(response, request) ?? response
    },
    // For connections that have not proved a key, and for those between two requests.
    idleSeconds: IDLE_SECONDS,
    maxBodyBytes: LARGEST_BODY_BYTES,
  })
  // Without it, no request has a step more. What a controller returns is a response of ours, whose headers may be added to.
  if (cors)
    app.onAfterHandle(({ response, request, path }) => {
      if (response instanceof Response && !isForAdmins(path)) cors.open(response, request)
    })
  const ipOf = createIpOf(app, deps.trustedProxies)
  return app
    .use(DOORS.map((door) => doorController(deps, app, ipOf, door)))
    .use(COUNTS.map((count) => countController(deps, app, ipOf, count)))
    .use(modelsController(deps, ipOf))
    .use(healthController(deps))
    .use(openApiController(deps))
    .use(adminController(deps))
}

export type App = ReturnType<typeof createApp>

/** Before anyone is asked for a key: which paths there are is no secret, and agents try a 401 again for ever. */
function toGatewayError(routes: readonly Route[], error: unknown, request: Request): GatewayError {
  if (error instanceof GatewayError) return error
  if (!(error instanceof NoRoute)) return internalError(error)
  if (!hasHost(request)) return new GatewayError('invalid_request', 'The Host header is missing or malformed.')
  const { path, allow, message } = error
  const told = whyNoResponses(request, path)
  if (told) return told
  if (allow !== null) return new GatewayError('method_not_supported', message, { headers: { allow } })
  const meant = findMeant(path, [...new Set(routes.map((route) => route.path))])
  if (meant === null) return new GatewayError('unknown_url', message)
  const [first] = methodsOf(routes, meant.route)
  const method = first === 'ALL' ? request.method : first
  return new GatewayError('unknown_url', `${message}. Did you mean ${method} ${meant.path.slice(0, 200)}?`)
}
