/** Loads only the part of the admin API that a request needs, for commands that run in their own process. */
import { type AnyElysia, Elysia } from 'elysia'
import { API_PATH } from './access.ts'
import type { AdminApi } from './app.ts'
import type { AdminDeps, GivenDeps } from './deps.ts'
import { type Admin, createAdmin } from './instance.ts'

type Controller = (deps: AdminDeps) => AnyElysia

/** Controllers that commands use, by first path segment; null: only for browsers. */
const CONTROLLERS: Record<keyof AdminApi['~Routes']['admin']['api'], (() => Promise<Controller>) | null> = {
  keys: async () => (await import('./keys.ts')).keysController,
  teams: async () => (await import('./teams.ts')).teamsController,
  admins: async () => (await import('./people.ts')).adminsController,
  tokens: async () => (await import('./people.ts')).tokensController,
  settings: async () => (await import('./server.ts')).settingsController,
  models: async () => (await import('./models.ts')).modelsController,
  upstreams: async () => (await import('./upstreams.ts')).upstreamsController,
  presets: async () => (await import('./upstreams.ts')).upstreamsController,
  catalog: async () => (await import('./catalog.ts')).catalogController,
  alerts: async () => (await import('./alerts.ts')).alertsController,
  attention: async () => (await import('./attention.ts')).attentionController,
  usage: async () => (await import('./usage.ts')).usageController,
  failures: async () => (await import('./usage.ts')).failuresController,
  requests: async () => (await import('./requests.ts')).requestsController,
  audit: async () => (await import('./usage.ts')).auditController,
  ...{ status: null, session: null, sessions: null, setup: null, code: null, password: null, passkeys: null },
  ...{ cluster: null, backups: null, oidc: null, own: null, 'openapi.json': null },
}

const isKnown = (name: string): name is keyof typeof CONTROLLERS => Object.hasOwn(CONTROLLERS, name)

async function loadController({ url }: Request): Promise<Controller | null> {
  const name = new URL(url).pathname.slice(API_PATH.length + 1).split('/', 1)[0] ?? ''
  return (isKnown(name) && (await CONTROLLERS[name]?.())) || null
}

/** Each part is created once. */
export function createParts(deps: GivenDeps): (request: Request) => Promise<Admin> {
  const parts = new Map<Controller | null, Admin>()
  return async (request) => {
    const controller = await loadController(request)
    const part =
      parts.get(controller) ??
      createAdmin(deps, (all) => {
        const routes = new Elysia({ prefix: API_PATH, normalize: false })
        return controller ? routes.use(controller(all)) : routes
      })
    parts.set(controller, part)
    return part
  }
}
