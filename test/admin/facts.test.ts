/** Newer public facts: a dry run, then applied, as `catalog refresh` does. */
import { beforeEach, expect, test } from 'bun:test'
import { createFacts } from '../../src/server/outward/facts.ts'
import { forEachTest } from '../support/lifetime.ts'
import { listed } from '../support/model-lists.ts'
import { startUpstream } from '../support/upstream.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

let owner: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  await applyText(
    fixture,
    `version: 1
upstreams: { openai: { preset: openai, api_key: "\${OPENAI_API_KEY}" } }
models: { openai/gpt-4o: { routes: [{ upstream: openai, model: gpt-4o }] } }
`,
    'discovered',
  )
  owner = await fixture.signIn('owner')
})

const model = (cost: object) => ({
  ...{ name: 'Newer', limit: { context: 500_000, output: 50_000 }, cost },
  modalities: { input: ['text'], output: ['text'] },
})
const facts = (input: number) =>
  JSON.stringify({
    openai: { models: { 'gpt-4o': model({ input, output: 8 }), wrong: model({ input: -1, output: 8 }) } },
    acme: { models: { 'gpt-4o': model({ input: 900, output: 900 }) } },
  })
const priceOf = async () => (await fixture.store.readCatalog()).models[0]?.pricing[0]?.prompt
const refresh = (query = '') => owner.ask('POST', `/catalog/refresh${query}`)

test('a plan shows changes by newer facts, and an owner applies them, repeatedly', async () => {
  fixture.published.text = facts(2)
  const before = await priceOf()
  expect((await refresh('?plan=true')).body).toMatchObject({
    ...{ planned: true, differs: true, source: fixture.published.source, left_out: 1, overridden: [], unpriced: [] },
    changes: [{ action: 'update', name: 'models.openai/gpt-4o', after: { context_length: 500_000 } }],
  })
  expect(await priceOf()).toBe(before)
  for (const [input, price] of [
    [2, '0.000002'],
    [3, '0.000003'],
  ] as const) {
    fixture.published.text = facts(input)
    expect((await refresh()).body).toMatchObject({ planned: false, updated: 1 })
    expect(await priceOf()).toBe(price)
  }
  expect((await refresh()).body).toMatchObject({ differs: false, version: null })
})

test('an invalid list of facts changes nothing, and is an error', async () => {
  fixture.published.text = '<html>'
  expect(await refresh()).toMatchObject({
    status: 502,
    body: { error: { kind: 'facts_unusable', message: expect.stringContaining('is a web page') } },
  })
})

test('only owners can refresh facts', async () => {
  const editor = await fixture.signIn('editor')
  expect((await editor.ask('POST', '/catalog/refresh')).body.error.kind).toBe('role_too_small')
})

test('concurrent requests read the list once, from its configured source', async () => {
  const server = await startUpstream()
  server.script(listed({ openai: {} }))
  const published = createFacts({ TOLLGATE_FACTS: server.url })
  expect(new Set(await Promise.all([published.read(), published.read()]))).toEqual(new Set(['{"openai":{}}']))
  expect(server.requests).toHaveLength(1)
  await published.read()
  expect(server.requests).toHaveLength(2)
  await server.stop()
})
