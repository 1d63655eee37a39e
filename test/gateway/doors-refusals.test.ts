/** On every endpoint: a refusal before any call is in the endpoint's format, with the request ID. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { DOORS, type Door, type DoorGateway, startDoors } from '../support/doors.ts'

let gateway: DoorGateway
beforeAll(async () => {
  gateway = await startDoors()
})
afterAll(async () => {
  expect(await gateway.app.logText()).not.toContain('"level":"error"')
  await gateway.stop()
})

const INVALID = 'invalid_request_error'

interface Scenario {
  name: string
  status: number
  code: string | null
  type?: string
  ask(door: Door): Promise<Response>
  headers?: Record<string, string>
}

const keyed = (authorization: string, more: Record<string, string> = {}) => ({ headers: { authorization, ...more } })
const unauthorized = { status: 401, type: 'authentication_error', headers: { 'www-authenticate': 'Bearer' } }
const withModel = (door: Door, model: string) => JSON.stringify({ model, ...door.client.body({}) })
const otherModel = ({ client }: Door) => (client.makes === 'text' ? 'embeddings-embeddings/one' : 'chat-chat/one')

const SCENARIOS: Scenario[] = [
  { name: 'no key', ...unauthorized, code: null, ask: (door) => gateway.ask(door, keyed('')) },
  {
    name: 'a key that nobody has',
    ...unauthorized,
    code: 'invalid_api_key',
    ask: (door) => gateway.ask(door, keyed(`Bearer sk-tg-${'x'.repeat(38)}`)),
  },
  {
    name: 'such a key in x-api-key',
    ...unauthorized,
    code: 'invalid_api_key',
    ask: (door) => gateway.ask(door, keyed('', { 'x-api-key': 'sk-ant-whatever-it-is' })),
  },
  {
    name: 'an address that its key may not be used from',
    ...{ status: 403, type: 'permission_error', code: 'ip_not_allowed', headers: { 'x-should-retry': 'false' } },
    ask: (door) => gateway.ask(door, { key: gateway.app.key({ allowedIps: ['203.0.113.0/24'] }) }),
  },
  {
    name: 'a model that there is not',
    ...{ status: 404, type: 'not_found_error', code: 'model_not_found' },
    ask: (door) => gateway.ask(door, { body: withModel(door, 'nobody/has-it') }),
  },
  {
    name: 'a model that its key may not use',
    ...{ status: 404, type: 'not_found_error', code: 'model_not_found' },
    ask: (door) => gateway.ask(door, { key: gateway.app.key({ models: ['other/*'] }) }),
  },
  {
    name: 'a model that is not for its scope',
    ...{ status: 404, type: 'not_found_error', code: 'model_not_found' },
    ask: (door) => gateway.ask(door, { key: gateway.app.key({ scope: 'local' }) }),
  },
  { name: 'half of its JSON', status: 400, code: null, ask: (door) => gateway.ask(door, { body: '{"model":' }) },
  { name: 'what is no object', status: 400, code: null, ask: (door) => gateway.ask(door, { body: '[]' }) },
  {
    name: 'another content type',
    ...{ status: 400, code: 'unsupported_content_type' },
    ask: (door) => gateway.ask(door, { headers: { 'content-type': 'text/plain' } }),
  },
  {
    name: 'more than may be sent',
    ...{ status: 413, type: 'request_too_large', code: 'request_too_large' },
    ask: (door) => gateway.ask(door, { body: ' '.repeat(33 * 1024 ** 2) }),
  },
]

describe.each(DOORS)('$name rejects', (door) => {
  const { client } = door

  test.each(SCENARIOS)('$name', async ({ status, code, type = INVALID, ask, headers = {} }) => {
    const [rows, calls] = [await gateway.app.count(), gateway.near.requests.length]
    const response = await ask(door)
    const text = await response.text()
    const told = client.refusal(response, text)
    const isMessages = client.endpoint === 'messages'
    expect({ status: response.status, ...told }).toMatchObject({
      status,
      ...(isMessages ? { type, code: null } : { type: client.endpoint === 'gemini' ? told.type : INVALID, code }),
    })
    expect(Object.fromEntries(response.headers)).toMatchObject(headers)
    for (const secret of gateway.app.secrets) expect(text).not.toContain(secret)
    expect([await gateway.app.count(), gateway.near.requests.length]).toEqual([rows, calls])
  })

  test('another method', async () => {
    for (const method of ['PUT', 'DELETE', 'PATCH', 'GET']) {
      const response = await fetch(`${gateway.app.baseUrl}${client.path}`, { method })
      const { message } = client.refusal(response, await response.text())
      expect({ method, status: response.status, allow: response.headers.get('allow') }).toEqual({
        ...{ method, status: 405, allow: 'POST' },
      })
      expect(message).toContain('POST')
    }
  })

  test('an unknown path under it', async () => {
    const response = await fetch(`${gateway.app.baseUrl}${client.path}/nothing`, { method: 'POST' })
    client.refusal(response, await response.text())
    expect(response.status).toBe(404)
  })

  test('an unsupported request of a model, and names the right endpoint', async () => {
    const response = await gateway.ask(door, { body: withModel(door, otherModel(door)) })
    const { message } = client.refusal(response, await response.text())
    expect(response.status).toBe(400)
    expect(message).toContain(client.makes === 'text' ? '/v1/embeddings' : '/v1/chat/completions')
  })

  test('no one whose key is in any of the usual headers', async () => {
    const key = gateway.app.key()
    await gateway.calm(door)
    for (const headers of [{ authorization: `Bearer ${key}` }, { 'x-api-key': key }, { 'api-key': key }]) {
      const own = { authorization: '', ...headers }
      const response = await gateway.ask(door, { headers: own })
      expect(response.status).toBe(200)
      await response.text()
      const sent = JSON.stringify(gateway.near.requests.at(-1)?.headers)
      expect(sent).not.toContain(key)
    }
    await gateway.rows(3)
  })
})

test('legacy completions are rejected for a model without an upstream that accepts them', async () => {
  const door = DOORS.find(({ client }) => client.endpoint === 'completions') as Door
  const response = await gateway.ask(door, { body: withModel(door, 'chat-chat/one') })
  expect(door.client.refusal(response, await response.text())).toMatchObject({ code: 'unsupported_endpoint' })
  expect(response.status).toBe(400)
})
