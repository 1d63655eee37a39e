/** The public server: mounts the controllers and turns what they throw into API errors. */
import { Elysia } from 'elysia'
import type { ServerReadiness } from '../documents/server.ts'
import { GatewayError, internalError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { IpRange } from '../domain/ip.ts'
import { COUNT_PATHS, ENDPOINT_PATHS } from '../domain/task.ts'
import { explainMethod, toAllowed } from '../formats/gemini/path.ts'
import { STORES_NOTHING } from '../formats/responses/request.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { MAX_BODY_BYTES } from '../gateway/read.ts'
import { type AdminSurface, adminController, isForAdmins } from './admin.ts'
import { batchesController } from './batches.ts'
import { createIpOf } from './client-ip.ts'
import { createCors } from './cors.ts'
import { endpointControllers, errorFormatOf, geminiControllers, IDLE_SECONDS } from './endpoints.ts'
import { answerError } from './error-response.ts'
import { filesController } from './files.ts'
import { createInstance, hasHost, methodsOf, NoRoute, pathOf, type Route, toPattern } from './instance.ts'
import { type MessageBatchDeps, messageBatchesController } from './message-batches.ts'
import { type ModelsDeps, modelsController } from './models.ts'
import { openApiController } from './openapi.ts'
import { explainRealtime, realtimeController } from './realtime.ts'

/** For `/healthz` and `/readyz`, which need no key and so reveal nothing about the configuration. */
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

/** Load balancers may ask these by HTTP/1.0, without a Host header. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz'])

const MAX_LENGTH = 400
const MAX_SEGMENTS = 12

/**
 * Finds the route that a path ends with, ignoring case and a missing `/v1`.
 * @param routes may have `:name` segments and end in `*`
 */
function suggestUrl(path: string, routes: readonly string[]): { path: string; route: string } | null {
  const segments = path.split('/').filter((segment) => segment !== '')
  if (path.length > MAX_LENGTH || segments.length > MAX_SEGMENTS) return null
  for (let from = 0; from < segments.length; from++) {
    const rest = `/${segments.slice(from).join('/')}`
    const lower = rest.toLowerCase()
    for (const route of routes) {
      const star = toPattern(route).exec(lower) ?? toPattern(route).exec(`/v1${lower}`)
      // Keeps the case of a model's name.
      if (star) return { path: route.replace('*', () => rest.slice(rest.length - (star[1] ?? '').length)), route }
    }
  }
  return null
}

/** Explains unsupported parts of the Responses API; null for any other path. */
function explainResponses(request: Request, path: string): GatewayError | null {
  // Codex tries a WebSocket first. After 426 it uses HTTP at once; after any other status only after several retries
  // (openai/codex#43353).
  if (path === ENDPOINT_PATHS.responses && request.headers.get('upgrade')?.toLowerCase() === 'websocket')
    return new GatewayError(
      'websocket_not_supported',
      `WebSocket is not supported. Use POST ${ENDPOINT_PATHS.responses}, with "stream": true for events.`,
    )
  if (!path.startsWith(`${ENDPOINT_PATHS.responses}/`) || path === COUNT_PATHS.responses) return null
  if (path === `${ENDPOINT_PATHS.responses}/compact`)
    return new GatewayError(
      'unknown_url',
      `Compaction is not supported. Request a summary in a normal request to POST ${ENDPOINT_PATHS.responses}.`,
    )
  return new GatewayError(
    'unknown_url',
    `${STORES_NOTHING} Send the whole input to POST ${ENDPOINT_PATHS.responses} each time.`,
  )
}

/** Above `MAX_BODY_BYTES`, so that Tollgate's own 413 comes first. */
export const LARGEST_BODY_BYTES = 64 * MAX_BODY_BYTES

interface BaseDeps extends Pick<HandleDeps, 'now' | 'log'> {
  /** Whether this server itself has TLS. */
  isSecure?: boolean
  /** Origins allowed by CORS; `*` for all. */
  corsOrigins: readonly string[]
  /** Proxies whose `x-forwarded-for` is trusted. */
  trustedProxies: readonly IpRange[]
}

export interface AppDeps extends BaseDeps, HandleDeps, ModelsDeps, ReadinessDeps, AdminSurface, MessageBatchDeps {}

export function createApp(deps: AppDeps) {
  const { app, ipOf, openResponses } = createBase(deps)
  openResponses()
  return app
    .use(endpointControllers(deps, app, ipOf))
    .use(realtimeController(deps, app, ipOf))
    .use(modelsController(deps, ipOf))
    .use(geminiControllers(deps, app, ipOf))
    .use(filesController(deps, ipOf))
    .use(batchesController(deps, ipOf))
    .use(messageBatchesController(deps, ipOf))
    .use(healthController(deps))
    .use(openApiController(deps))
    .use(adminController(deps))
}

export interface WorkerAppDeps extends BaseDeps, HandleDeps, ModelsDeps {
  /** Handles all paths but the model endpoints. */
  forward(request: Request, peer: string): Promise<Response>
}

/** The model endpoints; another process handles all other paths. */
export function createWorkerApp(deps: WorkerAppDeps) {
  const { app, ipOf, openResponses } = createBase(deps)
  app.all(
    '*',
    ({ request }) => {
      const path = pathOf(request)
      if (!hasHost(request) && !HEALTH_PATHS.has(path)) throw new NoRoute(request.method, path, null)
      return deps.forward(request, app.server?.requestIP(request)?.address ?? '')
    },
    { parse: 'none' },
  )
  // The process that handles forwarded requests adds their CORS headers.
  openResponses()
  return app
    .use(endpointControllers(deps, app, ipOf))
    .use(realtimeController(deps, app, ipOf))
    .use(modelsController(deps, ipOf))
    .use(geminiControllers(deps, app, ipOf))
}

function createBase(deps: BaseDeps) {
  const cors = createCors(deps.corsOrigins)
  const app = createInstance({
    toResponse(error, request) {
      const opening = isForAdmins(pathOf(request)) ? null : cors
      const preflight = opening?.preflight(request, toRequestId(mintId(deps.now())))
      if (preflight) return preflight
      const response = answerError(deps, request, toGatewayError(app.routes, error, request), errorFormatOf(request))
      return opening?.open(response, request) ?? response
    },
    // For unauthenticated connections and between requests.
    idleSeconds: IDLE_SECONDS,
    maxBodyBytes: LARGEST_BODY_BYTES,
    isSecure: deps.isSecure ?? false,
  })
  /** Adds CORS headers to responses of routes added later. Only if needed, since it costs each request a step. */
  const openResponses = () => {
    if (cors)
      app.onAfterHandle(({ response, request, path }) => {
        if (response instanceof Response && !isForAdmins(path)) cors.open(response, request)
      })
  }
  return { app, openResponses, ipOf: createIpOf(app, deps.trustedProxies) }
}

export type App = ReturnType<typeof createApp>

/** A model and its methods share a path prefix. */
const narrowed = (error: NoRoute, { method }: Request): NoRoute =>
  error.allow === null ? error : new NoRoute(method, error.path, toAllowed(error.path) ?? error.allow)

/** Checked before authentication: the routes are public, and agents retry a 401 forever. */
function toGatewayError(routes: readonly Route[], error: unknown, request: Request): GatewayError {
  if (error instanceof GatewayError) return error
  if (!(error instanceof NoRoute)) return internalError(error)
  if (!hasHost(request)) return new GatewayError('invalid_request', 'The Host header is missing or malformed.')
  const { path, allow, message } = narrowed(error, request)
  const unsupported = explainResponses(request, path) ?? explainRealtime(path) ?? explainMethod(request, path)
  if (unsupported) return unsupported
  if (allow !== null) return new GatewayError('method_not_supported', message, { headers: { allow } })
  const suggestion = suggestUrl(path, [...new Set(routes.map((route) => route.path))])
  if (suggestion === null) return new GatewayError('unknown_url', message)
  const [first] = methodsOf(routes, suggestion.route)
  const method = first === 'ALL' ? request.method : first
  return new GatewayError('unknown_url', `${message}. Did you mean ${method} ${suggestion.path.slice(0, 200)}?`)
}
