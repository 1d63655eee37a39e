/** `GET /v1/openapi.json`. It needs no key, since it is the same on every server of this version. */
import { Elysia } from 'elysia'
import { mintId, toRequestId } from '../domain/id.ts'
import { createDescription } from './description.ts'

export const openApiController = ({ now }: { now(): number }) => {
  const serve = createDescription(async () => (await import('./openapi/document.ts')).toPublicDocument())
  return new Elysia({ name: 'openapi' }).get('/v1/openapi.json', ({ request }) =>
    serve(request, { 'x-request-id': toRequestId(mintId(now())) }),
  )
}
