/** `upstreams add` with a provider's key: discovered models, prompts, output, and stored rows. */

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { editModel, type ModelChanges } from '../../src/catalog/edit.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { createVault } from '../../src/store/vault.ts'
import { anthropicList, claude, gemini, listed, onlyFor, openaiList } from '../support/model-lists.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Bench, createBench } from './run.ts'

const KEY = 'sk-typed-in-0123456789abcdef'
let bench: Bench
let provider: ScriptedUpstream

beforeEach(async () => {
  bench = createBench()
  provider = await startUpstream()
  bench.environment = { OPENAI_API_KEY: KEY }
})
afterEach(async () => {
  await provider.stop()
  bench.close()
})

const lists = (script: Script) => provider.scriptProbes(script)
const add = (...words: string[]) => bench.run('upstreams', 'add', ...words, '--base-url', provider.url)
const json = async (...words: string[]) => JSON.parse((await bench.run(...words, '--json')).stdout)
const models = async () => (await json('models', 'list', '--all')).models as Record<string, unknown>[]
const modelOf = async (slug: string) => (await models()).find((one) => one.slug === slug)
const versions = async () => (await json('catalog', 'history')).versions.length

describe('a known provider', () => {
  test('is ready after one command, with the facts and prices of its models', async () => {
    lists(
      openaiList(
        'whisper-1',
        'gpt-4o-mini',
        'gpt-5',
        'sora-2',
        'text-embedding-3-small',
        'embed-9-secret',
        'gpt-9-secret',
      ),
    )
    const ran = await add('openai', '--yes')
    expect(ran.code).toBe(0)
    expect(ran.stdout).toBe(
      `+ upstreams.openai
+ models.openai/whisper-1, 1 route
+ models.openai/gpt-4o-mini, 1 route
+ models.openai/gpt-5, 1 route
+ models.openai/text-embedding-3-small, 1 route
+ models.openai/gpt-9-secret, 1 route
Added openai with 4 models and 1 unpriced. Undo: tollgate upstreams remove openai
Try it: tollgate ask --model openai/gpt-4o-mini Hello
`,
    )
    expect(ran.stderr).toContain('skipped 2 models without chat or another endpoint with a known price')
    expect(ran.stderr).toContain('disabled until priced: openai/gpt-9-secret')
    expect(await modelOf('openai/gpt-4o-mini')).toMatchObject({
      name: 'GPT-4o mini',
      context_length: 128_000,
      max_output_length: 16_384,
      input_modalities: ['text', 'image', 'file'],
      pricing: [
        { prompt: '0.00000015', completion: '0.0000006', input_cache_read: '0.000000075' },
        { mode: 'batch', prompt: '0.000000075', completion: '0.0000003' },
      ],
      origin: 'discovered',
      enabled: true,
      routes: [{ upstream: 'openai', upstream_model: 'gpt-4o-mini', origin: 'discovered' }],
    })
    expect(await modelOf('openai/text-embedding-3-small')).toMatchObject({
      ...{ context_length: 8_191, output_modalities: ['embeddings'], enabled: true },
      pricing: [
        { prompt: '0.00000002', completion: '0' },
        { mode: 'batch', prompt: '0.00000001', completion: '0' },
      ],
    })
    const { upstreams } = await json('upstreams', 'list')
    expect(upstreams).toMatchObject([
      { id: 'openai', base_url: provider.url, origin: 'admin', credential: { variable: 'OPENAI_API_KEY' } },
    ])
    const catalog = await json('catalog', 'export')
    expect(catalog.upstreams.openai).toEqual({
      preset: 'openai',
      base_url: provider.url,
      api_key: `\${OPENAI_API_KEY}`,
    })
    // The first model gets no effort, the second one no temperature.
    const routeOf = (slug: string) => catalog.models[slug].routes[0]
    expect(routeOf('openai/gpt-4o-mini')).toMatchObject({ thinking: 'none' })
    expect(routeOf('openai/gpt-5')).toMatchObject({ efforts: ['minimal', 'low', 'medium', 'high'], sampling: false })
  })

  test('has models without a known price disabled and unpriced', async () => {
    lists(openaiList('gpt-9-secret'))
    await add('openai', '--yes')
    expect(await modelOf('openai/gpt-9-secret')).toMatchObject({
      enabled: false,
      pricing: [],
      is_ready: false,
      reason: 'unpriced: disabled until a price is set',
    })
    expect((await bench.run('models', 'list', '--all')).stdout).toMatch(/openai\/gpt-9-secret +128k +\? +\? +no/)
    expect((await bench.run('models', 'show', 'openai/gpt-9-secret')).stdout).toContain('price unknown')
    // The export can be applied again.
    await bench.run('catalog', 'export', 'out.yaml')
    const planned = await bench.run('catalog', 'plan', 'out.yaml')
    expect(planned).toMatchObject({ code: 0, stderr: '' })
    expect(planned.stdout).toContain(': no changes.')
  })

  test('has an unpriced model called once an administrator has set a price, and not before', async () => {
    lists(openaiList('gpt-9-secret'))
    await add('openai', '--yes')
    const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
    const store = createConfigStore(sqlite)
    const edit = (changes: ModelChanges) =>
      editModel(store, 'openai/gpt-9-secret', changes, { actor: 'ann', nowMs: Date.UTC(2026, 10, 22) })
    await edit({ contextLength: 64_000 })
    await expect(edit({ enabled: true })).rejects.toThrow('pricing is missing')
    await edit({ enabled: true, pricing: [{ prompt: '0.000001', completion: '0.000002' }] })
    sqlite.close()
    expect(await modelOf('openai/gpt-9-secret')).toMatchObject({
      ...{ enabled: true, reason: null, context_length: 64_000, origin: 'admin' },
      pricing: [{ prompt: '0.000001', completion: '0.000002' }],
    })
  })

  test('is asked for its models with the credential, before anything is written', async () => {
    const refusal = listed({ error: { message: 'Incorrect API key provided.' } }, 401)
    lists(onlyFor('authorization', 'Bearer another', openaiList('gpt-5'), refusal))
    const ran = await add('openai', '--yes')
    expect(ran).toMatchObject({ code: 1, stdout: '' })
    expect(ran.stderr).toContain(
      'rejected the credential (401): Incorrect API key provided. Check that the key is complete',
    )
    expect(await versions()).toBe(0)
  })

  test('shows its changes, and adds nothing, with --plan', async () => {
    lists(openaiList('gpt-5'))
    const ran = await add('openai', '--plan')
    expect(ran.code).toBe(0)
    expect(ran.stdout).toContain('+ models.openai/gpt-5, 1 route\nPreview of adding openai: 3 rows to create')
    expect(await versions()).toBe(0)
    const planned = JSON.parse((await add('openai', '--plan', '--json')).stdout)
    expect(planned).toMatchObject({
      planned: true,
      upstream: 'openai',
      models: ['openai/gpt-5'],
      unpriced: [],
      version: null,
    })
  })

  test('asks for confirmation at a terminal, and accepts a no', async () => {
    lists(openaiList('gpt-5'))
    bench.answers = ['n']
    expect(await add('openai')).toMatchObject({ code: 1, stderr: expect.stringContaining('No changes made.') })
    expect(await versions()).toBe(0)
    expect((await add('openai')).stderr).toContain('Confirmation required. Pass --yes')
    bench.answers = ['']
    expect((await add('openai')).code).toBe(0)
    expect(await versions()).toBe(1)
  })

  test('has a typed key encrypted, and stored nowhere else', async () => {
    bench.environment = {}
    bench.answers = [` ${KEY}\n`]
    lists(onlyFor('authorization', `Bearer ${KEY}`, openaiList('gpt-5'), listed('', 401)))
    const ran = await add('openai', '--yes')
    expect(ran.code).toBe(0)
    expect(bench.asked).toEqual([{ question: 'API key for OpenAI (hidden): ', isSecret: true }])
    expect(ran.stdout + ran.stderr).not.toContain(KEY)
    const sqlite = new Database(databasePath(bench.folder), { readonly: true })
    const opened = await createVault(bench.folder).open(await createConfigStore(sqlite).readSealed())
    expect(opened.get('openai')).toEqual([{ credential: KEY }])
    sqlite.close()
    expect(JSON.stringify(await json('audit', 'log'))).not.toContain(KEY)
  })

  test("accepts a piped key, or another variable's name, and never the key itself", async () => {
    lists(openaiList('gpt-5'))
    bench.environment = {}
    bench.piped = `${KEY}\n`
    expect((await add('openai', '--key-stdin', '--yes')).code).toBe(0)
    bench.environment = { WORK_KEY: KEY }
    expect((await add('openai', '--name', 'work', '--key-env', 'WORK_KEY', '--yes')).code).toBe(0)
    expect((await json('catalog', 'export')).upstreams.work.api_key).toBe(`\${WORK_KEY}`)
    const wrong = await add('openai', '--name', 'third', '--key-env', KEY, '--yes')
    expect(wrong).toMatchObject({ code: 2, stderr: expect.not.stringContaining(KEY) })
    expect((await add('openai', '--name', 'third', '--key-env', 'NOT_SET', '--yes')).stderr).toContain(
      'the variable NOT_SET is not set here',
    )
  })

  test('without any key says how to pass one', async () => {
    bench.environment = {}
    const { code, stderr } = await add('openai', '--yes')
    expect(code).toBe(1)
    expect(stderr).toContain(
      'No API key for OpenAI. Set OPENAI_API_KEY, pipe it in with --key-stdin, or run in a terminal',
    )
  })

  test('with a misspelled name gets a suggestion', async () => {
    const { code, stderr } = await bench.run('upstreams', 'add', 'opanai', '--yes')
    expect(code).toBe(1)
    expect(stderr).toContain("Unknown provider 'opanai' (did you mean 'openai'?)")
    expect(stderr).toContain('tollgate upstreams add --name NAME --base-url')
  })

  test("can't be added twice", async () => {
    lists(openaiList('gpt-5'))
    await add('openai', '--yes')
    const again = await add('openai', '--yes')
    expect(again).toMatchObject({
      code: 1,
      stderr: 'error: Upstream openai already exists. Choose another name.\n',
    })
  })
})

describe("a provider's own facts about a model", () => {
  test('override the known ones: Anthropic', async () => {
    bench.environment = { ANTHROPIC_API_KEY: KEY }
    lists(anthropicList(claude('claude-opus-4-7'), claude('claude-2', { lifecycle: 'retired' })))
    expect((await add('anthropic', '--yes')).code).toBe(0)
    expect(await modelOf('anthropic/claude-opus-4-7')).toMatchObject({
      name: 'Claude Test',
      context_length: 300_000,
      max_output_length: 64_000,
      input_modalities: ['text', 'image'],
      supported_features: ['tools', 'json_mode', 'structured_outputs', 'reasoning'],
      pricing: [
        {
          prompt: '0.000005',
          completion: '0.000025',
          input_cache_read: '0.0000005',
          input_cache_write: '0.00000625',
          input_cache_write_1h: '0.00001',
        },
        { mode: 'batch', prompt: '0.0000025', input_cache_write_1h: '0.000005' },
        { mode: 'fast', prompt: '0.00003' },
      ],
    })
    const exported = await json('catalog', 'export')
    expect(exported.models['anthropic/claude-opus-4-7'].routes[0]).toMatchObject({
      thinking: 'adaptive',
      efforts: ['low', 'medium', 'high', 'max'],
      thinking_off: false,
      sampling: false,
    })
    expect(Object.keys(exported.models)).toEqual(['anthropic/claude-opus-4-7'])
  })

  test('override the known ones: Gemini', async () => {
    bench.environment = { GOOGLE_API_KEY: KEY }
    lists(
      listed({
        models: [
          gemini('gemini-2.5-flash'),
          gemini('gemini-embedding-001', { supportedGenerationMethods: ['embedContent'] }),
          gemini('text-embedding-004', { supportedGenerationMethods: ['embedContent'] }),
        ],
      }),
    )
    const ran = await bench.run('upstreams', 'add', 'google', '--yes', '--base-url', `${provider.url}beta`)
    expect(ran.code).toBe(0)
    expect(await modelOf('google/gemini-2.5-flash')).toMatchObject({
      context_length: 500_000,
      max_output_length: 30_000,
      pricing: [{ prompt: '0.0000003', completion: '0.0000025', audio: '0.000001' }],
    })
    expect(await modelOf('google/gemini-embedding-001')).toMatchObject({
      ...{ output_modalities: ['embeddings'], pricing: [{ prompt: '0.00000015', completion: '0' }] },
    })
    expect(ran.stderr).toContain('skipped 1 model without chat')
    const route = (await json('catalog', 'export')).models['google/gemini-2.5-flash'].routes[0]
    expect(route).toMatchObject({
      upstream: 'google',
      model: 'gemini-2.5-flash',
      thinking: 'budget',
      thinking_off: true,
    })
  })

  test('override them including prices, if the provider is known to publish them', async () => {
    const pricing = { prompt: '0.0000001', completion: '0.0000002' }
    bench.environment = { OPENROUTER_API_KEY: KEY }
    lists(
      openaiList(
        { id: 'acme/large', context_length: 4_096, pricing },
        { id: 'acme/free', context_length: 4_096, pricing: { prompt: '0', completion: '0' } },
        { id: 'acme/odd', pricing: { ...pricing, prompt: 'free' } },
      ),
    )
    const ran = await add('openrouter', '--yes')
    expect(ran.code).toBe(0)
    expect(await modelOf('acme/large')).toMatchObject({ context_length: 4_096, pricing: [pricing], enabled: true })
    expect(ran.stderr).toContain('acme/odd: price prompt "free" is not a decimal number (ignored).')
    expect(await modelOf('acme/odd')).toMatchObject({ enabled: false, pricing: [] })
    expect(ran.stderr).toContain('Published as free, so no budget limits them: acme/free.')
  })

  test("don't override prices of an unknown provider, especially not as free", async () => {
    lists(
      openaiList(
        { id: 'acme/gift', context_length: 4_096, pricing: { prompt: '0', completion: '0' } },
        { id: 'acme/large', context_length: 4_096, pricing: { prompt: '0.0000001', completion: '0.0000002' } },
      ),
    )
    const ran = await add('--name', 'lab', '--no-key', '--yes')
    expect(ran.code).toBe(0)
    expect(ran.stderr).toContain("note: Listed as free, but this provider's prices aren't trusted: acme/gift.")
    expect(ran.stderr).toContain('If they are free, mark the upstream as local or set each price to 0.')
    expect(ran.stderr).toContain('acme/large (prompt 0.0000001, completion 0.0000002)')
    expect(ran.stderr).toContain('disabled until priced: acme/gift, acme/large.')
    for (const slug of ['acme/gift', 'acme/large'])
      expect(await modelOf(slug)).toMatchObject({ context_length: 4_096, enabled: false, pricing: [] })
  })
})

describe('a provider whose list has deployable models', () => {
  test('gets no routes from that list: each deployment is named, with its model', async () => {
    bench.environment = { AZURE_API_KEY: KEY }
    lists(openaiList('gpt-4o', 'gpt-5'))
    for (const words of [[], ['--models', 'gpt-*']]) {
      const { code, stderr } = await add('azure', '--yes', ...words)
      expect(code).toBe(2)
      expect(stderr).toContain("doesn't list deployments. Name each deployment and its model as --models NAME=SLUG")
      expect(stderr).toContain('--models chat=openai/gpt-4o')
    }
    expect(await versions()).toBe(0)
    const ran = await add('azure', '--yes', '--models', 'chat=openai/gpt-4o', '--models', 'own')
    expect(ran.code).toBe(0)
    expect(await modelOf('openai/gpt-4o')).toMatchObject({
      enabled: true,
      pricing: [{ prompt: '0.0000025', completion: '0.00001' }],
      routes: [{ upstream: 'azure', upstream_model: 'chat' }],
    })
    expect(await modelOf('azure/own')).toMatchObject({ enabled: false, routes: [{ upstream_model: 'own' }] })
    expect(await models()).toHaveLength(2)
  })

  test('still has an invalid credential refused', async () => {
    bench.environment = { AZURE_API_KEY: KEY }
    lists(listed({ error: { message: 'Access denied.' } }, 401))
    const { code, stderr } = await add('azure', '--yes', '--models', 'chat=openai/gpt-4o')
    expect(code).toBe(1)
    expect(stderr).toContain('rejected the credential (401): Access denied.')
  })
})

describe('a free upstream', () => {
  test('has free models, needs no key, and reports assumed facts', async () => {
    lists(openaiList('llama3.2:3b', { id: 'qwen', max_model_len: 32_768 }))
    const ran = await add('--name', 'near', '--local', '--yes')
    expect(ran.code).toBe(0)
    expect(bench.asked).toEqual([])
    expect(ran.stderr).toContain('Context length unknown, assuming 128000 tokens: near/llama3.2:3b.')
    expect(ran.stderr).toContain(
      'note: Input modalities unknown, assuming text only; other input is rejected: near/llama3.2:3b, near/qwen.',
    )
    expect(await modelOf('near/qwen')).toMatchObject({ context_length: 32_768, enabled: true, is_ready: null })
  })
})

test('a local server is added by its type: free, without a key, at its usual port or another, with its own facts', async () => {
  lists(openaiList('tiny'))
  const ran = await add('llama.cpp', '--yes')
  expect(ran).toMatchObject({ code: 0 })
  expect(await modelOf('local/tiny')).toMatchObject({ enabled: true, routes: [{ upstream: 'llama.cpp' }] })
  const catalog = await json('catalog', 'export')
  expect(catalog.upstreams['llama.cpp']).toEqual({ preset: 'llama.cpp', base_url: provider.url, local: true })
})

describe('--models', () => {
  test("selects by name and by pattern, the provider's or ours", async () => {
    lists(openaiList('gpt-5', 'gpt-5-mini', 'gpt-4o', 'gpt-4o-mini'))
    const ran = await add('openai', '--yes', '--models', 'gpt-5*', '--models', 'openai/gpt-4o')
    expect(ran.code).toBe(0)
    expect((await models()).map(({ slug }) => slug)).toEqual(['openai/gpt-4o', 'openai/gpt-5', 'openai/gpt-5-mini'])
  })

  test("accepts the shown ID as well as the provider's name, and can rename one", async () => {
    lists(openaiList('accounts/a/models/tiny', 'accounts/a/models/big', 'plain'))
    const words = ['--models', 'lab/tiny', '--models', 'accounts/a/models/big', '--models', 'plain=acme/fine']
    expect(await add('--name', 'lab', '--local', '--yes', ...words)).toMatchObject({ code: 0 })
    expect(
      (await models()).map(({ slug, routes }) => [slug, (routes as { upstream_model: string }[])[0]?.upstream_model]),
    ).toEqual([
      ['acme/fine', 'plain'],
      ['lab/big', 'accounts/a/models/big'],
      ['lab/tiny', 'accounts/a/models/tiny'],
    ])
    const more = await bench.run('upstreams', 'edit', 'lab', '--models', 'lab/plain', '--plan')
    expect(more.stdout).toContain('+ models.lab/plain, 1 route')
  })

  test('with an unknown name after = is an error', async () => {
    lists(openaiList('plain'))
    for (const [words, provider] of [
      [['--name', 'lab', '--local'], []],
      [[], ['azure', '--no-key']],
    ] as const) {
      const ran = await add(...provider, ...words, '--yes', '--models', 'plain=gpt-4o')
      expect(ran).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("In 'plain=gpt-4o', 'gpt-4o' is not a valid model ID"),
      })
    }
    lists(openaiList('odd=one'))
    expect((await add('--name', 'lab', '--local', '--yes', '--models', 'odd=one')).stderr).toContain(
      "names that are not valid model IDs: 'odd=one'",
    )
    const ran = await add('--name', 'lab', '--local', '--yes', '--models', 'odd=one=acme/one')
    expect(ran.code).toBe(0)
    expect(await modelOf('acme/one')).toMatchObject({ routes: [{ upstream_model: 'odd=one' }] })
  })

  test('without a match is an error, with a suggestion', async () => {
    lists(openaiList('gpt-5'))
    const { code, stderr } = await add('openai', '--yes', '--models', 'gpt5')
    expect(code).toBe(2)
    expect(stderr).toContain("None of its 1 model matches 'gpt5' (did you mean 'gpt-5'?).")
  })

  test('names the models of a provider without a list', async () => {
    lists(listed('not here', 404))
    expect((await add('openai', '--yes')).stderr).toContain('To add models by name: --models NAME for each.')
    const ran = await add('openai', '--yes', '--models', 'gpt-5')
    expect(ran.code).toBe(0)
    expect(ran.stderr).toContain("Couldn't list its models, so they are added as named.")
    expect(await modelOf('openai/gpt-5')).toMatchObject({ enabled: true, context_length: 400_000 })
    await add('openai', '--name', 'second', '--yes', '--models', 'openai/gpt-4o')
    expect(await modelOf('openai/gpt-4o')).toMatchObject({ enabled: true, routes: [{ upstream_model: 'gpt-4o' }] })
  })
})

describe('an untrusted list', () => {
  test('with two models for one ID adds neither, until one is named', async () => {
    lists(openaiList('accounts/a/models/tiny', 'accounts/b/models/tiny', 'accounts/a/models/other'))
    const ran = await add('--name', 'lab', '--local', '--yes')
    expect(ran.stderr).toContain(
      "2 of its models would be named lab/tiny, so none is added: 'accounts/a/models/tiny', 'accounts/b/models/tiny'. Choose a name with --models NAME=SLUG.",
    )
    expect((await models()).map(({ slug }) => slug)).toEqual(['lab/other'])
    await add('--name', 'lab2', '--local', '--yes', '--models', 'accounts/b/models/tiny')
    expect(await modelOf('lab2/tiny')).toMatchObject({ routes: [{ upstream_model: 'accounts/b/models/tiny' }] })
  })

  test("with invalid names leaves them out, and doesn't print them raw", async () => {
    lists(
      openaiList(
        'good',
        'bad\u001b]0;pwned\u0007',
        '',
        { id: 5 },
        'x'.repeat(5_000),
        'with space',
        'a*b',
        '../x',
        'a/../b',
      ),
    )
    const { code, stdout, stderr } = await add('--name', 'lab', '--local', '--yes')
    expect(code).toBe(0)
    expect((await models()).map(({ slug }) => slug)).toEqual(['lab/good'])
    expect(stderr).toContain(
      '7 of its models are left out for invalid names (empty, too long, with path segments, or unprintable)',
    )
    expect(stderr).toContain("1 of its models is left out for names that are not valid model IDs: 'a*b'.")
    expect(stdout + stderr).not.toMatch(/[^\P{Cc}\n]/u)
    expect(stderr.length).toBeLessThan(2_000)
  })

  test('with bidirectional names, or thousands of models, stays a few plain lines', async () => {
    const name = 'safe\u202Eetirw\u0007'
    lists(openaiList({ id: 'turned', name }, '\u202E', ...Array.from({ length: 3_000 }, (_, index) => `m-${index}`)))
    const { code, stderr } = await add('--name', 'lab', '--no-key', '--yes')
    expect(code).toBe(0)
    expect(await modelOf('lab/turned')).toMatchObject({ name: 'safe etirw ' })
    expect(stderr).not.toContain('\u202E')
    expect(stderr).toContain('and 2981 more. Run `tollgate catalog refresh`')
    expect(stderr.length).toBeLessThan(2_000)
    lists(listed({ error: { message: '\u001b[2Jgone' } }, 400))
    expect((await add('--name', 'lab2', '--no-key', '--yes')).stderr).toContain('returned 400: [2Jgone.')
  })

  test('that is empty adds nothing', async () => {
    lists(openaiList())
    expect(await add('--name', 'lab', '--local', '--yes')).toMatchObject({
      code: 1,
      stderr:
        'error: lab has no models that can be added. No changes made. To add models by name: --models NAME for each.\n',
    })
    expect(await versions()).toBe(0)
  })
})

describe('an existing model', () => {
  test('gets another route, after the first one and with its own price', async () => {
    lists(openaiList('gpt-5'))
    await add('openai', '--yes')
    const pricing = { prompt: '0.000002', completion: '0.00002' }
    lists(openaiList({ id: 'openai/gpt-5', context_length: 100_000, pricing, supported_parameters: ['tools'] }))
    const words = ['openrouter', '--name', 'router', '--no-key']
    const told =
      'Already exist, and get a fallback route to router: openai/gpt-5. If their other routes fail or are busy, router receives the requests.'
    const planned = await add(...words, '--plan')
    expect(planned.stdout).toContain('+ models.openai/gpt-5: route router (openai/gpt-5)')
    expect(planned.stderr).toContain(told)
    expect(await add(...words)).toMatchObject({ code: 1, stderr: expect.stringContaining('Pass --yes') })
    expect(await modelOf('openai/gpt-5')).toMatchObject({ routes: [{ upstream: 'openai' }] })
    const ran = await add(...words, '--yes')
    expect(ran).toMatchObject({ code: 0, stderr: expect.stringContaining(told) })
    expect(await modelOf('openai/gpt-5')).toMatchObject({
      context_length: 400_000,
      routes: [
        { upstream: 'openai', priority: 0, own_price: false },
        {
          upstream: 'router',
          priority: 1,
          own_price: true,
          pricing: [pricing],
          context_length: 100_000,
          supported_features: ['tools'],
        },
      ],
    })
  })

  test('gets one from an existing upstream only after a confirmation', async () => {
    const pricing = { prompt: '0.000002', completion: '0.00002' }
    lists(openaiList('gpt-5'))
    await add('openai', '--yes')
    lists(openaiList({ id: 'openai/gpt-5', pricing }, { id: 'acme/own', pricing }))
    await add('openrouter', '--name', 'router', '--no-key', '--yes', '--models', 'acme/own')
    const edit = (...words: string[]) => bench.run('upstreams', 'edit', 'router', '--models', '*', ...words)
    expect(await edit()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('get a fallback route to router: openai/gpt-5.'),
    })
    expect(await modelOf('openai/gpt-5')).toMatchObject({ routes: [{ upstream: 'openai' }] })
    expect((await edit('--yes')).code).toBe(0)
    expect(await modelOf('openai/gpt-5')).toMatchObject({ routes: [{ upstream: 'openai' }, { upstream: 'router' }] })
    expect((await edit()).stdout).toBe('No changes to router.\n')
  })

  test('is not reported as unpriced, or as added, if only its price at another provider is unknown', async () => {
    lists(openaiList('gpt-5'))
    await add('openai', '--yes')
    lists(openaiList('openai/gpt-5', 'own'))
    const { stdout, stderr } = await add('--name', 'lab', '--no-key', '--yes')
    expect(stderr).toContain('openai/gpt-5: already exists, and its price at lab is unknown. No route was added.')
    expect(stderr).toContain('disabled until priced: lab/own.')
    expect(stdout).toContain('Added lab with 0 models and 1 unpriced.')
  })

  test("from a file doesn't change", async () => {
    await Bun.write(
      join(bench.folder, 'c.yaml'),
      `version: 1
upstreams: { mine: { dialect: openai, base_url: "${provider.url}" } }
models: { openai/gpt-5: { routes: [{ upstream: mine, model: gpt-5 }] } }
`,
    )
    await bench.run('catalog', 'apply', 'c.yaml')
    lists(openaiList('gpt-5', 'gpt-4o'))
    const ran = await add('openai', '--yes')
    expect(ran.stderr).toContain(
      'openai/gpt-5: already set by file, so no route was added. To add one to openai, change it there.',
    )
    expect(await modelOf('openai/gpt-5')).toMatchObject({ origin: 'file', routes: [{ upstream: 'mine' }] })
    expect(await modelOf('openai/gpt-4o')).toMatchObject({ origin: 'discovered' })
  })
})

describe('the arguments', () => {
  test.each([
    [['openai', '--yes', '--plan'], 'Pass either --plan or --yes'],
    [['openai', '--json'], '--json requires --yes or --plan'],
    [['openai', '--yes', '--key-stdin', '--no-key'], 'Pass only one of --key-env'],
    [['openai', '--yes', '--dialect', 'grpc'], 'Allowed choices are openai, anthropic, gemini'],
    [['openai', '--yes', '--models', ''], '--models is empty'],
  ])('%j are refused', async (words, says) => {
    const { code, stderr } = await add(...words)
    expect(code).toBe(2)
    expect(stderr).toContain(says)
  })

  test('need a provider, or a URL, and a name for an unknown one', async () => {
    expect((await bench.run('upstreams', 'add', '--yes')).stderr).toContain('Pass a provider, e.g. openai')
    expect((await add('--yes')).stderr).toContain('--name is missing')
    expect((await bench.run('upstreams', 'add', 'openai', '--base-url', 'ftp://x', '--yes')).stderr).toContain(
      'base_url',
    )
    expect((await bench.run('upstreams', 'add', 'openai', '--name', 'Not Good', '--yes')).stderr).toContain(
      'invalid upstream name',
    )
  })
})

describe('an existing upstream', () => {
  beforeEach(async () => {
    lists(openaiList('gpt-5', 'gpt-4o'))
    await add('openai', '--yes', '--models', 'gpt-5')
  })
  const openai = async () => (await json('catalog', 'export')).upstreams.openai

  test('gets more models from its list, and keeps its own', async () => {
    const planned = await bench.run('upstreams', 'edit', 'openai', '--models', 'gpt-*', '--plan')
    expect(planned.stdout).toBe(
      '+ models.openai/gpt-4o, 1 route\nPreview: 2 rows to create, 0 to update, 0 to delete, 3 unchanged. To apply, run without --plan.\n',
    )
    expect((await bench.run('upstreams', 'edit', 'openai', '--models', 'gpt-*')).code).toBe(0)
    expect((await models()).map(({ slug }) => slug)).toEqual(['openai/gpt-4o', 'openai/gpt-5'])
    expect((await bench.run('upstreams', 'edit', 'openai', '--models', 'gpt-*')).stdout).toBe('No changes to openai.\n')
  })

  test('is changed only in the named fields', async () => {
    const ran = await bench.run('upstreams', 'edit', 'openai', '--rpm', '60', '--disable')
    expect(ran.stdout).toContain('enabled: true -> false')
    expect(await openai()).toMatchObject({ rpm: 60, enabled: false, api_key: `\${OPENAI_API_KEY}` })
    await bench.run('upstreams', 'edit', 'openai', '--rpm', 'none', '--enable', '--key-env', 'OTHER_KEY')
    expect(await openai()).toEqual({ preset: 'openai', base_url: provider.url, api_key: `\${OTHER_KEY}` })
    bench.answers = [KEY]
    expect((await bench.run('upstreams', 'edit', 'nope', '--key')).stderr).toContain('upstreams list')
    expect((await bench.run('upstreams', 'edit', 'openai', '--key')).stdout).toContain('stored')
    expect(await openai()).toEqual({ preset: 'openai', base_url: provider.url })
    // A variable replaces the typed credential.
    await bench.run('upstreams', 'edit', 'openai', '--key-env', 'OPENAI_API_KEY')
    const { upstreams } = await json('upstreams', 'list')
    expect(upstreams[0].credential).toEqual({ variable: 'OPENAI_API_KEY', sealed: false, status: 'set' })
  })

  test('loses its credential if its URL changes, unless a new one is given', async () => {
    await bench.run('upstreams', 'edit', 'openai', '--base-url', 'http://127.0.0.1:9/v1')
    expect(await openai()).toEqual({ preset: 'openai', base_url: 'http://127.0.0.1:9/v1' })
    await bench.run('upstreams', 'edit', 'openai', '--base-url', provider.url, '--key-env', 'OPENAI_API_KEY')
    expect(await openai()).toMatchObject({ base_url: provider.url, api_key: `\${OPENAI_API_KEY}` })
  })

  test('is removed with all of its models, except those that others serve', async () => {
    const pricing = { prompt: '0.000002', completion: '0.00002' }
    lists(openaiList({ id: 'openai/gpt-5', pricing }, { id: 'acme/own', pricing }))
    await add('openrouter', '--name', 'router', '--no-key', '--yes')
    const planned = await bench.run('upstreams', 'remove', 'router', '--plan')
    expect(planned.stdout).toContain('- models.acme/own, 1 route')
    expect(await modelOf('acme/own')).toBeDefined()
    expect((await bench.run('upstreams', 'remove', 'router')).code).toBe(0)
    expect(await modelOf('acme/own')).toBeUndefined()
    expect(await modelOf('openai/gpt-5')).toMatchObject({ routes: [{ upstream: 'openai' }] })
    await bench.run('upstreams', 'remove', 'openai')
    expect(await models()).toEqual([])
  })

  test.each([
    [['edit', 'openai'], 2, 'Nothing to change. See'],
    [['edit', 'openai', '--enable', '--disable'], 2, 'Pass either --enable or --disable'],
    [['edit', 'openai', '--rpm', 'many'], 2, "--rpm must be a whole number of at least 1 (got 'many')"],
    [['edit', 'openai', '--rpm', '5', '--models', 'x'], 2, "can't be combined with other changes"],
    [['edit', 'opnai', '--rpm', '5'], 1, "Unknown upstream 'opnai' (did you mean 'openai'?)"],
    [['edit', 'openai', '--base-url', 'nowhere'], 2, 'base_url'],
    [['remove', 'opnai'], 1, "Unknown upstream 'opnai'"],
  ])('%j is refused', async (words, exitCode, says) => {
    const { code, stderr } = await bench.run('upstreams', ...words)
    expect(stderr).toContain(says)
    expect(code).toBe(exitCode)
  })
})
