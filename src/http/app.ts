/**
 * The public surface: mounts the controllers, and turns whatever they throw into the error that clients know from OpenAI's
 * API. Built from its dependencies alone, so that a test can run it with a clock and upstreams of its own.
 */
import { Elysia } from 'elysia'
import type { ServerReadiness } from '../documents/server.ts'
import { GatewayError, internalError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { IpRange } from '../domain/ip.ts'
import { COUNT_PATHS, ENDPOINT_PATHS } from '../domain/task.ts'

import type { HandleDeps } from '../gateway/handle.ts'
import { MAX_BODY_BYTES } from '../gateway/read.ts'
import { type AdminSurface, adminController, isForAdmins } from './admin.ts'
import { createIpOf } from './client-ip.ts'
import { createCors } from './cors.ts'
import { endpointControllers, errorFormatOf, IDLE_SECONDS } from './endpoints.ts'
import { answerError } from './error-response.ts'
import { createInstance, hasHost, methodsOf, NoRoute, pathOf, type Route, toPattern } from './instance.ts'
import { type ModelsDeps, modelsController } from './models.ts'
import { openApiController } from './openapi.ts'

/** What `/healthz` and `/readyz` need, the only answers without a key. They name nothing that is configured here. */
interface ReadinessDeps {
  readiness(): ServerReadiness
  now(): number
}

const healthController = (deps: ReadinessDeps) => {
  const reply = (status: number, body: { status: string }) =>
    Response.json(body, {
      status,
      headers: { 'cache-control': 'no-store', 'x-request-id': toRequestId(mintId(deps.now())) },
    })

  return new Elysia({ name: 'health' })
    .get('/healthz', () => reply(200, { status: 'ok' }))
    .get('/readyz', () => {
      const status = deps.readiness()
      return reply(status === 'ok' || status === 'degraded' ? 200 : 503, { status })
    })
}

const LONGEST = 400
const MAX_SEGMENTS = 12

/**
 * Finds the served path in whose words a path ends, in letters of either case.
 * @param routes paths that are served, which may have `:name` segments and end in `*`
 */
function findMeant(path: string, routes: readonly string[]): { path: string; route: string } | null {
  const segments = path.split('/').filter((segment) => segment !== '')
  if (path.length > LONGEST || segments.length > MAX_SEGMENTS) return null
  for (let from = 0; from < segments.length; from++) {
    const rest = `/${segments.slice(from).join('/')}`
    const lower = rest.toLowerCase()
    for (const route of routes) {
      const star = toPattern(route).exec(lower) ?? toPattern(route).exec(`/v1${lower}`)
      // A model's name is as it was written.
      if (star) return { path: route.replace('*', () => rest.slice(rest.length - (star[1] ?? '').length)), route }
    }
  }
  return null
}

/** Null where no more can be said than that it is not there. */
function whyNoResponses(request: Request, path: string): GatewayError | null {
  // Codex tries a WebSocket first: after 426 it goes on over HTTP at once, after anything else only when it has tried again and
  // again (openai/codex#43353).
  if (path === ENDPOINT_PATHS.responses && request.headers.get('upgrade')?.toLowerCase() === 'websocket')
    return new GatewayError(
      'websocket_not_supported',
      `This gateway answers over HTTP alone: POST ${ENDPOINT_PATHS.responses}, with "stream": true for events.`,
    )
  if (!path.startsWith(`${ENDPOINT_PATHS.responses}/`) || path === COUNT_PATHS.responses) return null
  if (path === `${ENDPOINT_PATHS.responses}/compact`)
    return new GatewayError(
      'unknown_url',
      `Compaction is not supported: there is no ${path}. Ask for a summary in an ordinary request to POST ${ENDPOINT_PATHS.responses}.`,
    )
  return new GatewayError(
    'unknown_url',
    `Nothing is found below ${ENDPOINT_PATHS.responses}: this gateway keeps no answers. Send the whole input to POST ${ENDPOINT_PATHS.responses} each time.`,
  )
}

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
    .use(endpointControllers(deps, app, ipOf))
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
