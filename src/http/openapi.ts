/**
 * `GET /v1/openapi.json`: what the public API is like, for tools that make clients of it. It asks for no key, as it tells what every
 * server of this version would.
 */
import { Elysia } from 'elysia'
import { mintId, toRequestId } from '../domain/id.ts'
import { createDescription } from './description.ts'

export const openApiController = ({ now }: { now(): number }) => {
  const serve = createDescription(async () => (await import('./openapi/document.ts')).toPublicDocument())
  return new Elysia({ name: 'openapi' }).get('/v1/openapi.json', ({ request }) =>
    serve(request, { 'x-request-id': toRequestId(mintId(now())) }),
  )
}
