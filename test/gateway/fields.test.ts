/** Fields that would make an upstream gateway route or bill differently: not sent, or refused. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { HELLO } from '../support/gateway.ts'
import { type ScriptedUpstream, type Seen, startUpstream } from '../support/upstream.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

let app: TestApp
let upstream: ScriptedUpstream
let key: string

/** Ten tokens in and five out; the other model costs 1,000 times as much. */
const CHEAP_NANO_USD = 20_000

/** Charged by the other gateway, which calls `fallbacks` on failure, as LiteLLM does. */
let chargedNanoUsd = 0
const obeying = ({ json }: Seen) => {
  const isDear = Boolean(json?.fallbacks) && json?.mock_testing_fallbacks === true
  chargedNanoUsd += isDear ? 1_000 * CHEAP_NANO_USD : CHEAP_NANO_USD
  return wholeAnswer()
}

beforeAll(async () => {
  upstream = await startUpstream(obeying)
  const facts =
    'context_length: 8192, max_output_length: 1000, input_modalities: [text, image], output_modalities: [text]'
  const model = (name: string, pricing: string, ...routes: string[]) =>
    `  acme/${name}: { name: ${name}, ${facts}, supported_features: [tools], ${pricing} routes: [${routes.join(', ')}] }`
  const pricing = 'pricing: [{ prompt: "0.000001", completion: "0.000002" }],'
  const toPricing = (prompt: string) => `pricing: [{ prompt: "${prompt}", completion: "0", second: "0.0005" }]`
  const passed = '[fallbacks, "mock_*", provider, web_search_options, service_tier, file_id, api_base]'
  app = await startApp({
    catalog: `
version: 1
upstreams:
  closed: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
  open: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, pass: ${passed} }
  here: { dialect: openai, base_url: "${upstream.url}", local: true }
models:
${[
  model('large', pricing, '{ upstream: closed, model: cheap }'),
  model('open', pricing, '{ upstream: open, model: cheap }'),
  model('both', pricing, '{ upstream: closed, model: cheap }', '{ upstream: open, model: cheap, priority: 1 }'),
  model(
    'priced',
    pricing.replace(']', ', { prompt: "0.000002", completion: "0.000004", mode: priority }]'),
    '{ upstream: closed, model: cheap }',
  ),
  model('free', '', '{ upstream: here, model: cheap }'),
  model('timed', '', `{ upstream: here, model: cheap, ${toPricing('0')} }`),
  model('dear', '', `{ upstream: here, model: cheap, ${toPricing('0.000001')} }`),
].join('\n')}
`,
  })
  key = app.key()
})
beforeEach(() => {
  chargedNanoUsd = 0
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

/** Text if JSON.stringify can't write the body; returns the answer and what the upstream got. */
async function ask(body: object | string) {
  const before = upstream.requests.length
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify({ ...HELLO, ...body }),
  })
  const answer = JSON.parse(await response.text())
  return { status: response.status, answer, sent: upstream.requests.slice(before).map(({ json }) => json) }
}

const SENT = { ...HELLO, model: 'cheap' }

describe('another gateway behind this one', () => {
  test("isn't sent fields that choose another model, so that billing matches its charge", async () => {
    const { answer, sent } = await ask({ fallbacks: ['dear'], mock_testing_fallbacks: true })
    expect(sent).toEqual([SENT])
    expect({ charged: chargedNanoUsd, billed: answer.usage.cost_nano_usd }).toEqual({
      charged: CHEAP_NANO_USD,
      billed: CHEAP_NANO_USD,
    })
  })

  test.each([
    // Model and provider
    ...[
      'fallbacks',
      'context_window_fallbacks',
      'content_policy_fallbacks',
      'models',
      'model_list',
      'model_id',
      'route',
    ],
    ...[
      'provider',
      'providerOptions',
      'provider_options',
      'gateway',
      'plugins',
      'transforms',
      'preset',
      'tags',
      'engine',
    ],
    ...['user_config', 'config', 'custom_llm_provider', 'prompt_id', 'compound_custom', 'tensorzero::variant_name'],
    // Address and key
    ...[
      'api_base',
      'base_url',
      'api_key',
      'extra_headers',
      'headers',
      'organization',
      'azure_ad_token',
      'aws_role_name',
    ],
    ...[
      'vertex_credentials',
      'kv_transfer_params',
      'bootstrap_host',
      'lora_path',
      'litellm_credential_name',
      'langfuse_host',
    ],
    // Price, number of calls, turn
    ...[
      'input_cost_per_token',
      'mock_response',
      'num_retries',
      'max_retries',
      'n_predict',
      'max_new_tokens',
      'timeout',
      'cache',
      'priority',
    ],
    // A second body, merged into the first one
    'extra_body',
    // Receivers that ignore case, or have other names for the same field
    ...['Fallbacks', 'FALLBACKS', 'fallback\u017f', 'apiBase', 'api-base', 'API_BASE', 'baseURL'],
    // Fields that Tollgate sets, under names that a receiver may confuse with them
    ...['Model', 'MODEL', 'Max_Tokens', 'maxTokens', 'Messages', 'Stream', 'Service_Tier', 'stream-options'],
  ])("isn't sent %s", async (name) => {
    for (const value of ['dear', { model: 'dear' }, ['dear']]) {
      expect((await ask({ [name]: value })).sent).toEqual([SENT])
    }
  })

  test('is sent engine extensions unchanged', async () => {
    const more = {
      top_k: 5,
      chat_template_kwargs: { enable_thinking: false, model: 'x' },
      prompt_logprobs: 1,
      guided_json: { type: 'object' },
      reasoning: { effort: 'low' },
      thinking: { type: 'enabled' },
      session_id: 's',
      usage: { include: true },
      lora: [{ id: 0, scale: 1 }],
    }
    expect((await ask(more)).sent).toEqual([{ ...SENT, ...more }])
  })

  test('is sent one model, the last of several in a body, and never the body’s own text', async () => {
    const { sent, status } = await ask(
      '{"model":"x/y","messages":[{"role":"user","content":"Hello there!"}],"model":"acme/large"}',
    )
    expect(status).toBe(200)
    expect(sent).toEqual([SENT])
    expect(upstream.requests.at(-1)?.body.match(/"model"/g)).toHaveLength(1)
  })

  test("isn't sent a contract field in another spelling, at any depth", async () => {
    const part = { type: 'text', text: 'Hello there!', Text: 'x' }
    const message = { role: 'user', content: [part], Content: 'a longer one', cache_control: { type: 'ephemeral' } }
    const { sent } = await ask({ messages: [message], stream_options: null })
    const { Text: _, ...text } = part
    const { Content: __, ...rest } = message
    expect(sent).toEqual([{ ...SENT, messages: [{ ...rest, content: [text] }] }])
  })

  test('is sent metadata with objects, except for those that choose a model', async () => {
    const labels = { team: 'a', route: 'checkout', nested: { a: [1, null] }, count: 7 }
    const { sent } = await ask({ metadata: { ...labels, tags: ['dear'], fallbacks: [{ a: ['b'] }] } })
    expect(sent).toEqual([{ ...SENT, metadata: labels }])
  })
})

describe('an upstream’s `pass`', () => {
  test('lets the named fields through, in any spelling', async () => {
    const fields = { fallbacks: ['dear'], mock_testing_fallbacks: true, apiBase: 'http://a', service_tier: 'priority' }
    const { sent } = await ask({ ...fields, model: 'acme/open', models: ['dear'] })
    expect(sent).toEqual([{ ...SENT, ...fields }])
  })

  test('allows a request there that others must not be sent', async () => {
    const { sent, status } = await ask({ model: 'acme/both', web_search_options: {} })
    expect(status).toBe(200)
    expect(sent).toEqual([{ ...SENT, web_search_options: {} }])
  })
})

const REFUSED: [string, Record<string, unknown>, param?: string][] = [
  ['a dearer tier', { service_tier: 'priority' }],
  ['the same tier by its other name', { service_tier: 'fast' }],
  ['a tier of capacity', { service_tier: 'scale' }],
  ['a dearer speed', { speed: 'fast' }],
  ['a dearer place', { inference_geo: 'us' }],
  ['a search with a fee', { web_search_options: {} }],
  ['a search of xAI', { search_parameters: { mode: 'on' } }],
  ['a search of Qwen', { enable_search: true }],
  ['an answer that is stored', { previous_response_id: 'resp_1' }],
  ['a conversation that is stored', { conversation: 'conv_1' }],
  ['a prompt that is stored', { prompt: { id: 'pmpt_1' } }],
  ['a container that is stored', { container: 'c_1' }],
  ['data that is stored', { data_sources: [{ type: 'azure_search' }] }],
  ['an answer that comes later', { background: true }],
]

describe('a request that would be billed wrongly, or use another key’s data', () => {
  test.each(REFUSED)('is rejected before anything is dispatched: %s', async (_, more) => {
    const [param = ''] = Object.keys(more)
    const { status, answer, sent } = await ask(more)
    expect({ status, sent }).toEqual({ status: 400, sent: [] })
    expect(answer.error).toEqual({
      message: expect.stringContaining(
        `Unsupported parameter: '${param}' is not supported with the model \`acme/large\`: `,
      ),
      type: 'invalid_request_error',
      code: 'unsupported_parameter',
      param,
    })
  })

  test.each([
    ['a file', { type: 'file', file: { file_id: 'file-1' } }, 'messages[0].content[1].file.file_id'],
    ['a document', { type: 'document', source: { type: 'file', file_id: 'file-1' } }, 'messages[0].content[1]'],
    ['an image', { type: 'image_url', image_url: { url: '', file_id: 'file-1' } }, 'messages[0].content[1]'],
    [
      'a picture in its account',
      { type: 'image_url', image_url: { url: 'gs://bucket/x.png' } },
      'messages[0].content[1]',
    ],
    [
      'a picture among its files',
      { type: 'image_url', image_url: { url: 'https://generativelanguage.googleapis.com/v1beta/files/abc' } },
      'messages[0].content[1]',
    ],
  ])('is also rejected as %s that the provider stores', async (_, part, param) => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'What is in it?' }, part] }]
    const { status, answer, sent } = await ask({ messages })
    expect({ status, sent, param: answer.error.param }).toEqual({ status: 400, sent: [], param })
    expect(answer.error.code).toBe('unsupported_parameter')
    expect((await ask({ messages, model: 'acme/open' })).sent).toEqual([{ ...SENT, messages }])
  })

  test.each([
    { service_tier: 'auto' },
    { service_tier: 'default' },
    { service_tier: 'flex' },
    { speed: 'standard' },
    { background: false },
    { enable_search: false },
    { store: true },
  ])("doesn't include %j", async (more) => {
    expect((await ask(more)).sent).toEqual([{ ...SENT, ...more }])
  })

  test("doesn't include a more expensive mode with a known price", async () => {
    const more = { service_tier: 'priority' }
    expect((await ask({ model: 'acme/priced', ...more })).sent).toEqual([{ ...SENT, ...more }])
    expect((await ask({ model: 'acme/priced', service_tier: 'scale' })).status).toBe(400)
    expect((await ask({ model: 'acme/priced', speed: 'priority', web_search_options: {} })).status).toBe(400)
  })

  test("doesn't include upstreams that are free or priced by time: expensive modes and fees pass, stored data doesn't", async () => {
    const more = { service_tier: 'priority', web_search_options: {} }
    expect((await ask({ model: 'acme/free', ...more })).sent).toEqual([{ ...SENT, ...more }])
    expect((await ask({ model: 'acme/timed', ...more })).sent).toEqual([{ ...SENT, ...more }])
    expect((await ask({ model: 'acme/dear', ...more })).status).toBe(400)
    expect((await ask({ model: 'acme/free', previous_response_id: 'resp_1' })).status).toBe(400)
  })

  test('includes a search as an extra field of a function', async () => {
    const tool = { type: 'function', function: { name: 'f' } }
    const { status, answer, sent } = await ask({ tools: [tool, { ...tool, googleSearch: {} }] })
    expect({ status, sent, param: answer.error.param }).toEqual({
      status: 400,
      sent: [],
      param: 'tools[1].googleSearch',
    })
  })

  test('includes a server tool of any name: only functions and custom tools are accepted', async () => {
    const { status, answer, sent } = await ask({ tools: [{ type: 'web_search_preview' }] })
    expect({ status, sent, param: answer.error.param }).toEqual({ status: 400, sent: [], param: 'tools[0].type' })
  })
})
