/** Access: every endpoint, called with every kind of key. Other files here test the responses. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { mintToken } from '../../src/keys/token.ts'
import { HELLO, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { play, type Scenario } from '../support/scenario.ts'

const tokens: Record<string, string | null> = { nobody: null, garbage: 'nonsense', wrong: mintToken() }

const gateway = forAllTests(startGateway)
beforeAll(() => {
  const { app } = gateway
  tokens.good = gateway.key
  tokens.local = app.key({ scope: 'local' })
  tokens.listed = app.key({ models: ['acme/s*'] })
  tokens.expired = app.key({ expiresMs: app.clock.nowMs - 1 })
  tokens.revoked = app.key()
  app.revoke(tokens.revoked)
})

const chat = { method: 'POST', url: '/v1/chat/completions' }

/** Endpoints that need a key. Their paths are no secret; the responses depend on the key. */
const ENDPOINTS: Pick<Scenario, 'method' | 'url' | 'body'>[] = [
  { ...chat, body: HELLO },
  { ...chat, body: 'not JSON' },
  { ...chat, body: { ...HELLO, model: 'no/such' } },
  { url: '/v1/models' },
  { url: '/v1/models/acme/large' },
  { url: '/v1/models/no/such' },
]

const REFUSED: { who: string; code: string | null; says: string }[] = [
  { who: 'nobody', code: null, says: 'Authorization: Bearer' },
  { who: 'garbage', code: 'invalid_api_key', says: 'Incorrect API key provided' },
  { who: 'wrong', code: 'invalid_api_key', says: 'Incorrect API key provided' },
  { who: 'revoked', code: 'invalid_api_key', says: 'was revoked' },
  { who: 'expired', code: 'invalid_api_key', says: 'expired on 2026-11-21T11:59:59.999Z' },
]

describe.each(REFUSED)('with the key of $who', ({ who, code, says }) => {
  test.each(ENDPOINTS)('$method $url is rejected, and the error says no more than that', async (endpoint) => {
    const error = { type: 'invalid_request_error', code, param: null }
    await play(
      gateway.app,
      {
        name: who,
        ...endpoint,
        status: 401,
        error,
        contains: [says],
        notContains: ['acme', 'no/such', 'Invalid URL'],
      },
      tokens[who],
    )
  })
})

describe('an authorization header', () => {
  test.each([
    ['Bearer', 200],
    ['bearer', 200],
    ['BEARER', 200],
    ['Basic', 401],
    ['Bearer:', 401],
  ])('with the scheme %s gives %d', async (scheme, status) => {
    const headers = { authorization: `${scheme} ${gateway.key}` }
    await play(gateway.app, { name: scheme, url: '/v1/models', headers, status })
  })

  test.each(['x-api-key', 'api-key', 'X-API-Key'])('may be %s, with the key only', async (name) => {
    await play(gateway.app, { name, url: '/v1/models', headers: { [name]: gateway.key }, status: 200 })
    await play(gateway.app, { name, ...chat, body: 'not JSON', headers: { [name]: gateway.key }, status: 400 })
    const refused = { status: 401, error: { code: 'invalid_api_key' }, contains: ['Incorrect API key provided: …'] }
    await play(gateway.app, { name, url: '/v1/models', headers: { [name]: 'sk-ant-somebody-elses' }, ...refused })
    await play(gateway.app, { name, url: '/v1/models', headers: { [name]: '' }, status: 401, error: { code: null } })
  })

  test.each([
    [{ authorization: 'Bearer sk-ant-other', 'x-api-key': 'good' }, 200],
    [{ authorization: 'Basic dXNlcg==', 'api-key': 'good' }, 200],
    [{ 'x-api-key': 'other', 'api-key': 'good' }, 200],
    [{ authorization: 'Bearer good', 'x-api-key': 'revoked', 'api-key': 'wrong' }, 200],
    [{ authorization: 'Bearer revoked', 'x-api-key': 'good' }, 401],
    [{ 'x-api-key': 'wrong', 'api-key': 'good' }, 401],
  ])('of several headers, the first one with our key counts: %j', async (headers, status) => {
    const filled = Object.entries(headers).map(([name, value]) => [
      name,
      value.replace(/good|revoked|wrong/, (who) => tokens[who] ?? ''),
    ])
    await play(gateway.app, { name: 'several', url: '/v1/models', headers: Object.fromEntries(filled), status })
  })

  test('never reaches an upstream, whichever one it is', async () => {
    const { app, key, upstream } = gateway
    const before = upstream.requests.length
    for (const name of ['x-api-key', 'api-key']) {
      const headers = { [name]: key, authorization: 'Bearer sk-other-0123456789abcdef' }
      await play(app, { name, ...chat, body: HELLO, headers, status: 200, ledgerRows: 1 })
    }
    const sent = upstream.requests.slice(before)
    expect(sent).toHaveLength(2)
    for (const { headers } of sent) {
      expect(JSON.stringify([...Object.entries(headers)])).not.toMatch(/sk-tg-|sk-other/)
      expect(Object.keys(headers)).not.toContain('x-api-key')
    }
  })

  test('is the only place for a key: not the URL, the body, or any other header', async () => {
    const { app, key } = gateway
    for (const name of ['access_token', 'api_key', 'key', 'token']) {
      await play(app, { name, url: `/v1/models?${name}=${key}`, status: 401, error: { code: null } })
      const body = { ...HELLO, [name]: key }
      await play(app, { name, ...chat, url: `${chat.url}?${name}=${key}`, body, status: 401, error: { code: null } })
    }
    await play(app, { name: 'x-key', url: '/v1/models', headers: { 'x-key': key }, status: 401 })
  })
})

test('a key works until the exact millisecond of its expiry', async () => {
  const { app } = gateway
  const key = app.key({ expiresMs: app.clock.nowMs + 1_000 })
  app.clock.nowMs += 999
  await play(app, { name: 'before', url: '/v1/models', status: 200 }, key)
  app.clock.nowMs += 1
  await play(app, { name: 'after', url: '/v1/models', status: 401, error: { code: 'invalid_api_key' } }, key)
})

test('a revoked key stops at the next request', async () => {
  const { app } = gateway
  const key = app.key()
  await play(app, { name: 'before', url: '/v1/models', status: 200 }, key)
  app.revoke(key)
  await play(app, { name: 'after', url: '/v1/models', status: 401, contains: [`sk-tg-…${key.slice(-4)}`] }, key)
})

test('no secret reached the log', async () => {
  const text = await gateway.app.logText()
  expect(text).not.toBeEmpty()
  for (const secret of [...gateway.app.secrets, String(tokens.wrong)]) expect(text).not.toContain(secret)
})
