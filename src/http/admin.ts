/** Where the public surface hands on what is for administrators: to an instance of its own, with its own doors (`admin/app.ts`). */
import { Elysia } from 'elysia'

export interface AdminSurface {
  admin: { handle(request: Request): Promise<Response> }
}

/** What is below is never opened to pages of other origins. */
export const ADMIN_PATH = '/admin/'

export const adminController = ({ admin }: AdminSurface) =>
  new Elysia({ name: 'admin' }).all('/admin/api/*', ({ request }) => admin.handle(request), { parse: 'none' })
