/**
 * Provider presets: the request each sends for one rich request and for each effort, strict providers, and a provider
 * from YAML only.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { allPresets } from '../../src/store/presets.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { findUnknown, STRICT } from '../support/strict-openai.ts'
import { startTokenEndpoint } from '../support/token-endpoint.ts'
import { obliging, type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

const KEY = 'the-key-of-a-provider-0123456789'
const FACTS =
  'name: M, context_length: 100000, max_output_length: 10000, input_modalities: [text], output_modalities: [text], supported_features: [tools, reasoning], pricing: [{ prompt: "0.000001", completion: "0.000002" }]'

const TOOLS = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
const CALLS = [{ id: 'call00001', type: 'function', function: { name: 'weather', arguments: '{}' } }]
const DETAILS = [{ type: 'reasoning.text', text: 'Hm', index: 0 }]
const RESULT = { role: 'tool', content: 'Sunny', tool_call_id: 'call00001' }

const RICH = {
  messages: [
    { role: 'developer', content: 'Be brief.' },
    { role: 'user', content: 'Weather in Rome?', name: 'ann' },
    {
      ...{
        role: 'assistant',
        content: 'Looking.',
        reasoning: 'Hm',
        reasoning_content: 'Hm',
        reasoning_details: DETAILS,
      },
      ...{ annotations: [], tool_calls: CALLS },
    },
    RESULT,
  ],
  tools: TOOLS,
  reasoning_effort: 'high',
  max_completion_tokens: 500,
  seed: 7,
  user: 'ann',
  store: false,
  metadata: { job: 'x' },
  prompt_cache_key: 'p',
  logit_bias: { '50256': -100 },
  frequency_penalty: 0.5,
  stream: true,
  stream_options: { include_usage: true, include_obfuscation: false },
}

interface Sent {
  /** Fields of the assistant's message beyond content and calls. */
  thoughts: object
  instructions?: 'developer'
  names?: false
  path?: string
  auth?: object
  fields: object
}

const HINTS = { store: false, metadata: { job: 'x' }, prompt_cache_key: 'p' }
const BIAS = { logit_bias: { '50256': -100 } }
const PENALTY = { frequency_penalty: 0.5 }
const USAGE = { stream_options: { include_usage: true, include_obfuscation: false } }
const PLAIN_USAGE = { stream_options: { include_usage: true } }
const EFFORT = { reasoning_effort: 'high' }
const MAX = { max_tokens: 500 }
const MAX_COMPLETION = { max_completion_tokens: 500 }
const [SEED, USER] = [{ seed: 7 }, { user: 'ann' }]
const ALL = { ...HINTS, ...BIAS, ...PENALTY, ...USAGE, ...SEED, ...USER }
const CONTENT = { reasoning_content: 'Hm' }
const EVERY_THOUGHT = { reasoning: 'Hm', ...CONTENT, reasoning_details: DETAILS, annotations: [] }
const without = (fields: object, ...names: string[]) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
const THINKING = { thinking: { type: 'enabled' } }

const SENT: Record<string, Sent> = {
  openai: { thoughts: {}, instructions: 'developer', fields: { ...ALL, ...EFFORT, ...MAX_COMPLETION } },
  azure: {
    ...{ thoughts: {}, instructions: 'developer', auth: { 'api-key': KEY } },
    fields: { ...ALL, ...EFFORT, ...MAX_COMPLETION },
  },
  'azure-deployments': {
    ...{ thoughts: {}, instructions: 'developer', auth: { 'api-key': KEY } },
    path: '/deployments/its%2Fmodel/chat/completions?api-version=2024-10-21',
    fields: { ...ALL, ...EFFORT, ...MAX_COMPLETION },
  },
  bedrock: {
    ...{ thoughts: { reasoning: 'Hm', ...CONTENT }, instructions: 'developer' },
    fields: { ...ALL, ...EFFORT, ...MAX_COMPLETION },
  },
  vertex: { thoughts: {}, fields: { ...ALL, ...EFFORT, ...MAX } },
  openrouter: {
    ...{ thoughts: EVERY_THOUGHT, instructions: 'developer' },
    fields: { ...ALL, ...EFFORT, ...MAX_COMPLETION },
  },
  mistral: {
    ...{ thoughts: {}, names: false },
    fields: { metadata: { job: 'x' }, ...PENALTY, random_seed: 7, ...EFFORT, ...MAX },
  },
  groq: {
    ...{ thoughts: { reasoning: 'Hm' }, names: false },
    fields: { ...PENALTY, ...SEED, ...USER, ...PLAIN_USAGE, ...EFFORT, ...MAX_COMPLETION },
  },
  deepseek: { thoughts: CONTENT, fields: { ...without(ALL, 'seed'), ...EFFORT, ...MAX } },
  xai: { thoughts: without(EVERY_THOUGHT, 'annotations'), fields: { ...ALL, ...EFFORT, ...MAX_COMPLETION } },
  together: { thoughts: EVERY_THOUGHT, fields: { ...ALL, ...EFFORT, ...MAX } },
  fireworks: { thoughts: CONTENT, fields: { ...ALL, ...EFFORT, ...MAX } },
  cerebras: {
    thoughts: { reasoning: 'Hm' },
    fields: { ...SEED, ...USER, ...PLAIN_USAGE, ...EFFORT, ...MAX_COMPLETION },
  },
  perplexity: {
    ...{ thoughts: {}, names: false },
    fields: { ...HINTS, ...PENALTY, ...USAGE, ...EFFORT, ...MAX },
  },
  moonshot: { thoughts: CONTENT, fields: { ...without(ALL, 'seed'), ...THINKING, ...MAX_COMPLETION } },
  zai: {
    ...{ thoughts: CONTENT, names: false },
    fields: { ...without(ALL, 'user', 'frequency_penalty'), ...THINKING, ...MAX },
  },
  qwen: {
    thoughts: CONTENT,
    fields: {
      ...without(ALL, 'user', 'frequency_penalty'),
      ...{ enable_thinking: true, thinking_budget: 24_576 },
      ...MAX,
    },
  },
  cohere: { thoughts: {}, fields: { ...PENALTY, ...SEED, ...PLAIN_USAGE, ...EFFORT, ...MAX } },
  nvidia: {
    thoughts: EVERY_THOUGHT,
    fields: { ...ALL, chat_template_kwargs: { thinking: true, enable_thinking: true }, ...MAX },
  },
  huggingface: { thoughts: EVERY_THOUGHT, fields: { ...ALL, ...EFFORT, ...MAX } },
}

/** Client extensions of OpenAI's format, one at a time. */
const MARK = { cache_control: { type: 'ephemeral' } }
const PICTURE = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
const EXTRA = { extra_content: { google: { thought_signature: 'AA==' } } }
const answered = (fields: object, call: object = {}, result: object = {}) => ({
  messages: [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Looking.', tool_calls: [{ ...CALLS[0], ...call }], ...fields },
    { ...RESULT, ...result },
  ],
})
const asked = (part: object) => ({ messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi', ...part }] }] })
const HELLO = { messages: [{ role: 'user', content: 'Hi' }] }
const BEYOND: Record<string, object> = {
  top_k: { ...HELLO, top_k: 5 },
  safety_settings: { ...HELLO, safety_settings: [{ category: 'C', threshold: 'BLOCK_NONE' }] },
  thinking: { ...HELLO, thinking: { type: 'enabled', budget_tokens: 2_000 } },
  reasoning: { ...HELLO, reasoning: { effort: 'low', exclude: true } },
  'a cache mark': { ...HELLO, ...MARK },
  'a cache mark of a message': { messages: [{ role: 'user', content: 'Hi', ...MARK }] },
  'a cache mark of a part': asked(MARK),
  'a cache mark of a tool': { ...HELLO, tools: [{ ...TOOLS[0], ...MARK }] },
  'a cache mark of a function': { ...HELLO, tools: [{ type: 'function', function: { name: 'f', ...MARK } }] },
  'a break of the cache': asked({ prompt_cache_breakpoint: { mode: 'explicit' } }),
  'a thought': answered({ reasoning: 'Hm' }),
  'a thought by its other name': answered({ reasoning_content: 'Hm' }),
  'details of a thought': answered({ reasoning_details: DETAILS }),
  annotations: answered({ annotations: [] }),
  pictures: answered({ images: [{ ...PICTURE, ...EXTRA }] }),
  'a signature of a call': answered({}, EXTRA),
  'a result that is an error': answered({}, {}, { is_error: true }),
}
const KNOWN: Record<string, string[]> = {
  ...{ openai: ['a break of the cache'], azure: ['a break of the cache'] },
  'azure-deployments': ['a break of the cache'],
  ...{ groq: ['a thought'], cerebras: ['a thought'] },
}

/** Effort names that differ from the client's, from none to max. */
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
const of = (...words: (string | object)[]) =>
  words.map((word) => (typeof word === 'string' ? { reasoning_effort: word } : word))
const AS_THEY_ARE = of(...EFFORTS)
const THREE = of('none', 'low', 'low', 'medium', 'high', 'high', 'high')
const ONE = of('none', 'high', 'high', 'high', 'high', 'high', 'high')
const SWITCH = [{ thinking: { type: 'disabled' } }, ...Array(6).fill(THINKING)]
const template = (on: boolean) => ({ chat_template_kwargs: { thinking: on, enable_thinking: on } })
const budget = (tokens: number) => ({ enable_thinking: true, thinking_budget: tokens })
const ON_AND_OFF = [{ enable_thinking: true }, { enable_thinking: false }] as const

const EFFORTS_SENT: Record<string, object[]> = {
  ...{ openai: AS_THEY_ARE, azure: AS_THEY_ARE, 'azure-deployments': AS_THEY_ARE, bedrock: AS_THEY_ARE },
  ...{ openrouter: AS_THEY_ARE, huggingface: AS_THEY_ARE },
  ...{ vertex: THREE, groq: THREE, fireworks: THREE, cerebras: THREE },
  ...{ mistral: ONE, cohere: ONE, moonshot: SWITCH, zai: SWITCH },
  deepseek: [{ thinking: { type: 'disabled' } }, ...AS_THEY_ARE.slice(1)],
  xai: of('none', 'low', 'low', 'medium', 'high', 'xhigh', 'xhigh'),
  together: [{ reasoning: { enabled: false } }, ...THREE.slice(1)],
  perplexity: [{}, ...THREE.slice(1)],
  qwen: [ON_AND_OFF[1], budget(512), budget(1_024), budget(8_192), budget(24_576), ON_AND_OFF[0], ON_AND_OFF[0]],
  nvidia: [template(false), ...Array(6).fill(template(true))],
}

const NAMES = Object.keys(SENT)

/** The path's first part names the preset. */
const presetOf = ({ path }: { path: string }) => path.split('/')[2] ?? ''

const refusing: Script = (seen) => {
  const rules = STRICT[presetOf(seen)]
  const problem = rules ? findUnknown(seen.json, rules) : null
  if (problem !== null) return { kind: 'whole', status: 400, body: { error: { message: problem } } }
  return typeof obliging === 'function' ? obliging(seen) : obliging
}

describe("a preset's requests", () => {
  let app: TestApp
  let upstream: ScriptedUpstream
  let key: string
  beforeAll(async () => {
    upstream = await startUpstream(refusing)
    const upstreams = NAMES.map(
      (name) => `  ${name}: { preset: ${name}, base_url: "${upstream.url}/${name}", api_key: \${KEY} }`,
    )
    const models = NAMES.map((name) => `  its/${name}: { ${FACTS}, routes: [{ upstream: ${name}, model: its/model }] }`)
    const catalog = `version: 1\nupstreams:\n${upstreams.join('\n')}\nmodels:\n${models.join('\n')}\n`
    app = await startApp({ catalog, environment: { KEY } })
    key = app.key()
  })
  afterAll(async () => {
    await upstream.stop()
    await app.stop()
  })

  const post = async (name: string, body: object) => {
    const response = await fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: `its/${name}`, ...body }),
    })
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
    const seen = upstream.requests.at(-1)
    if (seen === undefined || presetOf(seen) !== name) throw new Error(`nothing was asked of ${name}`)
    return seen
  }

  const WITHOUT_CHATS = new Set(['cohere-rerank', 'jina', 'voyage'])

  test('cover every preset of the OpenAI format', () => {
    const names = Object.entries(allPresets()).flatMap(([name, { dialect, local }]) =>
      dialect === 'openai' && !local && !WITHOUT_CHATS.has(name) ? name : [],
    )
    expect(names.toSorted()).toEqual(NAMES.toSorted())
    expect(Object.keys(EFFORTS_SENT).toSorted()).toEqual(NAMES.toSorted())
  })

  test.each(Object.entries(SENT))('%s: a rich request', async (name, sent) => {
    const { thoughts, instructions = 'system', names = true, path = '/chat/completions', auth, fields } = sent
    const seen = await post(name, RICH)
    expect(seen.path).toBe(`/v1/${name}${path}`)
    const { authorization, 'api-key': apiKey } = seen.headers
    expect({ authorization, 'api-key': apiKey }).toEqual({
      ...{ authorization: undefined, 'api-key': undefined },
      ...(auth ?? { authorization: `Bearer ${KEY}` }),
    })
    expect(seen.json).toEqual({
      model: 'its/model',
      messages: [
        { role: instructions, content: 'Be brief.' },
        { role: 'user', content: 'Weather in Rome?', ...(names ? { name: 'ann' } : {}) },
        { role: 'assistant', content: 'Looking.', tool_calls: CALLS, ...thoughts },
        RESULT,
      ],
      tools: TOOLS,
      stream: true,
      ...fields,
    })
  })

  test.each(Object.entries(EFFORTS_SENT))('%s: every effort', async (name, words) => {
    const hello = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }
    const [cap] = Object.keys(without((await post(name, hello)).json ?? {}, 'model', 'messages'))
    for (const [at, effort] of EFFORTS.entries()) {
      const expected = { model: 'its/model', messages: hello.messages, [String(cap)]: 9, ...words[at] }
      expect((await post(name, { ...hello, reasoning_effort: effort })).json).toEqual(expected)
    }
  })

  test.each(Object.entries(STRICT))('%s would reject the unchanged rich request', (_, rules) => {
    expect(findUnknown({ model: 'm', ...RICH }, rules)).toMatch(/unsupported|unknown/)
  })

  const HAVE_THINKING = ['deepseek', 'moonshot', 'zai']
  const AS_IT_CAME = ['openrouter', 'huggingface']
  test.each(NAMES.filter((name) => !AS_IT_CAME.includes(name)))('%s: an effort in another format', async (name) => {
    const hello = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }
    const { json } = await post(name, { ...hello, reasoning_effort: 'low' })
    const others: object[] = [{ reasoning: { effort: 'low' } }, { reasoning: { max_tokens: 1_000 } }]
    if (!HAVE_THINKING.includes(name)) others.push({ thinking: { type: 'enabled', budget_tokens: 1_024 } })
    for (const words of others) expect((await post(name, { ...hello, ...words })).json).toEqual(json)
  })

  test.each(Object.entries(STRICT))("%s isn't sent fields that it would reject", async (name, rules) => {
    for (const [what, body] of Object.entries(BEYOND)) {
      const isRefused = findUnknown({ model: 'm', ...body }, rules) !== null
      expect([what, isRefused]).toEqual([what, !KNOWN[name]?.includes(what)])
      await post(name, body)
    }
  })

  test.each([
    ['perplexity', { seed: 1, stop: ['x'], top_k: 5 }],
    ['deepseek', { seed: 1, top_k: 5 }],
    ['moonshot', { seed: 1, top_k: 5 }],
    ['xai', { top_k: 5 }],
  ])("%s isn't sent unknown fields: %j", async (name, fields) => {
    const { json } = await post(name, HELLO)
    expect((await post(name, { ...HELLO, ...fields })).json).toEqual(json)
  })

  const tool = (name: string) => ({ type: 'function', function: { name } })
  const only = (mode: string) => ({ type: 'allowed_tools', allowed_tools: { mode, tools: [tool('b'), tool('c')] } })
  const ALL_TOOLS = ['a', 'b', 'c']
  test.each<[choice: unknown, tools: string[], words: string | null]>([
    ['auto', ALL_TOOLS, null],
    ['none', [], null],
    ['required', ALL_TOOLS, 'You must call one of the tools.'],
    [tool('b'), ['b'], 'You must call the tool b.'],
    [only('auto'), ['b', 'c'], null],
    [only('required'), ['b', 'c'], 'You must call one of the tools.'],
  ])('zai, which accepts no tool choice, is sent for %j the tools %j', async (choice, names, words) => {
    const { json } = await post('zai', { ...HELLO, tools: ALL_TOOLS.map(tool), tool_choice: choice })
    expect(json).toEqual({
      model: 'its/model',
      messages: [...(words === null ? [] : [{ role: 'system', content: words }]), ...HELLO.messages],
      ...(names.length > 0 ? { tools: names.map(tool) } : {}),
    })
  })

  test("accept a client's fields in the provider's or OpenRouter's format", async () => {
    const hello = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }
    const own = await post('zai', { ...hello, reasoning_effort: 'high', thinking: { type: 'disabled' } })
    expect(own.json).toMatchObject({ thinking: { type: 'disabled' } })
    const theirs = await post('qwen', { ...hello, reasoning: { effort: 'low' } })
    expect(theirs.json).toEqual({ model: 'its/model', ...hello, ...budget(1_024) })
    const off = await post('deepseek', { ...hello, reasoning: { enabled: false } })
    expect(off.json).toEqual({ model: 'its/model', ...hello, thinking: { type: 'disabled' } })
  })
})

describe('a provider configured in YAML only', () => {
  test('needs no preset, only settings', async () => {
    const upstream = await startUpstream()
    const catalog = `
version: 1
upstreams:
  house:
    dialect: openai
    base_url: "${upstream.url}"
    api_key: \${KEY}
    auth: authorization Token
    headers: { X-Team: research, User-Agent: ours }
    path: "/chats/{model}"
    query: { version: "2", by: a b }
    drop: [seed, messages.name]
    rename: { stop: stop_words }
    extra_body: { safe: true, cache: { ttl: 5 } }
    effort_fields: { low: { think: 1 } }
    developer_role: system
    stream_options: false
models:
  house/m: { ${FACTS}, routes: [{ upstream: house, model: "big one" }] }
`
    const app = await startApp({ catalog, environment: { KEY } })
    const body = {
      ...{ model: 'house/m', seed: 1, stop: ['x'], safe: false, reasoning_effort: 'low', max_tokens: 9, stream: true },
      messages: [
        { role: 'developer', content: 'A' },
        { role: 'user', content: 'B', name: 'ann' },
      ],
    }
    const response = await fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('tok0')])
    const [seen] = upstream.requests
    expect(seen?.path).toBe('/v1/chats/big%20one?version=2&by=a+b')
    expect(seen?.headers).toMatchObject({ authorization: `Token ${KEY}`, 'x-team': 'research', 'user-agent': 'ours' })
    expect(seen?.json).toEqual({
      ...{ model: 'big one', stop_words: ['x'], safe: true, cache: { ttl: 5 }, think: 1, max_tokens: 9, stream: true },
      messages: [
        { role: 'system', content: 'A' },
        { role: 'user', content: 'B' },
      ],
    })
    expect(await app.stop()).toBe(true)
    await upstream.stop()
  })

  test('may have headers for every format', async () => {
    const upstream = await startUpstream({ kind: 'whole', status: 400, body: {} })
    const entries = ['openai', 'anthropic', 'gemini'].map(
      (dialect) => `  ${dialect}: { dialect: ${dialect}, base_url: "${upstream.url}", headers: { X-Team: research } }`,
    )
    const models = ['openai', 'anthropic', 'gemini'].map(
      (dialect) => `  its/${dialect}: { ${FACTS}, routes: [{ upstream: ${dialect}, model: m }] }`,
    )
    const catalog = `version: 1\nupstreams:\n${entries.join('\n')}\nmodels:\n${models.join('\n')}\n`
    const app = await startApp({ catalog })
    const authorization = `Bearer ${app.key()}`
    for (const dialect of ['openai', 'anthropic', 'gemini']) {
      const response = await fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ model: `its/${dialect}`, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }),
      })
      await response.text()
      expect([dialect, upstream.requests.at(-1)?.headers['x-team']]).toEqual([dialect, 'research'])
    }
    expect(upstream.requests).toHaveLength(3)
    await app.stop()
    await upstream.stop()
  })

  test("may be Vertex's OpenAI API, which gets a service account's token and never its key file", async () => {
    const endpoint = await startTokenEndpoint(() => app.clock.nowMs)
    const upstream = await startUpstream()
    const catalog = `version: 1
upstreams: { vertex: { preset: vertex, base_url: "${upstream.url}", api_key: \${ACCOUNT} } }
models: { its/m: { ${FACTS}, routes: [{ upstream: vertex, model: google/gemini }] } }
`
    const app = await startApp({ catalog, environment: { ACCOUNT: endpoint.account.json } })
    for (let asked = 0; asked < 2; asked++) {
      const response = await fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'its/m', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }),
      })
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('tok0')])
    }
    expect(endpoint.claims).toHaveLength(1)
    for (const { headers } of upstream.requests) expect(headers.authorization).toBe('Bearer token-number-1')
    await app.stop()
    await upstream.stop()
    await endpoint.stop()
  })

  test('may override each setting of its preset', async () => {
    const upstream = await startUpstream()
    const catalog = `
version: 1
upstreams:
  mine: { preset: groq, base_url: "${upstream.url}", api_key: \${KEY}, drop: [seed], max_tokens_field: max_tokens, effort_fields: {} }
models:
  mine/m: { ${FACTS}, routes: [{ upstream: mine, model: m }] }
`
    const app = await startApp({ catalog, environment: { KEY } })
    const messages = [{ role: 'developer', content: 'Hi', name: 'ann' }]
    const response = await fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'mine/m',
        messages,
        max_tokens: 9,
        seed: 1,
        reasoning_effort: 'max',
        logprobs: true,
      }),
    })
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
    expect(upstream.requests[0]?.json).toEqual({
      ...{ model: 'm', max_tokens: 9, reasoning_effort: 'max', logprobs: true },
      messages: [{ role: 'system', content: 'Hi', name: 'ann' }],
    })
    await app.stop()
    await upstream.stop()
  })
})
