/** Models that an owner adds from an upstream's model list, as the command does. */
import { beforeEach, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { listed, onlyFor, openaiList } from '../support/model-lists.ts'
import { startUpstream } from '../support/upstream.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const KEY = 'sk-of-the-variable-0123456789'
let owner: Browser
const provider = forEachTest(startUpstream)
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  fixture.environment.OPENAI_API_KEY = KEY
  await applyText(
    fixture,
    `version: 1
upstreams:
  openai: { preset: openai, base_url: "${provider.url}", api_key: "\${OPENAI_API_KEY}" }
  off: { dialect: openai, base_url: "${provider.url}", enabled: false }
models: {}
`,
  )
  await fixture.serving.refresh()
  owner = await fixture.signIn('owner')
})

const find = (id: string, models: string[], query = '') =>
  owner.ask('POST', `/upstreams/${id}/models${query}`, { body: { models } })

test('models are planned, then added, with known facts; a first price enables one', async () => {
  provider.scriptProbes(
    onlyFor('authorization', `Bearer ${KEY}`, openaiList('gpt-4o', 'gpt-9', 'sora-2', 'o3'), listed('', 401)),
  )
  const planned = await find('openai', ['gpt-*'], '?plan=true')
  expect(planned.body).toMatchObject({ planned: true, differs: true, unpriced: ['openai/gpt-9'], left_out: 0 })
  expect((await fixture.store.readCatalog()).models).toEqual([])
  const { status, body } = await find('openai', ['gpt-*'])
  expect(status).toBe(200)
  expect(body).toMatchObject({ planned: false, created: 4, upstream: { id: 'openai' } })
  expect(JSON.stringify(body)).not.toContain(KEY)
  const { models } = await fixture.store.readCatalog()
  expect(models).toMatchObject([
    { slug: 'openai/gpt-4o', origin: 'discovered', enabled: true },
    { slug: 'openai/gpt-9', origin: 'discovered', enabled: false, pricing: [] },
  ])
  const pricing = [{ prompt: '0.000001', completion: '0.000002' }]
  const priced = await owner.ask('PATCH', '/models/openai%2Fgpt-9', { body: { pricing } })
  expect(priced.body.model).toMatchObject({ enabled: true, pricing })
  expect((await find('openai', [])).body).toMatchObject({ left_out: 1, changes: [{ name: 'models.openai/o3' }, {}] })
})

test('a selected realtime model is only for sessions, even if it is unknown', async () => {
  provider.scriptProbes(openaiList('gpt-4o-realtime-preview'))
  await find('openai', ['gpt-4o-realtime-preview'])
  expect((await fixture.store.readCatalog()).models).toMatchObject([
    { inputModalities: ['text', 'audio'], outputModalities: ['realtime'], maxOutputLength: 4_096, enabled: false },
  ])
})

test("a provider's error is reported, and so are names that match nothing", async () => {
  provider.scriptProbes(listed('<html>', 200))
  expect(await find('openai', [])).toMatchObject({
    status: 502,
    body: { error: { kind: 'list_failed', message: expect.stringContaining('returned a web page') } },
  })
  provider.scriptProbes(openaiList('gpt-4o'))
  expect(await find('openai', ['claude*'])).toMatchObject({
    status: 400,
    body: { error: { kind: 'invalid', field: 'models' } },
  })
  expect(await find('off', [])).toMatchObject({ status: 409, body: { error: { kind: 'upstream_disabled' } } })
  expect(await find('none', [])).toMatchObject({ status: 404, body: { error: { kind: 'upstream_not_found' } } })
  delete fixture.environment.OPENAI_API_KEY
  await fixture.serving.refresh()
  expect((await find('openai', [])).body.error.message).toContain(
    'the variable OPENAI_API_KEY is not set on the server',
  )
})

test('only owners can add models', async () => {
  const editor = await fixture.signIn('editor')
  const { body } = await editor.ask('POST', '/upstreams/openai/models', { body: { models: [] } })
  expect(body.error.kind).toBe('role_too_small')
})
