/** Models and upstreams in the admin API: the server's readiness, IDs with a slash, no credentials. */
import { beforeEach, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { startUpstream } from '../support/upstream.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const CREDENTIAL = 'the credential 0123456789'
const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
const CATALOG = `version: 1
upstreams:
  paid: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${PAID_KEY} }
  keyless: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${NOBODY_SET_THIS} }
  off: { dialect: demo, local: true, enabled: false }
models:
  acme/large: { name: Large, ${FACTS}, supported_features: [tools], pricing: [{ prompt: "0.000001", completion: "0.000002" }],
    routes: [{ upstream: paid, model: large-v1 }, { upstream: off, model: tiny, weight: 3 }] }
  acme/idle: { name: Idle, ${FACTS}, supported_features: [], pricing: [{ prompt: "1", completion: "1" }], routes: [{ upstream: keyless, model: idle }] }
  acme/hidden: { name: Off, ${FACTS}, supported_features: [], pricing: [{ prompt: "1", completion: "1" }], enabled: false, routes: [{ upstream: paid, model: x }] }
aliases: { fast: acme/large }
`

let viewer: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  fixture.environment.PAID_KEY = CREDENTIAL
  await applyText(fixture, CATALOG)
  viewer = await fixture.signIn('viewer')
})

test('models are listed with their routes, readiness, and reasons, including disabled ones', async () => {
  const { models, aliases } = (await viewer.ask('GET', '/models')).body
  expect(aliases).toEqual([{ alias: 'fast', model: 'acme/large', listed: true }])
  expect(models).toMatchObject([
    { slug: 'acme/hidden', enabled: false, is_ready: false, reason: 'the model is disabled' },
    { slug: 'acme/idle', is_ready: false, reason: expect.stringContaining('NOBODY_SET_THIS is not set on the server') },
    {
      ...{ slug: 'acme/large', enabled: true, is_ready: true, reason: null, origin: 'file' },
      routes: [
        { upstream: 'paid', upstream_model: 'large-v1', is_ready: true, own_price: false, enabled: true },
        { upstream: 'off', weight: 3, is_ready: false, reason: 'its upstream is disabled', pricing: [] },
      ],
    },
  ])
})

test('a model is found by its ID, however its slash is escaped, and by its alias; with its prices', async () => {
  const [listed] = (await viewer.ask('GET', '/models')).body.models.filter(
    (one: { slug: string }) => one.slug === 'acme/large',
  )
  for (const path of ['acme%2Flarge', 'acme%2flarge', 'fast']) {
    const { status, body } = await viewer.ask('GET', `/models/${path}`)
    expect([path, status, body.slug]).toEqual([path, 200, 'acme/large'])
    expect(body).toMatchObject({ ...listed, aliases: ['fast'], prices: [{ upstream: null, in_force: true }] })
  }
})

test.each([
  'acme%2Flage',
  '..%2F..%2Fetc%2Fpasswd',
  '%00',
  '%2F',
  '*',
  '__proto__',
  'constructor',
  'a'.repeat(3_000),
  "'; DROP TABLE models; --",
])('there is no model %p, and that is all that is said of it', async (slug) => {
  const { status, body } = await viewer.ask('GET', `/models/${slug}`)
  expect([status, body.error.kind]).toEqual([404, 'model_not_found'])
  expect(body.error.message.length).toBeLessThan(200)
})

test('an ID with an invalid escape, or an unescaped slash, is an unknown path', async () => {
  expect((await viewer.ask('GET', '/models/acme/large')).body.error.kind).toBe('unknown_path')
  expect((await viewer.ask('GET', '/models/%E0%A4%A')).body.error.kind).toBe('unknown_path')
})

test('upstreams are listed with their state and whether their credential is set, never with the credential', async () => {
  const answer = await viewer.ask('GET', '/upstreams')
  expect(answer.body.upstreams).toMatchObject([
    {
      id: 'paid',
      state: 'unknown',
      enabled: true,
      origin: 'file',
      credential: { variable: 'PAID_KEY', status: 'set' },
    },
    { id: 'keyless', state: 'not_ready', credential: { variable: 'NOBODY_SET_THIS', status: 'not_set' } },
    { id: 'off', state: 'disabled', credential: null },
  ])
  expect((await viewer.ask('GET', '/upstreams/paid')).body).toEqual(answer.body.upstreams[0])
  expect(JSON.stringify(answer.body)).not.toContain(CREDENTIAL)
  expect((await viewer.ask('GET', '/upstreams/payd')).body.error).toMatchObject({
    ...{ kind: 'upstream_not_found', message: "Unknown upstream 'payd' (did you mean 'paid'?)." },
  })
})

test("an editor can check an upstream's health, but not of a disabled one", async () => {
  const editor = await fixture.signIn('editor')
  const upstream = await startUpstream()
  await using _ = { [Symbol.asyncDispose]: () => upstream.stop() }
  await applyText(fixture, CATALOG.replace('https://api.example.com/v1', upstream.url))
  expect((await editor.ask('POST', '/upstreams/paid/test')).body).toEqual({
    id: 'paid',
    state: 'ready',
    reason: null,
    ms: 0,
  })
  expect((await editor.ask('POST', '/upstreams/keyless/test')).body.state).toBe('not_ready')
  expect((await editor.ask('POST', '/upstreams/off/test')).body.error.kind).toBe('upstream_disabled')
  expect((await editor.ask('POST', '/upstreams/none/test')).status).toBe(404)
  expect((await viewer.ask('POST', '/upstreams/paid/test')).body.error.kind).toBe('role_too_small')
})
