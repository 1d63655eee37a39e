/**
 * The description of this API (OpenAPI 3.1): `GET /admin/api/openapi.json`. Made of its routes and their schemas, of who may ask for
 * them, and of what they say of themselves, when it is first asked for.
 */
import { Type } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import { createDescription } from '../http/description.ts'
import { access, type GuardedRoute } from './access.ts'
import { nameOf } from './origins.ts'

export interface Described {
  app: AnyElysia
  routes: readonly GuardedRoute[]
}

/** @param describe what there is, once all of it is put together. */
export const openApiController = (describe: () => Described) => {
  const at = (cookie: string) => ({
    cookie,
    serve: createDescription(async () => (await import('./openapi-document.ts')).toAdminDocument(describe(), cookie)),
  })
  // Of the address that it was read at last: there may be as many as ports.
  let last: ReturnType<typeof at> | null = null
  return new Elysia({ name: 'openapi' }).use(access()).get(
    '/openapi.json',
    ({ request, visitor: { own } }) => {
      const cookie = nameOf('session', own)
      if (last?.cookie !== cookie) last = at(cookie)
      return last.serve(request)
    },
    { route: { least: 'viewer', summary: 'This description', answer: Type.Object({}) } },
  )
}
