/** Common handling of admin API requests: authentication, body limits, errors, and security headers. */
import { type AnyElysia, Elysia } from 'elysia'
import { once } from '../domain/once.ts'
import { createInstance, pathOf } from '../http/instance.ts'
import { traceOf } from '../log.ts'
import { API_PATH, identify, identifyOperator, isPlayground, requireShort, toGuarded } from './access.ts'
import { ChangeRate } from './changes.ts'
import { compress } from './compress.ts'
import type { AdminDeps, GivenDeps } from './deps.ts'
import { AdminError, readJson, refuse, toRefusal } from './errors.ts'
import { ModelLists } from './model-lists.ts'
import type { Described } from './openapi.ts'
import { createCsvExports } from './requests-csv.ts'

/** Against caching, framing, sniffing, and reads by other sites. */
const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
} as const
/** For responses other than pages. */
const POLICY = "default-src 'none'; frame-ancestors 'none'"

/**
 * @param toRoutes creates the controllers; `describe` works once all are registered
 * @param toUnread creates controllers that read bodies themselves
 */
export function createAdmin(
  given: GivenDeps,
  toRoutes: (deps: AdminDeps, describe: () => Described) => AnyElysia,
  toUnread?: (deps: AdminDeps) => AnyElysia,
) {
  const deps: AdminDeps = {
    ...given,
    changes: new ChangeRate(),
    modelLists: new ModelLists(given.now),
    exportCsv: createCsvExports(),
  }
  const causes = new WeakMap<Request, unknown>()
  const toResponse = (error: unknown, request: Request): Response => {
    const refusal = toRefusal(error)
    if (refusal) return refusal
    causes.set(request, error)
    const fields = { path: pathOf(request), error: traceOf(error) }
    deps.log.error('internal_error', 'admin API request failed', fields)
    return refuse(500, 'internal', 'Internal error. See the server log for the cause.')
  }
  const routes = toRoutes(deps, () => described)
  // Compiling routes doesn't pay off for single commands.
  const options = {
    toResponse,
    idleSeconds: 0,
    maxBodyBytes: 0,
    isCompiled: toUnread !== undefined,
    isSecure: given.isSecure ?? false,
  }
  const app = createInstance(options)
    .onRequest(async ({ request }) => {
      requireEscaped(request)
      await identify(request, deps)
      if (!isPlayground(pathOf(request))) requireShort(request)
    })
    // Before the hook below, which would have its body read here.
    .use(new Elysia({ prefix: API_PATH }).use(toUnread?.(deps) ?? new Elysia()))
    .onParse(({ request, contentType }) => (contentType === 'application/json' ? readJson(request) : undefined))
    .use(routes)
  const described: Described = { app, routes: toGuarded(app) }
  const ofOperator = once(async () => {
    const { operatorController } = await import('./operator.ts')
    return createInstance(options).use(operatorController(deps))
  })
  return {
    ...described,
    async handle(request: Request): Promise<Response> {
      const response = await compress(request, await app.handle(request))
      for (const [name, value] of Object.entries(HEADERS)) response.headers.set(name, value)
      if (!response.headers.has('content-security-policy')) response.headers.set('content-security-policy', POLICY)
      return response
    },
    /** Handles the operator's requests without authentication; only for channels that no one else can use. */
    async handleOperator(request: Request): Promise<Response> {
      if (!pathOf(request).startsWith(API_PATH)) return (await ofOperator.get()).handle(request)
      identifyOperator(request)
      return app.handle(request)
    },
    /** The error behind an `internal` response, for processes without a log. */
    causeOf: (request: Request): unknown => causes.get(request),
  }
}

/** The router would treat an invalid parameter as missing. */
function requireEscaped(request: Request): void {
  try {
    decodeURIComponent(pathOf(request))
  } catch {
    throw new AdminError(404, 'unknown_path', 'The path has invalid URL escapes (RFC 3986).')
  }
}

export type Admin = ReturnType<typeof createAdmin>
