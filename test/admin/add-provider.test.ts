/** A provider that an owner checks and adds with its models, and a model that an editor creates. */
import { beforeEach, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { listed, onlyFor, openaiList } from '../support/model-lists.ts'
import { startUpstream } from '../support/upstream.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const KEY = 'sk-right-0123456789'
let owner: Browser
const provider = forEachTest(startUpstream)
const fixture = forEachTest(createFixture)
const added = (more: object = {}) => ({
  ...{ id: 'openai', preset: 'openai', base_url: provider.url, local: true, api_key: KEY },
  ...more,
})
const add = (more: object, asked = owner) => asked.ask('POST', '/upstreams', { body: added(more) })
const check = (more: object = {}, asked = owner) => asked.ask('POST', '/upstreams/check', { body: added(more) })
const PRICE = [{ prompt: '0.000001', completion: '0.000002' }]

beforeEach(async () => {
  provider.scriptProbes(
    onlyFor(
      'authorization',
      `Bearer ${KEY}`,
      openaiList('gpt-4o', 'gpt-9', 'whisper-1', 'sora-2', 'a/b/c d'),
      listed({ error: { message: 'Incorrect API key provided' } }, 401),
    ),
  )
  owner = await fixture.signIn('owner')
})

test('a provider is checked before anything is saved: its models with known facts, or the error', async () => {
  const wrong = await check({ api_key: 'sk-wrong-0123456789' })
  expect(wrong).toMatchObject({
    status: 502,
    body: { error: { kind: 'list_failed', why: 'credential', field: 'api_key' } },
  })
  expect(wrong.text).not.toContain('sk-wrong')
  const { status, body } = await check({ local: false, base_url: 'https://api.openai.com.invalid/v1' })
  expect([status, body.error.kind]).toEqual([502, 'list_failed'])
  const found = await check()
  expect(found).toMatchObject({
    status: 200,
    body: {
      models: [
        { upstream_model: 'gpt-4o', slug: 'openai/gpt-4o', context_length: 128_000, is_usual: true },
        { upstream_model: 'gpt-9', context_length: null },
        { upstream_model: 'whisper-1', is_usual: true, output_modalities: ['transcription'] },
        { upstream_model: 'sora-2', is_usual: false },
      ],
      notes: [expect.stringContaining('invalid names')],
    },
  })
  expect((await fixture.store.readCatalog()).upstreams).toEqual([])
  expect((await check({ local: false })).body.error).toMatchObject({ kind: 'invalid', field: 'base_url' })
  expect((await check({ base_url: 'http://169.254.169.254' })).body.error.field).toBe('base_url')
  const editor = await fixture.signIn('editor')
  expect((await check({}, editor)).body.error.kind).toBe('role_too_small')
})

test('a provider and its models are saved together, from the list of the check', async () => {
  await check()
  provider.scriptProbes(listed('', 500))
  const models = [
    { upstream_model: 'gpt-4o', slug: 'openai/gpt-4o', exists: false },
    { upstream_model: 'gpt-9', slug: 'lab/nine', pricing: PRICE, context_length: 5_000 },
    { upstream_model: 'tuned', slug: 'openai/tuned' },
  ]
  const { status, body } = await add({ models })
  expect(status).toBe(200)
  expect(body).toMatchObject({ version: 1, fresh: ['openai/gpt-4o', 'lab/nine', 'openai/tuned'], unpriced: [] })
  const { models: rows, routes } = await fixture.store.readCatalog()
  expect(rows).toMatchObject([
    { slug: 'openai/gpt-4o', origin: 'discovered' },
    { slug: 'lab/nine', origin: 'admin', pricing: PRICE, contextLength: 5_000, enabled: true },
    { slug: 'openai/tuned', origin: 'discovered' },
  ])
  expect(routes.map(({ model, upstreamModel }) => [model, upstreamModel])).toContainEqual(['lab/nine', 'gpt-9'])
})

test('one conflict saves nothing, and names it', async () => {
  const one = { upstream_model: 'gpt-4o', slug: 'openai/gpt-4o' }
  await applyText(
    fixture,
    `version: 1
upstreams: { demo: { dialect: demo, local: true } }
models: { openai/gpt-4o: { name: G, routes: [{ upstream: demo, model: demo }] } }
aliases: { quick/one: openai/gpt-4o }
`,
  )
  const before = await fixture.store.readCatalog()
  const refusals = [
    [{ id: 'demo', models: [one] }, 'upstream_exists'],
    [{ models: [{ ...one, exists: false }] }, 'catalog_changed'],
    [{ models: [one, one] }, 'invalid'],
    [{ models: [one, { ...one, slug: 'no name' }] }, 'invalid'],
    [{ models: [{ ...one, slug: 'quick/one' }] }, 'invalid'],
    [
      { models: [{ ...one, slug: 'lab/x', context_length: 5, pricing: [{ prompt: 'much', completion: '0' }] }] },
      'invalid',
    ],
  ] as const
  for (const [more, kind] of refusals) expect([kind, (await add(more)).body.error?.kind]).toEqual([kind, kind])
  expect(await fixture.store.readCatalog()).toEqual(before)
  expect(await fixture.store.readSealed()).toEqual([])
  expect((await add({ models: [{ ...one, exists: true }] })).body).toMatchObject({ further: ['openai/gpt-4o'] })
  expect((await fixture.store.readCatalog()).routes).toMatchObject([{ upstream: 'demo' }, { origin: 'admin' }])
})

test("a preset's own variable of the server is used at the preset's own URL, and nowhere else", async () => {
  const asked = { id: 'groq', preset: 'groq', use_variable: true }
  const ask = (more: object = {}) => owner.ask('POST', '/upstreams', { body: { ...asked, ...more } })
  expect((await ask()).body.error).toMatchObject({ kind: 'invalid', field: 'use_variable' })
  fixture.environment.GROQ_API_KEY = KEY
  expect((await ask({ base_url: 'https://elsewhere.example/v1' })).body.error.field).toBe('use_variable')
  const { body, text } = await ask()
  expect(body.upstream.credential).toEqual({ variable: 'GROQ_API_KEY', sealed: false, status: 'set' })
  expect(text).not.toContain(KEY)
  const moved = await owner.ask('PATCH', '/upstreams/groq', { body: { base_url: 'https://elsewhere.example/v1' } })
  expect(moved.body.upstream.credential).toMatchObject({ variable: null, status: 'not_set' })
})

test('a list is not cached for a credential that has replaced the one it was read with', async () => {
  await add({})
  const list = () => owner.ask('GET', '/upstreams/openai/models')
  expect((await list()).body.models).toHaveLength(4)
  await owner.ask('PATCH', '/upstreams/openai', { body: { api_key: 'sk-wrong-0123456789' } })
  expect((await list()).body.error.kind).toBe('list_failed')
})

test("an editor creates a model from an upstream's list, under a free name", async () => {
  await add({})
  const editor = await fixture.signIn('editor')
  const { body } = await editor.ask('GET', '/upstreams/openai/models')
  expect(body.models).toHaveLength(4)
  const create = (slug: string) =>
    editor.ask('POST', '/models', { body: { upstream: 'openai', upstream_model: 'gpt-4o', slug, pricing: PRICE } })
  expect((await create('lab/four')).body).toMatchObject({ is_priced: true, model: { slug: 'lab/four', enabled: true } })
  expect(await fixture.store.readAudit({ action: 'models.create' })).toMatchObject([{ subject: 'lab/four' }])
  expect((await create('lab/four')).body.error.kind).toBe('catalog_changed')
  const viewer = await fixture.signIn('viewer')
  expect((await viewer.ask('GET', '/upstreams/openai/models')).body.error.kind).toBe('role_too_small')
})
