/**
 * What every answer of the admin API goes through, whichever routes it has: who asks, how much they send, what their failures look
 * like, and which headers all answers have. It listens to nothing: a server hands it what is asked below `/admin/api`.
 */
import { type AnyElysia, Elysia } from 'elysia'
import { once } from '../domain/once.ts'
import { createInstance, pathOf } from '../http/instance.ts'
import { traceOf } from '../log.ts'
import { API_PATH, identify, identifyOperator, PLAYGROUND, requireShort, toGuarded } from './access.ts'
import { ChangeRate } from './changes.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError, readJson, refuse, toRefusal } from './errors.ts'
import type { Described } from './openapi.ts'

/** What no answer may be without: none is kept by a browser, read or framed by another site, told to one, or taken for something else. */
const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
} as const
/** Of what is no page. */
const POLICY = "default-src 'none'; frame-ancestors 'none'"

/**
 * @param toRoutes makes its controllers; `describe` tells what there is, once all of it is put together.
 * @param toUnread makes those that read bodies by themselves.
 */
export function createAdmin(
  given: Omit<AdminDeps, 'changes'>,
  toRoutes: (deps: AdminDeps, describe: () => Described) => AnyElysia,
  toUnread?: (deps: AdminDeps) => AnyElysia,
) {
  const deps: AdminDeps = { ...given, changes: new ChangeRate() }
  const causes = new WeakMap<Request, unknown>()
  const toResponse = (error: unknown, request: Request): Response => {
    const refusal = toRefusal(error)
    if (refusal) return refusal
    causes.set(request, error)
    const fields = { path: pathOf(request), error: traceOf(error) }
    deps.log.error('internal_error', 'a request to the admin API failed', fields)
    return refuse(500, 'internal', 'Internal error: the log of the server has the cause.')
  }
  const routes = toRoutes(deps, () => described)
  // A command by itself, which has none of them, asks little.
  const options = { toResponse, idleSeconds: 0, maxBodyBytes: 0, isCompiled: toUnread !== undefined }
  const app = createInstance(options)
    .onRequest(async ({ request }) => {
      requireEscaped(request)
      await identify(request, deps)
      if (pathOf(request) !== API_PATH + PLAYGROUND) requireShort(request)
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
    /** All of its routes, with the least role of each. */
    ...described,
    async handle(request: Request): Promise<Response> {
      const response = await app.handle(request)
      for (const [name, value] of Object.entries(HEADERS)) response.headers.set(name, value)
      if (!response.headers.has('content-security-policy')) response.headers.set('content-security-policy', POLICY)
      return response
    },
    /** Answers the operator, who is let in without proof: for requests that nobody else can make. */
    async handleOperator(request: Request): Promise<Response> {
      if (!pathOf(request).startsWith(API_PATH)) return (await ofOperator.get()).handle(request)
      identifyOperator(request)
      return app.handle(request)
    },
    /** The error behind an answer of `internal`, for a process that has no log. */
    causeOf: (request: Request): unknown => causes.get(request),
  }
}

/** Otherwise the router gives a parameter that it cannot read for none. */
function requireEscaped(request: Request): void {
  try {
    decodeURIComponent(pathOf(request))
  } catch {
    throw new AdminError(404, 'unknown_path', 'The path is not escaped as URLs are (RFC 3986).')
  }
}

export type Admin = ReturnType<typeof createAdmin>
