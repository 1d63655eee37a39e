/**
 * `GET /v1/openapi.json`: what the public API is like, for tools that make clients of it. It asks for no key, as it tells what every
 * server of this version would.
 */
import { Elysia } from 'elysia'
import { mintId, toRequestId } from '../domain/id.ts'

export const openApiController = ({ now }: { now(): number }) => {
  // Nobody waits for it who does not ask.
  let text: Promise<string> | null = null
  const make = async () => {
    const { toPublicDocument } = await import('./openapi/document.ts')
    return JSON.stringify(toPublicDocument())
  }

  return new Elysia({ name: 'openapi' }).get('/v1/openapi.json', async () => {
    text ??= make()
    const headers = { 'content-type': 'application/json', 'x-request-id': toRequestId(mintId(now())) }
    return new Response(await text, { headers })
  })
}
