/** Missing parts of the Responses API: WebSocket, stored responses, and compaction. */
import { expect, test } from 'bun:test'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { askRaw } from '../support/raw.ts'

const gateway = forAllTests(startGateway)

const KEPT: [method: string, path: string][] = [
  ['GET', '/responses/resp_1'],
  ['DELETE', '/responses/resp_1'],
  ['GET', '/responses/resp_1/input_items?limit=5'],
  ['POST', '/responses/resp_1/cancel'],
]

test.each(KEPT)('%s %s says that nothing is stored', async (method, path) => {
  const response = await fetch(gateway.app.baseUrl + path, { method, ...(method === 'POST' ? { body: '{' } : {}) })
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({
    error: { message: 'Tollgate does not store responses. Send the whole input to POST /v1/responses each time.' },
  })
})

test('compaction is rejected by name, and counting by GET says to use POST', async () => {
  const compact = await fetch(`${gateway.app.baseUrl}/responses/compact`, { method: 'POST', body: '{' })
  expect([compact.status, await compact.json()]).toEqual([
    404,
    {
      error: expect.objectContaining({
        message: 'Compaction is not supported. Request a summary in a normal request to POST /v1/responses.',
      }),
    },
  ])
  const counted = await fetch(`${gateway.app.baseUrl}/responses/input_tokens`)
  expect([counted.status, counted.headers.get('allow')]).toEqual([405, 'POST'])
})

test('a WebSocket is rejected at once with 426, so Codex continues over HTTP', async () => {
  const { status, headers, body } = await askRaw(gateway.app.origin, '/v1/responses', {
    headers: [
      ['connection', 'Upgrade'],
      ['upgrade', 'websocket'],
      ['sec-websocket-version', '13'],
      ['sec-websocket-key', 'aMRl1mkoC2hjpFD5r4nVnw=='],
      ['sec-websocket-extensions', 'permessage-deflate; client_max_window_bits'],
    ],
  })
  expect([status, headers.get('upgrade')]).toEqual([426, 'HTTP/1.1'])
  expect(JSON.parse(String(body))).toMatchObject({ error: { code: 'websocket_not_supported' } })
})

test('any other GET says to use POST', async () => {
  const response = await fetch(`${gateway.app.baseUrl}/responses`)
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
})
