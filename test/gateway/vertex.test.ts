/** Gemini on Vertex: URLs, differences, and tokens instead of keys. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createAllBackends } from '../../src/server/backends.ts'
import { testUpstream } from '../../src/server/outward/questions.ts'
import { createGemini, type Gemini } from '../support/gemini-upstream.ts'
import { toTarget } from '../support/snapshot.ts'
import { startTokenEndpoint, type TokenEndpoint } from '../support/token-endpoint.ts'
import { until } from '../support/until.ts'
import type { Seen } from '../support/upstream.ts'
import { type GeminiGateway, MODEL, startGemini } from './gemini-gateway.ts'

const BASE = '/v1/projects/project-1/locations/global/publishers/google'
let endpoint: TokenEndpoint
let gemini: Gemini
let gateway: GeminiGateway
beforeAll(async () => {
  endpoint = await startTokenEndpoint(() => gateway.app.clock.nowMs)
  gemini = createGemini((step) => (step === 0 ? { calls: [{ name: 'clock' }] } : { text: 'Noon.' }), { ids: false })
  const script = (seen: Seen) => {
    const [, number] = /^Bearer token-number-(\d+)$/.exec(seen.headers.authorization ?? '') ?? []
    const isGood = Number(number) >= 1 && Number(number) <= endpoint.claims.length
    const headers = { ...seen.headers, ...(isGood ? { authorization: 'Bearer x' } : {}) }
    const behave = gemini.script
    return typeof behave === 'function' ? behave({ ...seen, headers }) : behave
  }
  gateway = await startGemini({ script }, { base: BASE, credential: endpoint.account.json })
})
afterAll(async () => {
  await gateway.stop()
  await endpoint.stop()
})

const tools = [{ type: 'function', function: { name: 'clock' } }]
const go = { messages: [{ role: 'user', content: 'Go' }], tools }

test('tools are called and return without IDs, with a token that is requested once', async () => {
  const [first] = await Promise.all(Array.from({ length: 5 }, () => gateway.ask(go)))
  const id = first?.choices[0]?.toolCalls[0]?.id
  const messages = [...go.messages, first?.message, { role: 'tool', tool_call_id: id, content: '12:00' }]
  const { choices } = await gateway.ask({ ...go, messages, stream: true })
  expect(choices).toMatchObject([{ content: 'Noon.' }])
  expect(gemini.refused).toEqual([])
  expect(endpoint.claims).toHaveLength(1)
  const seen = gateway.upstream.requests.at(-1)
  expect(seen?.path).toBe(`${BASE}/models/gemini-of-today:streamGenerateContent?alt=sse`)
  expect(seen?.headers).not.toHaveProperty('x-goog-api-key')
})

test('a token is renewed before it expires', async () => {
  gateway.app.pass(54 * 60_000)
  await gateway.ask(go)
  expect(endpoint.claims).toHaveLength(1)
  gateway.app.pass(60_000)
  await gateway.ask(go)
  expect(endpoint.claims).toHaveLength(2)
})

test('the service tier is a header there', async () => {
  await gateway.ask({ ...go, service_tier: 'flex' })
  expect(gateway.upstream.requests.at(-1)).toMatchObject({
    headers: { 'x-vertex-ai-llm-shared-request-type': 'flex' },
    json: expect.not.objectContaining({ serviceTier: 'flex' }),
  })
  await gateway.ask(go)
  expect(gateway.upstream.requests.at(-1)?.headers).not.toHaveProperty('x-vertex-ai-llm-shared-request-type')
})

test("an account without a token is a configuration error, and its details aren't reported", async () => {
  gateway.app.pass(60 * 60_000)
  endpoint.script(() => Response.json({ error: 'invalid_grant' }, { status: 400 }))
  const before = gateway.upstream.requests.length
  const error = await gateway.fail(go)
  expect(error).toMatchObject({ status: 502, code: 'upstream_failed' })
  expect(error.message).not.toContain(endpoint.account.email)
  expect(gateway.upstream.requests).toHaveLength(before)
  endpoint.script(null)
  gateway.app.pass(60 * 60_000)
  await gateway.ask(go)
  const log = await gateway.app.logText()
  expect(log).not.toContain('PRIVATE KEY')
  expect(log).not.toContain('token-number')
})

test('a test of the upstream uses a token, too, and reports why there is none', async () => {
  const { upstream } = toTarget({
    dialect: 'gemini',
    baseUrl: `http://127.0.0.1:${gateway.upstream.port}${BASE}`,
    credential: endpoint.account.json,
  })
  const ask = () => {
    const { gemini: backend } = createAllBackends({ environment: {}, now: () => gateway.app.clock.nowMs })
    return testUpstream(upstream, { backend, monotonicMs: () => 0 })
  }
  expect(await ask()).toMatchObject({ state: 'ready' })
  expect(gateway.upstream.probes.at(-1)?.headers.authorization).toStartWith('Bearer token-number-')
  endpoint.script(() => Response.json({ error: 'invalid_grant' }, { status: 400 }))
  expect(await ask()).toMatchObject({ state: 'refused', reason: expect.stringContaining('invalid_grant') })
})

function holdTokens() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const held = { asked: 0, answer: resolve }
  endpoint.script(async () => {
    held.asked++
    await promise
    return Response.json({ access_token: 'token-number-1', expires_in: 3_599 })
  })
  return held
}

test('if a client disconnects while a token is requested, its request ends at once, unpaid, and others get the token', async () => {
  const { app, upstream } = gateway
  app.pass(2 * 60 * 60_000)
  const tokens = holdTokens()
  const [before, rows] = [upstream.requests.length, await app.count()]
  const client = new AbortController()
  const body = JSON.stringify({ model: MODEL, ...go })
  const headers = { authorization: `Bearer ${app.key({ name: 'leaving' })}`, 'content-type': 'application/json' }
  const url = `${app.baseUrl}/chat/completions`
  const left = fetch(url, { method: 'POST', headers, body, signal: client.signal }).catch(() => null)
  const stays = gateway.ask(go)
  await until('a token is asked for', () => tokens.asked === 1)
  await until('both are on record', async () => (await app.count()) === rows + 2)
  client.abort()
  await left
  await until('it has ended', async () =>
    app.rows().some(({ status, cost_nano_usd }) => status === 'cut' && cost_nano_usd === 0),
  )
  tokens.answer()
  await stays
  expect([tokens.asked, upstream.requests.length - before]).toEqual([1, 1])
})

test('a call waits for a token up to its deadline, and costs nothing', async () => {
  const tokens = holdTokens()
  const slow = await startGemini(gemini, {
    base: BASE,
    credential: endpoint.account.json,
    upstream: ', deadlines: { total_whole: 100ms }',
  })
  const error = await slow.fail(go)
  const message = 'Upstream `google` took too long: total_whole timeout (0.1 s) while waiting for its token endpoint.'
  expect(error).toMatchObject({ status: 504, code: 'upstream_timeout', message })
  expect((await slow.app.settled(1)).map(({ cost_nano_usd }) => cost_nano_usd)).toEqual([0])
  expect(slow.upstream.requests).toEqual([])
  tokens.answer()
  await slow.stop()
})

test('a health check waits for a token no longer than for any other response', async () => {
  const tokens = holdTokens()
  const { gemini: backend } = createAllBackends({ environment: {}, now: () => gateway.app.clock.nowMs })
  const { upstream } = toTarget({ dialect: 'gemini', baseUrl: gateway.upstream.url, credential: endpoint.account.json })
  const timeout = new AbortController()
  const found = backend.probe(upstream, timeout.signal)
  await until('a token is asked for', () => tokens.asked === 1)
  timeout.abort()
  expect(await found).toEqual({ state: 'timeout', reason: 'token endpoint timed out' })
  tokens.answer()
})
