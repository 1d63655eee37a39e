/**
 * The admin API: an instance of its own that listens to nothing; the public one hands it what is asked below `/admin/api`. Made when
 * something is first asked of it: no start waits for it, and no other request has a step more.
 */
import { Elysia } from 'elysia'
import { createInstance, pathOf } from '../http/instance.ts'
import { traceOf } from '../log.ts'
import { API_PATH, identify, requireShort, toGuarded } from './access.ts'
import { auditController } from './audit.ts'
import { catalogController } from './catalog.ts'
import { ChangeRate } from './change-rate.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError, refuse, toRefusal } from './errors.ts'
import { failuresController } from './failures.ts'
import { readJson } from './json.ts'
import { keysController } from './keys.ts'
import { modelsController } from './models.ts'
import { type Described, openApiController } from './openapi.ts'
import { ownController } from './own.ts'
import { passkeysController } from './passkeys.ts'
import { adminsController, tokensController } from './people.ts'
import { PLAYGROUND, playgroundController } from './playground.ts'
import { requestsController } from './requests.ts'
import { backupsController, settingsController, statusController } from './server.ts'
import { oidcController, sessionController } from './sign-in.ts'
import { teamsController } from './teams.ts'
import { upstreamsController } from './upstreams.ts'
import { usageController } from './usage.ts'

const routesOf = (deps: AdminDeps, describe: () => Described) =>
  new Elysia({ prefix: API_PATH, normalize: false })
    .use(sessionController(deps))
    .use(passkeysController(deps))
    .use(oidcController(deps))
    .use(keysController(deps))
    .use(ownController(deps))
    .use(teamsController(deps))
    .use(adminsController(deps))
    .use(tokensController(deps))
    .use(settingsController(deps))
    .use(statusController(deps))
    .use(backupsController(deps))
    .use(modelsController(deps))
    .use(upstreamsController(deps))
    .use(catalogController(deps))
    .use(usageController(deps))
    .use(failuresController(deps))
    .use(requestsController(deps))
    .use(auditController(deps))
    .use(openApiController(describe))

/** What a typed client goes by. */
export type AdminApi = ReturnType<typeof routesOf>

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

export function createAdminApi(given: Omit<AdminDeps, 'changes'>) {
  const deps: AdminDeps = { ...given, changes: new ChangeRate() }
  const toResponse = (error: unknown, request: Request): Response => {
    const refusal = toRefusal(error)
    if (refusal) return refusal
    const fields = { path: pathOf(request), error: traceOf(error) }
    deps.log.error('internal_error', 'a request to the admin API failed', fields)
    return refuse(500, 'internal', 'Internal error: the log of the server has the cause.')
  }
  const routes = routesOf(deps, () => described)
  const app = createInstance({ toResponse, idleSeconds: 0, maxBodyBytes: 0 })
    .onRequest(async ({ request }) => {
      requireEscaped(request)
      await identify(request, deps)
      if (pathOf(request) !== API_PATH + PLAYGROUND) requireShort(request)
    })
    // Before the hook below, which would have its body read here.
    .use(new Elysia({ prefix: API_PATH }).use(playgroundController(deps)))
    .onParse(({ request, contentType }) => (contentType === 'application/json' ? readJson(request) : undefined))
    .use(routes)
  const described: Described = { app, routes: toGuarded(app) }
  return {
    /** All of its routes, with the least role of each. */
    ...described,
    async handle(request: Request): Promise<Response> {
      const response = await app.handle(request)
      for (const [name, value] of Object.entries(HEADERS)) response.headers.set(name, value)
      if (!response.headers.has('content-security-policy')) response.headers.set('content-security-policy', POLICY)
      return response
    },
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

export type Admin = ReturnType<typeof createAdminApi>
