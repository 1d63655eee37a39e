/** Upstreams that lead back to the server, over a relay with the next server's key. */
import { afterEach, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { startUpstream } from '../support/upstream.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

let opened = new AsyncDisposableStack()
afterEach(async () => {
  await opened.disposeAsync()
  opened = new AsyncDisposableStack()
})

/** So many looped requests are proof of a loop. */
const ENDLESS = 20

/** A URL that exists before the server behind it. */
function startRelay() {
  const relay = { url: '', to: '', key: '', count: 0, hops: '' }
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      if (++relay.count > ENDLESS) return Response.json({ error: { message: 'endless' } }, { status: 400 })
      relay.hops = request.headers.get('x-tollgate-hops') ?? ''
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${relay.key}` }
      const { pathname } = new URL(request.url)
      return fetch(`${relay.to}${pathname}`, {
        ...{ method: 'POST', body: await request.text() },
        headers: { ...headers, 'x-tollgate-hops': relay.hops, 'anthropic-version': '2023-06-01' },
      })
    },
  })
  opened.defer(() => server.stop(true))
  relay.url = `http://127.0.0.1:${server.port}/v1`
  return relay
}

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'

/** A server with `m/m` on these upstreams in order; the relay points to it. */
async function startServer(
  upstreams: Record<string, string>,
  relay?: ReturnType<typeof startRelay>,
  dialect = 'openai',
) {
  const names = Object.keys(upstreams)
  const app = await startApp({
    catalog: `
version: 1
upstreams:
${names.map((name) => `  ${name}: { dialect: ${dialect}, base_url: "${upstreams[name]}", local: true }`).join('\n')}
models:
  m/m: { name: M, ${FACTS}, supported_features: [], routes: [${names.map((name, priority) => `{ upstream: ${name}, model: m/m, priority: ${priority} }`).join(', ')}] }
`,
    config: { retries: 2 },
  })
  opened.defer(async () => void (await app.stop()))
  const key = app.key()
  if (relay) Object.assign(relay, { to: app.origin, key })
  return { app, key }
}

const BODY = { model: 'm/m', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }

const ask = (
  { app, key }: { app: TestApp; key: string },
  { path = 'chat/completions', hops = '', stream = false } = {},
) =>
  fetch(`${app.baseUrl}/${path}`, {
    method: 'POST',
    headers: {
      ...{ authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(hops === '' ? {} : { 'x-tollgate-hops': hops }),
    },
    body: JSON.stringify({ ...BODY, stream }),
  })

test.each([
  ['chat/completions', 'openai', false],
  ['chat/completions', 'openai', true],
  ['messages', 'anthropic', true],
])(
  'a server that is its own upstream is asked once, and says what to correct: %s, %s, stream %p',
  async (path, dialect, stream) => {
    const relay = startRelay()
    const server = await startServer({ self: relay.url }, relay, dialect)
    const response = await ask(server, { path, stream })
    const text = await response.text()
    expect([response.status, response.headers.get('x-should-retry'), relay.count]).toEqual([508, 'false', 1])
    expect(text).toContain('Upstream `self` returned 508: base_url leads back')
    const [row] = await server.app.settled(1)
    expect(row).toMatchObject({ status: 'failed', http_status: 508, error_code: 'loop_detected', attempts: 1 })
  },
)

test('a loop over two servers ends at its start, and each is called once', async () => {
  const [toA, toB] = [startRelay(), startRelay()]
  const a = await startServer({ b: toB.url }, toA)
  await startServer({ a: toA.url }, toB)
  const response = await ask(a)
  expect([response.status, toA.count, toB.count]).toEqual([508, 1, 1])
  expect(await response.json()).toMatchObject({ error: { code: 'loop_detected', type: 'server_error' } })
  // No breaker opens: its error would hide the cause.
  for (let again = 0; again < 6; again++) expect((await ask(a)).status).toBe(508)
})

test('another route responds in place of one that leads back', async () => {
  const relay = startRelay()
  const good = await startUpstream(wholeAnswer({ tokens: ['fine'] }))
  opened.defer(() => good.stop())
  const server = await startServer({ self: relay.url, good: good.url }, relay)
  const response = await ask(server)
  expect([response.status, response.headers.get('x-tollgate-upstream'), relay.count]).toEqual([200, 'good', 1])
})

test('up to eight Tollgate servers may be chained, and the header passes on only IDs', async () => {
  const toB = startRelay()
  const good = await startUpstream(wholeAnswer({ tokens: ['fine'] }))
  opened.defer(() => good.stop())
  const a = await startServer({ b: toB.url })
  await startServer({ good: good.url }, toB)
  expect((await ask(a, { hops: 'one, , <two>,three words' })).status).toBe(200)
  expect(toB.hops).toMatch(/^one,[0-9a-f]{12}$/)
  expect(good.requests.at(-1)?.headers['x-tollgate-hops']).toMatch(/^one,([0-9a-f]{12}),(?!\1)[0-9a-f]{12}$/)
  const count = toB.count
  const refused = await ask(a, { hops: '1,2,3,4,5,6,7,8' })
  expect([refused.status, toB.count]).toEqual([508, count])
  expect(await refused.text()).toContain('passed through 8 Tollgate servers; at most 8 can be chained')
})
