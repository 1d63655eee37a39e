/** Model lists of providers, and other responses: each gives a message that says what to do. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { ServiceError } from '../../src/domain/service-error.ts'
import { anthropic } from '../../src/upstreams/dialects/anthropic/anthropic.ts'
import { gemini } from '../../src/upstreams/dialects/gemini/gemini.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { askModels, type ListLimits } from '../../src/upstreams/model-list.ts'
import { anthropicList, claude, gemini as geminiModel, listed, openaiList } from '../support/model-lists.ts'
import { toOutgoing } from '../support/outgoing.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

let upstream: ScriptedUpstream
beforeEach(async () => {
  upstream = await startUpstream()
})
afterEach(() => upstream.stop())

const KEY = 'sk-secret-0123456789abcdef'

function ask(script: Script, dialect = openai, limits: Partial<ListLimits> = {}) {
  upstream.scriptProbes(script)
  const baseUrl = dialect === gemini ? `${upstream.url}beta` : upstream.url
  return askModels(dialect, { ...toOutgoing(baseUrl).upstream, credential: KEY }, limits)
}

const refusalOf = async (...asked: Parameters<typeof ask>): Promise<ServiceError> => {
  const error = await ask(...asked).then(
    () => null,
    (thrown) => thrown,
  )
  if (error instanceof ServiceError) return error
  throw new Error(`no refusal, but ${error}`)
}

describe('a list', () => {
  test('of the OpenAI format is read with any additions or omissions of providers', async () => {
    const router = {
      id: 'acme/large',
      name: 'Acme Large',
      context_length: 200_000,
      architecture: { input_modalities: ['image', 'text', 'pdf'], output_modalities: ['text'] },
      top_provider: { context_length: 131_072, max_completion_tokens: 8_192 },
      supported_parameters: ['tools', 'response_format', 'reasoning', 'seed'],
      pricing: { prompt: '0.000001', completion: '0.000002', input_cache_read: '0', web_search: '0.005', image: '0' },
    }
    const groq = { id: 'fast', context_window: 131_072, max_completion_tokens: 32_768, active: true }
    const mistral = {
      id: 'm',
      max_context_length: 32_768,
      capabilities: { completion_chat: true, function_calling: true, vision: true },
    }
    expect(await ask(openaiList('plain', router, groq, mistral))).toEqual([
      { id: 'plain', oddities: [] },
      {
        id: 'acme/large',
        name: 'Acme Large',
        contextLength: 131_072,
        maxOutputLength: 8_192,
        inputModalities: ['text', 'image', 'file'],
        outputModalities: ['text'],
        supportedFeatures: ['tools', 'json_mode', 'reasoning'],
        // A cache price of 0 means the input price.
        pricing: [{ prompt: '0.000001', completion: '0.000002', web_search: '0.005' }],
        oddities: [],
      },
      { id: 'fast', contextLength: 131_072, maxOutputLength: 32_768, oddities: [] },
      { id: 'm', contextLength: 32_768, inputModalities: ['text', 'image'], can: { tools: true }, oddities: [] },
    ])
    expect(await ask(listed([{ id: 'bare' }]))).toEqual([{ id: 'bare', oddities: [] }])
    expect(upstream.probes.map(({ path, headers }) => [path, headers.authorization])).toEqual(
      Array(2).fill(['/v1/models', `Bearer ${KEY}`]),
    )
  })

  test("of Anthropic has each model's reasoning settings and input modalities", async () => {
    const [model] = await ask(anthropicList(claude('claude-test-1')), anthropic)
    expect(model).toEqual({
      id: 'claude-test-1',
      name: 'Claude Test',
      contextLength: 300_000,
      maxOutputLength: 64_000,
      inputModalities: ['text', 'image'],
      outputModalities: ['text'],
      can: { tools: true, json_mode: true, structured_outputs: true, reasoning: true },
      options: {
        thinking: 'adaptive',
        efforts: ['low', 'medium', 'high', 'max'],
        thinking_off: false,
        sampling: false,
      },
      oddities: [],
    })
    const thinking = { supported: true, types: { adaptive: { supported: true }, enabled: { supported: true } } }
    const [older] = await ask(anthropicList(claude('claude-test-0', { capabilities: { thinking } })), anthropic)
    // It supports temperature.
    expect(older?.options).toEqual({ thinking: 'adaptive' })
    expect(upstream.probes[0]).toMatchObject({
      path: '/v1/models?limit=1000',
      headers: { 'x-api-key': KEY, 'anthropic-version': '2023-06-01' },
    })
  })

  test('of several pages is read completely', async () => {
    const page = ({ path }: { path: string }) =>
      path.includes('after_id=b%20c')
        ? anthropicList(claude('last'))
        : listed({ data: [claude('first')], has_more: true, last_id: 'b c' })
    expect((await ask(page, anthropic)).map(({ id }) => id)).toEqual(['first', 'last'])
    const google = ({ path }: { path: string }) =>
      path.includes('pageToken=two')
        ? listed({ models: [geminiModel('g-2', { thinking: undefined })] })
        : listed({
            models: [geminiModel('g-1', { supportedGenerationMethods: ['embedContent'] })],
            nextPageToken: 'two',
          })
    expect(await ask(google, gemini)).toEqual([
      {
        id: 'g-1',
        name: 'Gemini Test',
        contextLength: 500_000,
        maxOutputLength: 30_000,
        outputModalities: ['embeddings'],
        can: { reasoning: true },
        canChat: false,
        oddities: [],
      },
      { id: 'g-2', name: 'Gemini Test', contextLength: 500_000, maxOutputLength: 30_000, can: {}, oddities: [] },
    ])
    expect(upstream.probes.at(-1)?.headers['x-goog-api-key']).toBe(KEY)
  })

  test('with impossible sizes and prices is read without those, and says so', async () => {
    const odd = (field: object) => ({ id: 'odd', ...field })
    const found = await ask(
      openaiList(
        odd({ context_length: 1e15 }),
        odd({ context_length: -5 }),
        odd({ context_length: 'long' }),
        odd({ context_length: 0, max_completion_tokens: null }),
        odd({ pricing: { prompt: 'cheap', completion: '0.1' } }),
        odd({ pricing: { prompt: '1e-7', completion: '0.1' } }),
        odd({ pricing: { prompt: 0.1, completion: '0.1' } }),
        odd({ pricing: { prompt: '-1', completion: '-1' } }),
      ),
    )
    expect(found.every((model) => model.contextLength === undefined && model.pricing === undefined)).toBe(true)
    expect(found.map(({ oddities }) => oddities?.[0] ?? null)).toEqual([
      'context_length 1000000000000000 is not a valid number of tokens',
      'context_length -5 is not a valid number of tokens',
      'context_length "long" is not a valid number of tokens',
      null,
      'price prompt "cheap" is not a decimal number',
      'price prompt "1e-7" is not a decimal number',
      'price prompt 0.1 is not a decimal number',
      null,
    ])
  })
})

describe('a provider that', () => {
  const page = '<!doctype html><title>Sign in</title>'
  const cases: [what: string, script: Script, why: string, says: RegExp][] = [
    [
      'sends a web page',
      listed(page, 200, { 'content-type': 'text/html' }),
      'answer',
      /returned a web page.*usually ends in \/v1/,
    ],
    ['sends half a document', listed('{"data": [{"id": "a"'), 'answer', /returned invalid JSON/],
    ['sends other JSON', listed({ hello: 'world' }), 'answer', /not a model list/],
    [
      'leads elsewhere',
      listed('', 302, { location: 'https://evil.example/v1/models?x=1' }),
      'answer',
      /redirects to https:\/\/evil\.example \(302\)\. The credential was not sent there.*use it as the base URL/,
    ],
    [
      'refuses the credential',
      listed({ error: { message: `Bad key ${KEY}` } }, 401),
      'credential',
      /rejected the credential \(401\): Bad key .*Check that the key is complete/,
    ],
    [
      'refuses a wrong key as Google does',
      listed({ error: { code: 400, message: 'API key not valid. Please pass a valid API key.' } }, 400),
      'credential',
      /rejected the credential \(400\)/,
    ],
    [
      'has no list',
      listed(page, 404),
      'none',
      /is not a model list \(404\)\. Check its base URL.*Or name its models yourself/,
    ],
    ['is broken', listed({ error: { message: 'oh no' } }, 503), 'unreachable', /returned 503: oh no\. Try again later/],
    ['is out of patience', listed('', 429), 'unreachable', /is rate limited \(429\)/],
    ['hangs up', { kind: 'reset' }, 'unreachable', /Can't reach .*: connection reset/],
  ]
  test.each(cases)('%s gets a specific error', async (_, script, why, says) => {
    const { failure, message } = await refusalOf(script)
    expect(failure).toEqual({ kind: 'list_failed', why } as typeof failure)
    expect(message).toMatch(says)
    expect(message).not.toContain(KEY)
  })

  test('is unreachable gets a specific error', async () => {
    await upstream.stop()
    expect((await refusalOf(openaiList())).message).toMatch(/^Can't reach .*: connection refused/)
    upstream = await startUpstream()
  })

  test('sends an endless response is read only up to the limit of a list', async () => {
    const steps = (function* () {
      for (;;) yield 'x'.repeat(64 * 1024)
    })()
    const { message } = await refusalOf({ kind: 'stream', steps, end: 'eof' })
    expect(message).toContain('sent more than 16 MiB')
    // How far `fetch` has read ahead by then varies. The connection must be closed by Tollgate: otherwise it would be
    // read for 30 s.
    while (upstream.connections > 0) await Bun.sleep(1)
  })

  test('sends pages that exceed the limit together is read no further', async () => {
    let pages = 0
    const page = () => listed({ data: [], has_more: true, last_id: `${pages++}`, more: 'x'.repeat(600_000) })
    expect((await refusalOf(page, anthropic, { bytes: 2_097_152 })).message).toContain('sent more than 2 MiB')
    expect(pages).toBe(4)
  })

  test('never ends its response is abandoned after a time', async () => {
    const { message } = await refusalOf({ kind: 'stream', steps: ['{"data":['], end: 'hang' }, openai, { ms: 100 })
    expect(message).toContain('Timed out after 0.1 s reading the model list')
    expect((await refusalOf({ kind: 'silent' }, openai, { ms: 100 })).message).toContain('Timed out after')
  })

  test('always has one more page, or lists too many models, is rejected', async () => {
    const more = listed({ data: [claude('again')], has_more: true, last_id: 'again' })
    expect((await refusalOf(more, anthropic)).message).toContain('has more than 2 pages')
    const long = listed({ data: [], has_more: true, last_id: 'x'.repeat(100_000) })
    expect((await refusalOf(long, anthropic)).message.length).toBeLessThan(300)
    let pages = 0
    const other = () => listed({ data: [], has_more: true, last_id: `page-${pages++}` })
    expect((await refusalOf(other, anthropic)).message).toContain('has more than 50 pages')
    expect((await refusalOf(openaiList('a', 'b', 'c'), openai, { models: 2 })).message).toContain('more than 2 models')
  })
})
