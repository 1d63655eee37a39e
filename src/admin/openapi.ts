/**
 * The description of this API (OpenAPI 3.1): `GET /admin/api/openapi.json`. Made of its routes and their schemas, of who may ask for
 * them, and of what `words/` says, when it is first asked for.
 */
import { type AnyElysia, Elysia } from 'elysia'
import { access, type GuardedRoute } from './access.ts'

export interface Described {
  app: AnyElysia
  routes: readonly GuardedRoute[]
}

/** @param describe what there is, once all of it is put together. */
export const openApiController = (describe: () => Described) => {
  let text: Promise<string> | null = null
  const make = async () => {
    const { toAdminDocument } = await import('./openapi-document.ts')
    return JSON.stringify(toAdminDocument(describe()))
  }
  return new Elysia({ name: 'openapi' }).use(access()).get(
    '/openapi.json',
    async () => {
      text ??= make()
      return new Response(await text, { headers: { 'content-type': 'application/json' } })
    },
    { least: 'viewer' },
  )
}
