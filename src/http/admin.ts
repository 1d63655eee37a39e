/**
 * What is for administrators: pages, and the API that they ask, which is an instance of its own with its own doors (`admin/app.ts`).
 * A server without a dashboard has the API alone.
 */
import { Elysia } from 'elysia'
import { GatewayError } from '../domain/error.ts'
import { pathOf } from './instance.ts'

export interface AdminSurface {
  admin: { handle(request: Request): Promise<Response> }
  /** Null where the server has no dashboard. Of an asset that there is not, it returns null. */
  pages: { serve(asset: string | null, request: Request): Promise<Response | null> } | null
}

/** What is there or below is never opened to pages of other origins. */
export const isForAdmins = (path: string) => path === '/admin' || path.startsWith('/admin/')

/** Where there is no page and nothing that one would load; after an update there may be. */
const NOTHING = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY' }

export function adminController({ admin, pages }: AdminSurface) {
  const toApi = ({ request }: { request: Request }) => admin.handle(request)
  const app = new Elysia({ name: 'admin' })
    .all('/admin/api/*', toApi, { parse: 'none' })
    // Or else the pages, which are for GET alone, would come before what is for all methods.
    .get('/admin/api/*', toApi)
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
