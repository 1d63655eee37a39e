/** Mounts the admin API, an instance of its own (`admin/app.ts`), and the dashboard's pages, if there are any. */
import { Elysia } from 'elysia'
import { GatewayError } from '../domain/error.ts'
import { pathOf } from './instance.ts'

export interface AdminSurface {
  admin: { handle(request: Request): Promise<Response> }
  /** `/metrics`, which checks its token itself. */
  metrics(request: Request): Promise<Response>
  /** Null without a dashboard. Returns null for an unknown asset. */
  pages: { serve(asset: string | null, request: Request): Promise<Response | null> } | null
}

/** These paths never get CORS headers. */
export const isForAdmins = (path: string) => path === '/admin' || path.startsWith('/admin/') || path === '/metrics'

/** For a missing page or asset: an update may add it, so it must not be cached. */
const NOTHING = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY' }

export function adminController({ admin, metrics, pages }: AdminSurface) {
  const toApi = ({ request }: { request: Request }) => admin.handle(request)
  const app = new Elysia({ name: 'admin' })
    .all('/admin/api/*', toApi, { parse: 'none' })
    // Otherwise the pages' GET route would take precedence over `.all`.
    .get('/admin/api/*', toApi)
    .get('/metrics', ({ request }) => metrics(request))
  if (pages === null) return app
  const serve = async (asset: string | null, request: Request) => {
    const response = await pages.serve(asset, request)
    if (response !== null) return response
    const message = `Invalid URL (GET ${pathOf(request).slice(0, 200)})`
    throw new GatewayError('unknown_url', message, { headers: NOTHING })
  }
  const toPage = ({ request }: { request: Request }) => serve(null, request)
  return app
    .get('/', () => new Response(null, { status: 302, headers: { location: '/admin', 'cache-control': 'no-store' } }))
    .get('/admin', toPage)
    .get('/admin/*', toPage)
    .get('/admin/assets/*', ({ request, params }) => serve(params['*'], request))
}
