/** `catalog refresh`: newer public facts, from a file or from a URL with arbitrary content. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { editModel } from '../../src/catalog/edit.ts'
import { fetchFacts } from '../../src/server/outward/facts.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { anthropicList, claude, listed, openaiList } from '../support/model-lists.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Bench, createBench } from './run.ts'

let bench: Bench
let server: ScriptedUpstream
beforeEach(async () => {
  bench = createBench()
  bench.environment = { OPENAI_API_KEY: 'sk-one', ANTHROPIC_API_KEY: 'sk-two' }
  server = await startUpstream()
})
afterEach(async () => {
  await server.stop()
  bench.close()
})

const json = async (...words: string[]) => JSON.parse((await bench.run(...words, '--json')).stdout)
const modelOf = async (slug: string) => {
  const { models } = await json('models', 'list', '--all')
  return models.find((one: { slug: string }) => one.slug === slug)
}

/** A model in models.dev's format. */
const model = (cost: object | undefined, more: object = {}) => ({
  ...{ name: 'Newer', tool_call: true, structured_output: true, limit: { context: 500_000, output: 50_000 } },
  ...{ modalities: { input: ['text'], output: ['text'] }, cost, ...more },
})
const writeFacts = (openai: object, anthropic: object = {}) =>
  Bun.write(
    join(bench.folder, 'api.json'),
    JSON.stringify({ openai: { models: openai }, anthropic: { models: anthropic } }),
  )

async function addOpenai(...models: string[]) {
  server.scriptProbes(openaiList(...models))
  const ran = await bench.run('upstreams', 'add', 'openai', '--base-url', server.url, '--yes')
  expect(ran.code).toBe(0)
}

test('prices and facts are updated, and the plan shows each difference first', async () => {
  await addOpenai('gpt-4o', 'gpt-5')
  await writeFacts({ 'gpt-4o': model({ input: 2, output: 8, tiers: [{ tier: { size: 1_000 }, input: 4 }] }) })
  const planned = await bench.run('catalog', 'refresh', 'api.json', '--plan')
  expect(planned.stdout).toContain('~ models.openai/gpt-4o (discovered)\n')
  expect(planned.stdout).toContain('context_length: 128000 -> 500000')
  expect(planned.stdout).toContain(
    'Preview: 0 rows to create, 1 to update, 0 to delete, 4 unchanged. To apply, run without --plan.',
  )
  expect(await modelOf('openai/gpt-4o')).toMatchObject({ context_length: 128_000 })

  const done = await bench.run('catalog', 'refresh', 'api.json', '--yes')
  expect(done.code).toBe(0)
  expect(done.stdout).toEndWith('Saved as version 2. Undo: tollgate catalog revert 1\n')
  expect(await modelOf('openai/gpt-4o')).toMatchObject({
    name: 'GPT-4o',
    context_length: 500_000,
    pricing: [
      { prompt: '0.000002', completion: '0.000008' },
      { prompt: '0.000004', completion: '0.000008', min_prompt_tokens: 1_000 },
    ],
    origin: 'discovered',
  })
  expect((await bench.run('catalog', 'refresh', 'api.json', '--yes')).stdout).toContain('No changes.')
  expect(JSON.stringify(await json('audit', 'log'))).toContain('catalog.refresh')
})

test('an unpriced model is enabled with its price, and those still unpriced are named', async () => {
  await addOpenai('gpt-9', 'gpt-10')
  await writeFacts({ 'gpt-9': model({ input: 2, output: 8 }), 'gpt-10': model(undefined) })
  const ran = await bench.run('catalog', 'refresh', 'api.json', '--yes')
  expect(ran.stderr).toContain('still disabled until priced: openai/gpt-10.')
  expect(await modelOf('openai/gpt-9')).toMatchObject({
    enabled: true,
    context_length: 500_000,
    supported_features: ['tools', 'json_mode', 'structured_outputs'],
    pricing: [{ prompt: '0.000002', completion: '0.000008' }],
  })
  expect(await modelOf('openai/gpt-10')).toMatchObject({ enabled: false, pricing: [], context_length: 500_000 })
})

test('a second list is applied like the first', async () => {
  await addOpenai('gpt-4o')
  for (const [input, context] of [
    [2, 500_000],
    [3, 600_000],
    [2.5, 90_000],
  ] as const) {
    await writeFacts({ 'gpt-4o': model({ input, output: 8 }, { limit: { context, output: 50_000 } }) })
    expect((await bench.run('catalog', 'refresh', 'api.json', '--yes')).code).toBe(0)
    expect(await modelOf('openai/gpt-4o')).toMatchObject({
      context_length: context,
      pricing: [{ prompt: `0.00000${String(input).replace('.', '')}`, completion: '0.000008' }],
    })
  }
})

test('a model that becomes free is reported before the refresh', async () => {
  await addOpenai('gpt-4o')
  await writeFacts({ 'gpt-4o': model({ input: 0, output: 0 }) })
  const planned = await bench.run('catalog', 'refresh', 'api.json', '--plan')
  expect(planned.stderr).toContain("now free by this list, so budgets don't limit them: openai/gpt-4o.")
  expect(await json('catalog', 'refresh', 'api.json', '--yes')).toMatchObject({ free: ['openai/gpt-4o'] })
  expect((await bench.run('catalog', 'refresh', 'api.json', '--yes')).stderr).toBe('')
})

test('prices of a list stay, for a model and for an added route, and fields that it lacked are updated', async () => {
  const own = { prompt: '0.0000011', completion: '0.0000022' }
  await addOpenai('gpt-4o')
  server.scriptProbes(
    openaiList({ id: 'openai/gpt-4o', pricing: own }, { id: 'acme/large', pricing: own }, 'acme/other'),
  )
  bench.environment.OPENROUTER_API_KEY = 'sk-three'
  expect((await bench.run('upstreams', 'add', 'openrouter', '--base-url', server.url, '--yes')).code).toBe(0)
  const newer = model({ input: 2, output: 8 })
  const facts = { 'openai/gpt-4o': newer, 'acme/large': newer, 'acme/other': newer }
  await Bun.write(
    join(bench.folder, 'api.json'),
    JSON.stringify({ openai: { models: { 'gpt-4o': newer } }, openrouter: { models: facts } }),
  )
  const price = { prompt: '0.000002', completion: '0.000008' }
  for (let round = 0; round < 2; round++) {
    expect((await bench.run('catalog', 'refresh', 'api.json', '--yes')).code).toBe(0)
    expect(await modelOf('acme/large')).toMatchObject({ pricing: [own], context_length: 500_000 })
    expect(await modelOf('acme/other')).toMatchObject({ pricing: [price], context_length: 500_000 })
    expect(await modelOf('openai/gpt-4o')).toMatchObject({
      pricing: [price],
      routes: [{ upstream: 'openai' }, { upstream: 'openrouter', pricing: [own] }],
    })
  }
})

test('manual values stay, and other fields are updated', async () => {
  await addOpenai('gpt-4o')
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  const pricing = [{ prompt: '0.000009', completion: '0.00001' }]
  await editModel(
    createConfigStore(sqlite),
    'openai/gpt-4o',
    { pricing },
    { actor: 'ann', nowMs: Date.UTC(2026, 10, 22) },
  )
  sqlite.close()
  await writeFacts({ 'gpt-4o': model({ input: 2, output: 8 }) })
  const ran = await bench.run('catalog', 'refresh', 'api.json', '--yes')
  expect(ran.stdout).toContain('= models.openai/gpt-4o (set manually, overrides discovered)')
  expect(await modelOf('openai/gpt-4o')).toMatchObject({ pricing, context_length: 500_000 })
})

test("a provider's own facts stay, except the price", async () => {
  server.scriptProbes(anthropicList(claude('claude-opus-4-7')))
  await bench.run('upstreams', 'add', 'anthropic', '--base-url', server.url, '--yes')
  await writeFacts({}, { 'claude-opus-4-7': model({ input: 1, output: 2 }, { structured_output: false }) })
  await bench.run('catalog', 'refresh', 'api.json', '--yes')
  expect(await modelOf('anthropic/claude-opus-4-7')).toMatchObject({
    context_length: 300_000,
    supported_features: ['tools', 'json_mode', 'structured_outputs', 'reasoning'],
    pricing: [{ prompt: '0.000001', completion: '0.000002' }],
  })
})

test("a file's values are never overwritten, and differences are reported", async () => {
  await Bun.write(
    join(bench.folder, 'c.yaml'),
    `version: 1
upstreams: { openai: { preset: openai } }
models: { openai/gpt-4o: { routes: [{ upstream: openai, model: gpt-4o }] } }
`,
  )
  await bench.run('catalog', 'apply', 'c.yaml')
  const before = await modelOf('openai/gpt-4o')
  await writeFacts({ 'gpt-4o': model({ input: 2, output: 8 }) })
  const ran = await bench.run('catalog', 'refresh', 'api.json', '--yes')
  expect(ran.stdout).toContain('= models.openai/gpt-4o (file, overrides discovered)')
  expect(ran.stdout).toContain('No changes.')
  expect(await modelOf('openai/gpt-4o')).toEqual(before)
})

test('invalid models in a list are left out, and counted', async () => {
  await addOpenai('gpt-4o', 'gpt-5')
  const before = await modelOf('openai/gpt-5')
  await writeFacts({
    'gpt-4o': model({ input: 2, output: 8 }),
    'gpt-5': model({ input: -1, output: 8 }),
    a: model({ input: '2', output: 8 }),
    cached: model({ input: 2, output: 8, cached_input: -1 }),
    b: { name: 'No limits' },
    c: null,
    d: model({ input: 1, output: 1 }, { limit: { context: 1e300, output: 1 } }),
  })
  const ran = await bench.run('catalog', 'refresh', 'api.json', '--yes')
  expect(ran.stderr).toContain('skipped 6 invalid of 7 models.')
  expect(await modelOf('openai/gpt-5')).toEqual(before)
})

describe('an invalid list', () => {
  test.each([
    ['<html></html>', 'is a web page'],
    ['{"a": ', 'is not valid JSON. Use the api.json of models.dev.'],
    ['[]', 'has no valid models. Use the api.json of models.dev.'],
    ['{"openai": {"models": {}}}', 'has no valid models. Use the api.json of models.dev.'],
  ])('%j is told as what it is', async (text, says) => {
    await Bun.write(join(bench.folder, 'api.json'), text)
    const { code, stderr } = await bench.run('catalog', 'refresh', 'api.json', '--yes')
    expect(code).toBe(1)
    expect(stderr).toContain(says)
  })

  test('is an error if the file, or the URL, does not exist', async () => {
    expect((await bench.run('catalog', 'refresh', 'gone.json', '--yes')).stderr).toContain('Pass the api.json')
    expect((await bench.run('catalog', 'refresh', '--from', 'ftp://x', '--yes')).stderr).toContain(
      "'ftp://x' must be a URL that begins with https://.",
    )
    bench.environment.TOLLGATE_FACTS = 'http://127.0.0.1:1/api.json'
    expect((await bench.run('catalog', 'refresh', '--yes')).stderr).toContain(
      "Can't read http://127.0.0.1:1/api.json: connection refused. To use a file you downloaded: tollgate catalog refresh FILE",
    )
    expect((await bench.run('catalog', 'refresh', 'a', '--from', 'b', '--yes')).code).toBe(2)
  })
})

describe('a URL', () => {
  const url = () => server.url.replace('/v1', '/api.json')

  test('is read, and only the list is requested', async () => {
    await addOpenai('gpt-4o')
    server.script(listed({ openai: { models: { 'gpt-4o': model({ input: 2, output: 8 }) } } }))
    bench.environment.TOLLGATE_FACTS = url()
    const ran = await json('catalog', 'refresh', '--yes')
    expect(ran).toMatchObject({
      source: url(),
      planned: false,
      version: 2,
      changes: [{ name: 'models.openai/gpt-4o' }],
    })
    expect(server.requests).toMatchObject([{ method: 'GET', path: '/api.json' }])
    expect(server.requests[0]?.headers.authorization).toBeUndefined()
  })

  test('that redirects elsewhere, fails, or never ends is an error', async () => {
    server.script(listed('', 301, { location: 'https://elsewhere.example/api.json' }))
    await expect(fetchFacts(url())).rejects.toThrow(
      'redirects to https://elsewhere.example/api.json. If that is right, pass it with --from.',
    )
    server.script(listed('', 500))
    await expect(fetchFacts(url())).rejects.toThrow('returned 500')
    server.script({ kind: 'stream', steps: ['{'], end: 'hang' })
    await expect(fetchFacts(url(), { ms: 100 })).rejects.toThrow(`Timed out reading ${url()} after 0.1 s`)
    server.script({ kind: 'stream', steps: Array(40).fill('x'.repeat(100_000)), end: 'eof' })
    await expect(fetchFacts(url(), { bytes: 2 * 1_048_576 })).rejects.toThrow('sent more than 2 MiB')
  })
})
