/** `/healthz` and `/readyz`: the only answers without a key. They name nothing that is configured here. */
import { Elysia } from 'elysia'
import type { ServerReadiness } from '../documents/server.ts'
import { mintId, toRequestId } from '../domain/id.ts'

export interface ReadinessDeps {
  readiness(): ServerReadiness
  now(): number
}

export const healthController = (deps: ReadinessDeps) => {
  const reply = (status: number, body: { status: string }) =>
    Response.json(body, {
      status,
      headers: { 'cache-control': 'no-store', 'x-request-id': toRequestId(mintId(deps.now())) },
    })

  return new Elysia({ name: 'health' })
    .get('/healthz', () => reply(200, { status: 'ok' }))
    .get('/readyz', () => {
      const status = deps.readiness()
      return reply(status === 'ok' || status === 'degraded' ? 200 : 503, { status })
    })
}
