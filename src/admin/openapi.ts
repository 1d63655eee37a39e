/** `GET /admin/api/openapi.json`: the OpenAPI 3.1 document, created from the routes on first request. */
import { Type } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import { createDescription } from '../http/description.ts'
import { access, type GuardedRoute } from './access.ts'
import { nameOf } from './origins.ts'

export interface Described {
  app: AnyElysia
  routes: readonly GuardedRoute[]
}

/** @param describe works once all routes are registered */
export const openApiController = (describe: () => Described) => {
  const at = (cookie: string) => ({
    cookie,
    serve: createDescription(async () => (await import('./openapi-document.ts')).toAdminDocument(describe(), cookie)),
  })
  // Caches only the latest host, since there may be one per port.
  let last: ReturnType<typeof at> | null = null
  return new Elysia({ name: 'openapi' }).use(access()).get(
    '/openapi.json',
    ({ request, visitor: { own } }) => {
      const cookie = nameOf('session', own)
      if (last?.cookie !== cookie) last = at(cookie)
      return last.serve(request)
    },
    { route: { least: 'viewer', summary: 'Get this OpenAPI document', answer: Type.Object({}) } },
  )
}
