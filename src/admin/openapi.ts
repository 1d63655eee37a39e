/**
 * The description of this API (OpenAPI 3.1): `GET /admin/api/openapi.json`. Made of its routes and their schemas, of who may ask for
 * them, and of what `words/` says, when it is first asked for.
 */
import { type AnyElysia, Elysia } from 'elysia'
import { createDescription } from '../http/description.ts'
import { access, type GuardedRoute } from './access.ts'

export interface Described {
  app: AnyElysia
  routes: readonly GuardedRoute[]
}

/** @param describe what there is, once all of it is put together. */
export const openApiController = (describe: () => Described) => {
  const serve = createDescription(async () => (await import('./openapi-document.ts')).toAdminDocument(describe()))
  return new Elysia({ name: 'openapi' })
    .use(access())
    .get('/openapi.json', ({ request }) => serve(request), { least: 'viewer' })
}
