/**
 * Pages of other origins, as a browser handles them: its request before a request, and what the page may read of the response
 * (Fetch standard, sections 3.3 and 4.10). Off unless configured: `routes.test.ts`.
 */
import { describe, expect, test } from 'bun:test'
import { type Gateway, HELLO, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'

const PAGE = 'https://app.example.com'
const OTHER = 'https://evil.example.com'

const some = forAllTests(() => startGateway({ config: { corsOrigins: ['http://localhost:5173', PAGE] } }))
const every = forAllTests(() => startGateway({ config: { corsOrigins: ['*'] } }))

interface Asking {
  method?: string
  headers?: Record<string, string>
  body?: unknown
}

/** What a browser sends before a request with custom headers. */
function preflight(gateway: Gateway, path: string, origin: string, { method = 'POST', headers = {} }: Asking) {
  const wanted = Object.keys(headers).sort().join(',')
  return fetch(new URL(path, gateway.app.origin), {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': method, 'access-control-request-headers': wanted },
  })
}

/** A page's `fetch`: throws if a browser would, and has the visible headers. */
async function fetchFrom(origin: string, gateway: Gateway, path: string, asking: Asking = {}) {
  const { method = 'GET', headers = {}, body } = asking
  const lets = (response: Response) => {
    const allowed = response.headers.get('access-control-allow-origin')
    if (allowed !== '*' && allowed !== origin) throw new TypeError(`blocked by CORS: ${response.status}`)
    expect(response.headers.has('access-control-allow-credentials')).toBe(false)
  }
  const before = await preflight(gateway, path, origin, asking)
  lets(before)
  if (!before.ok) throw new TypeError('the preflight failed')
  const listed = (before.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(/, */)
  // The standard's `*` doesn't cover `authorization`.
  for (const name of Object.keys(headers)) if (!listed.includes(name)) throw new TypeError(`${name} is not allowed`)
  expect(before.headers.get('access-control-allow-methods')).toContain(method)
  const init = {
    method,
    headers: { ...headers, origin },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }
  const response = await fetch(new URL(path, gateway.app.origin), init)
  lets(response)
  const shown = response.headers.get('access-control-expose-headers')?.split(', ') ?? []
  return { status: response.status, text: await response.text(), shown, response }
}

/** What OpenAI's client sends from a page. */
const asClient = (key: string, body: object = HELLO): Asking => ({
  method: 'POST',
  headers: {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'x-stainless-lang': 'js',
    'x-stainless-retry-count': '0',
    'openai-organization': 'ours',
  },
  body,
})
const CHAT = '/v1/chat/completions'

describe.each([
  ['a page of an origin that is named', () => some],
  ['a page of any origin, where all are allowed', () => every],
])('%s', (_, gateway) => {
  const ask = (path: string, asking: Asking = {}) => fetchFrom(PAGE, gateway(), path, asking)

  test('reads a response and its headers', async () => {
    const { status, text, shown } = await ask(CHAT, asClient(gateway().key))
    expect([status, JSON.parse(text).object]).toEqual([200, 'chat.completion'])
    expect(shown).toEqual(expect.arrayContaining(['x-request-id', 'x-tollgate-upstream', 'x-tollgate-attempts']))
  })

  test('reads a stream to its end', async () => {
    const { text, response } = await ask(CHAT, asClient(gateway().key, { ...HELLO, stream: true }))
    expect(response.headers.get('content-type')).toStartWith('text/event-stream')
    expect(text).toEndWith('data: [DONE]\n\n')
  })

  test('reads the model list and one model', async () => {
    const headers = { 'x-api-key': gateway().key }
    expect((await ask('/v1/models', { headers })).status).toBe(200)
    expect((await ask('/v1/models/acme%2Flarge', { headers })).status).toBe(200)
  })

  test('reads the message of each failure, and when to retry', async () => {
    const { app, key } = gateway()
    const limited = app.key({ rpm: 1 })
    await ask(CHAT, asClient(limited))
    const failures: [number, string, Asking][] = [
      [401, CHAT, asClient('sk-tg-wrong')],
      [404, '/chat/completions', asClient(key)],
      [404, CHAT, asClient(key, { ...HELLO, model: 'no/such' })],
      [405, '/v1/models', asClient(key)],
      [400, CHAT, asClient(key, {})],
      [503, CHAT, asClient(key, { ...HELLO, model: 'acme/idle' })],
      [429, CHAT, asClient(limited)],
    ]
    for (const [status, path, asking] of failures) {
      const answer = await ask(path, asking)
      expect({ status: answer.status, ...JSON.parse(answer.text) }).toMatchObject({ status, error: {} })
      expect(answer.shown).toContain('x-request-id')
      if (status === 429)
        expect(answer.shown).toEqual(expect.arrayContaining(['retry-after', 'x-ratelimit-limit-requests']))
    }
  })
})

describe('a preflight', () => {
  test('is cached for two hours, and lets a public page call a private address', async () => {
    const headers = {
      origin: PAGE,
      'access-control-request-method': 'POST',
      'access-control-request-private-network': 'true',
    }
    const { status, headers: answer } = await fetch(some.app.origin + CHAT, { method: 'OPTIONS', headers })
    expect(status).toBe(204)
    expect(answer.get('access-control-max-age')).toBe('7200')
    expect(answer.get('access-control-allow-private-network')).toBe('true')
    expect(answer.get('vary')).toBe('origin, access-control-request-headers')
    expect(answer.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    expect(answer.has('access-control-allow-headers')).toBe(false)
  })

  test('of an unlisted origin is rejected like any other OPTIONS, and its requests stay unread', async () => {
    for (const origin of [OTHER, 'null', `${PAGE}.evil.com`, 'http://app.example.com', `${PAGE}:444`]) {
      await expect(fetchFrom(origin, some, CHAT, asClient(some.key))).rejects.toThrow('blocked by CORS: 405')
      const response = await fetch(`${some.app.baseUrl}/models`, {
        headers: { origin, authorization: `Bearer ${some.key}` },
      })
      expect([...response.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
      // A cached response is only for this origin.
      expect(response.headers.get('vary')).toBe('origin')
    }
  })

  test('must name a method: any other OPTIONS is a wrong method', async () => {
    const response = await fetch(`${some.app.baseUrl}/models`, { method: 'OPTIONS', headers: { origin: PAGE } })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET'])
  })
})
