/** Valid requests and their validated form, and the errors of invalid ones. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ChatCompletionCreateParams } from 'openai/resources/chat/completions'
import { GatewayError } from '../../../src/domain/error.ts'
import { type CanonicalRequest, RequestSchema } from '../../../src/domain/request.ts'
import { validate } from '../../../src/formats/chat/request.ts'

const user = { role: 'user', content: 'Hi' }
const request = (more: Record<string, unknown> = {}) => ({ model: 'a/b', messages: [user], ...more })
const talk = (...messages: unknown[]) => request({ messages: [user, ...messages] })

/** Requests of the official client's types are also of our types. */
const asRequest = (sent: ChatCompletionCreateParams): CanonicalRequest => sent

const call = (id: string, name = 'f') => ({ id, type: 'function', function: { name, arguments: '{}' } })
const calling = (...ids: string[]) => ({ role: 'assistant', content: null, tool_calls: ids.map((id) => call(id)) })
const answering = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'done' })
const tool = (name: string, more: Record<string, unknown> = {}) => ({ type: 'function', function: { name, ...more } })
const custom = { type: 'custom', custom: { name: 'c' } }
const empty = { type: 'object', properties: {} }
const strict = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
const format = (schema: unknown, more: Record<string, unknown> = {}) => ({
  response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, ...more } },
})
const breakpoint = { prompt_cache_breakpoint: { mode: 'explicit' } }
const textPart = { type: 'text', text: 'Hi' }

const FIELDS: Record<string, unknown[]> = {
  max_completion_tokens: [1, 4_096],
  max_tokens: [1],
  temperature: [0, 2],
  top_p: [0, 1],
  n: [1, 128],
  stop: ['x', ['1', '2', '3', '4']],
  frequency_penalty: [-2, 2],
  presence_penalty: [-2, 2],
  logit_bias: [{}, { '50256': -100, '7': 0.5 }],
  logprobs: [true, false],
  seed: [0, -1, 2 ** 53, 9_223_372_036_854_775_000],
  stream: [true, false],
  reasoning_effort: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
  verbosity: ['low', 'medium', 'high'],
  modalities: [['text'], ['image', 'text']],
  prediction: [
    { type: 'content', content: 'x' },
    { type: 'content', content: [textPart] },
  ],
  metadata: [{}, { ['k'.repeat(64)]: 'v'.repeat(512) }, { user: { id: 7, tags: ['a'] }, seen: null }],
  store: [true],
  service_tier: ['auto', 'default', 'flex', 'scale', 'priority', 'fast'],
  safety_identifier: ['x'.repeat(64)],
  prompt_cache_key: ['k'],
  prompt_cache_retention: ['in_memory', '24h'],
  prompt_cache_options: [{}, { ttl: '30m', mode: 'explicit' }],
  user: ['ann'],
  moderation: [{ model: 'm' }, { model: 'm', policy: { input: { mode: 'score' }, output: { mode: 'block' } } }],
  web_search_options: [
    {},
    { search_context_size: 'high', user_location: { type: 'approximate', approximate: { city: 'Bern' } } },
  ],
  response_format: [{ type: 'text' }, { type: 'json_object' }],
  functions: [[{ name: 'f' }]],
  tools: [[tool('f')], [custom]],
}

/** Fields of OpenRouter, of vLLM, and an unknown one, which aren't checked. */
const EXTRAS = {
  reasoning: { effort: 'high', exclude: true },
  include_reasoning: true,
  top_k: 40,
  min_p: 0.1,
  provider: { order: ['x'] },
  models: ['a', 'b'],
  route: 'fallback',
  plugins: [{ id: 'web' }],
  cache_control: { type: 'ephemeral' },
  image_config: { aspect_ratio: '1:1' },
  chat_template_kwargs: { enable_thinking: false },
  nobody_knows: null,
}

const SHAPES: [string, unknown][] = [
  ['extra fields of other servers', request(EXTRAS)],
  [
    'extra fields in messages, parts and tools',
    talk({ ...user, cache_control: {}, content: [{ ...textPart, cache: 1 }] }),
  ],
  [
    'system and developer messages',
    talk({ role: 'system', content: 'x' }, { role: 'developer', content: [textPart], name: 'n' }),
  ],
  [
    'all parts of a user, with cache breakpoints',
    talk({
      role: 'user',
      name: 'ann',
      content: [
        { ...textPart, ...breakpoint },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==', detail: 'low' }, ...breakpoint },
        { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: null } },
        { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' }, ...breakpoint },
        { type: 'file', file: { filename: 'a.pdf', file_data: 'AA==' }, ...breakpoint },
        { type: 'file', file: { file_id: 'file-1', filename: null }, prompt_cache_breakpoint: null },
      ],
    }),
  ],
  [
    'parts of other types, for any role',
    talk(
      { role: 'system', content: [textPart, { type: 'cache_point' }] },
      { role: 'user', content: [{ type: 'video_url', video_url: { url: 'https://example.com/a.mp4', fps: null } }] },
      { role: 'assistant', content: [{ type: 'thinking', thinking: [textPart], imageUrl: null }] },
    ),
  ],
  ['an assistant of text parts', talk({ role: 'assistant', content: [textPart, textPart], name: 'bot' })],
  ['an assistant of one refusal', talk({ role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] })],
  [
    'a response sent back unchanged',
    talk({
      role: 'assistant',
      content: 'Hi',
      refusal: null,
      annotations: [],
      audio: null,
      function_call: null,
      tool_calls: null,
      reasoning: 'r',
      reasoning_content: 'r',
      reasoning_details: [{ type: 'reasoning.text', text: 'r', index: 0 }],
    }),
  ],
  ['a refusal as it was given', talk({ role: 'assistant', content: null, refusal: 'No.' })],
  ['an audio response', talk({ role: 'assistant', audio: { id: 'a', expires_at: 1, data: '', transcript: '' } })],
  ['a response with only reasoning', talk({ role: 'assistant', content: null, reasoning: 'r' })],
  ['a response with only encrypted reasoning', talk({ role: 'assistant', content: null, reasoning_details: [{}] })],
  ['a response with only an image', talk({ role: 'assistant', content: null, images: [{ type: 'image_url' }] })],
  [
    'tool calls with words, without content, and with null',
    talk(
      { ...calling('1'), content: 'w' },
      answering('1'),
      { role: 'assistant', tool_calls: [call('2')] },
      answering('2'),
      calling('3'),
      answering('3'),
    ),
  ],
  [
    'results of parallel calls in any order',
    talk(calling('1', '2', '3'), answering('3'), answering('1'), answering('2'), user),
  ],
  ['a repeated result', talk(calling('1'), answering('1'), answering('1'))],
  [
    'calls one after the other',
    talk(calling('1'), answering('1'), calling('1'), answering('1'), { role: 'assistant', content: 'x' }),
  ],
  [
    'a call of a custom tool',
    talk(
      { role: 'assistant', tool_calls: [{ id: '1', type: 'custom', custom: { name: 'c', input: 'x' } }] },
      { ...answering('1'), content: [textPart] },
    ),
  ],
  [
    'a legacy call and its result',
    talk(
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '' } },
      { role: 'function', name: 'f', content: null },
    ),
  ],
  [
    'stream options of a stream',
    request({ stream: true, stream_options: { include_usage: true, include_obfuscation: null } }),
  ],
  ['log probabilities', request({ logprobs: true, top_logprobs: 20 })],
  ['speech', request({ modalities: ['text', 'audio'], audio: { voice: { id: 'v' }, format: 'pcm16' } })],
  [
    'tools of every kind',
    request({
      tools: [
        tool('f', { description: 'd', parameters: empty, strict: null }),
        tool('g', { parameters: strict, strict: true }),
        custom,
        {
          type: 'custom',
          custom: { name: 'd', format: { type: 'grammar', grammar: { definition: 'x', syntax: 'lark' } } },
        },
      ],
      parallel_tool_calls: false,
    }),
  ],
  [
    'a tool without parameters',
    request({ tools: [tool('f'), tool('g', { parameters: {} }), tool('h', { parameters: null })] }),
  ],
  ...['none', 'auto', 'required', tool('f'), custom].map((choice): [string, unknown] => [
    `the tool choice ${JSON.stringify(choice)}`,
    request({ tools: [tool('f'), custom], tool_choice: choice }),
  ]),
  [
    'allowed tools',
    request({
      tools: [tool('f'), custom],
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [tool('f'), custom] } },
    }),
  ],
  [
    'more tools and stop texts than OpenAI takes',
    request({
      tools: Array.from({ length: 1_024 }, (_, index) => tool(`f${index}`)),
      stop: Array.from({ length: 256 }, (_, index) => `stop ${index}`),
    }),
  ],
  ['legacy functions', request({ functions: [{ name: 'f', parameters: empty }], function_call: { name: 'f' } })],
  ['a schema', request(format({ type: 'array', items: {} }))],
  ['an empty schema', request(format({}, { strict: false, description: null }))],
  ['a strict schema', request(format(strict, { strict: true }))],
]

describe('a valid request', () => {
  test.each(Object.entries(FIELDS))('may have the field %s', (name, values) => {
    for (const value of values) {
      const body = request({ [name]: value })
      expect(validate(body)).toEqual(body as CanonicalRequest)
    }
  })

  test.each(SHAPES)('may have %s', (_, body) => {
    expect(validate(structuredClone(body))).not.toBeInstanceOf(GatewayError)
  })

  test("may have every field of the official client's types", () => {
    const sent = asRequest({ model: 'a/b', messages: [{ role: 'user', content: 'Hi' }], stream: true })
    expect(validate(sent)).toEqual(sent)
  })

  test("isn't copied if nothing counts as absent", () => {
    const body = request({ stream: true, tools: [tool('f')], ...EXTRAS })
    expect(validate(body)).toBe(body as CanonicalRequest)
  })

  test('may have null for every optional field, which is then removed', () => {
    const { model: _, messages: __, ...optional } = RequestSchema.properties
    const nulls = Object.fromEntries(Object.keys(optional).map((name) => [name, null]))
    expect(validate(request({ ...nulls, nobody_knows: null }))).toEqual({
      ...request(),
      nobody_knows: null,
    } as CanonicalRequest)
  })

  test('loses empty fields of messages and tools, and fields that many upstreams refuse', () => {
    const answer = { role: 'assistant', content: 'x', refusal: null, tool_calls: [], audio: null, annotations: [] }
    const said = { ...calling('1'), function_call: null }
    const body = {
      ...talk({ ...user, name: null }, answer, said, answering('1')),
      tools: [tool('f', { strict: null, parameters: null }), custom],
    }
    const before = structuredClone(body)
    expect(validate(body)).toEqual({
      ...talk(user, { role: 'assistant', content: 'x', annotations: [] }, calling('1'), answering('1')),
      tools: [tool('f'), custom],
    } as CanonicalRequest)
    expect(body).toEqual(before)
    expect(validate(request({ tools: [] }))).toEqual(request() as CanonicalRequest)
  })

  test('loses nested nulls, too, but keeps those of a JSON Schema', () => {
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
    const schema = { type: 'object', properties: { a: { enum: ['x', null] } } }
    const named = { name: 'n', schema }
    const tidied = talk({ role: 'user', content: [image] })
    const body = {
      ...talk({ role: 'user', content: [{ ...image, image_url: { ...image.image_url, detail: null } }] }),
      response_format: { type: 'json_schema', json_schema: { ...named, description: null, strict: null } },
      prompt_cache_options: { mode: 'implicit', ttl: null },
      web_search_options: { user_location: null },
      nobody_knows: { a: null },
    }
    expect(validate(body)).toEqual({
      ...tidied,
      response_format: { type: 'json_schema', json_schema: named },
      prompt_cache_options: { mode: 'implicit' },
      web_search_options: {},
      nobody_knows: { a: null },
    } as CanonicalRequest)
  })
})

type Refused = [name: string, body: unknown, code: string | null, param: string, message: string]
const onlyWith = (param: string, needed: string) =>
  `Invalid value for '${param}': '${param}' is only allowed when '${needed}' are specified.`
const unanswered = (ids: string) =>
  `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${ids}`
const orphan =
  "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
const noContent = "Invalid value for 'content': expected a string, got null."
const pattern = "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', but got"
const tooLong = 'string too long. Expected a string with maximum length 64, but got a string with length 65 instead.'
const missing = (param: string) => `Missing required parameter: '${param}'.`
const long = 'x'.repeat(65)

const FIELDS_REFUSED: Refused[] = [
  [
    'a message without content',
    talk({ role: 'user' }),
    'missing_required_parameter',
    'messages[1].content',
    missing('messages[1].content'),
  ],
  [
    'a tool message without its id',
    talk({ role: 'tool', content: 'x' }),
    'missing_required_parameter',
    'messages[1].tool_call_id',
    missing('messages[1].tool_call_id'),
  ],
  [
    'no parts',
    talk({ role: 'user', content: [] }),
    'empty_array',
    'messages[1].content',
    "Invalid 'messages[1].content': empty array. Expected an array with minimum length 1, but got an empty array instead.",
  ],
  [
    'an image in a system message',
    talk({ role: 'system', content: [{ type: 'image_url', image_url: { url: 'x' } }] }),
    'invalid_value',
    'messages[1].content[0].type',
    "Invalid value: 'image_url'. Supported values are: 'text'.",
  ],
  [
    'a null part',
    talk({ role: 'user', content: [null] }),
    'invalid_type',
    'messages[1].content[0]',
    "Invalid type for 'messages[1].content[0]': expected an object, but got null instead.",
  ],
  [
    'arguments that are an object',
    talk({ role: 'assistant', tool_calls: [{ ...call('1'), function: { name: 'f', arguments: {} } }] }),
    'invalid_type',
    'messages[1].tool_calls[0].function.arguments',
    "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
  ],
  [
    '1,025 tool calls',
    talk(calling(...Array(1_025).fill('1'))),
    'array_above_max_length',
    'messages[1].tool_calls',
    "Invalid 'messages[1].tool_calls': array too long. Expected an array with maximum length 1024, but got an array with length 1025 instead.",
  ],
  [
    'a seed beyond 64 bits',
    request({ seed: 1e19 }),
    'integer_above_max_value',
    'seed',
    "Invalid 'seed': integer above maximum value. Expected a value <= 9223372036854776000, but got 10000000000000000000 instead.",
  ],
  [
    'half a seed',
    request({ seed: 1.5 }),
    'invalid_type',
    'seed',
    "Invalid type for 'seed': expected an integer, but got a decimal number instead.",
  ],
  [
    'a bias beyond its range',
    request({ logit_bias: { 5: 101 } }),
    'decimal_above_max_value',
    'logit_bias.5',
    "Invalid 'logit_bias.5': decimal above maximum value. Expected a value <= 100, but got 101 instead.",
  ],
  [
    'metadata that is a string',
    request({ metadata: 'a' }),
    'invalid_type',
    'metadata',
    "Invalid type for 'metadata': expected an object, but got a string instead.",
  ],
  [
    'a part that only others may say',
    talk({ role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }),
    'invalid_value',
    'messages[1].content[0].type',
    "Invalid value: 'image_url'. Supported values are: 'text' and 'refusal'.",
  ],
  [
    'a part of no type',
    talk({ role: 'user', content: [{ type: '' }] }),
    'invalid_value',
    'messages[1].content[0].type',
    "Invalid value: ''. Supported values are: 'text', 'image_url', 'input_audio', and 'file'.",
  ],
  [
    'too many fields',
    request(Object.fromEntries(Array.from({ length: 255 }, (_, n) => [`x_${n}`, n]))),
    'object_above_max_properties',
    '',
    'Invalid: too many properties. Expected an object with at most 256 properties, but got an object with 257 properties instead.',
  ],
  [
    '1,025 tools',
    request({ tools: Array(1_025).fill(tool('f')) }),
    'array_above_max_length',
    'tools',
    "Invalid 'tools': array too long. Expected an array with maximum length 1024, but got an array with length 1025 instead.",
  ],
  [
    'an unknown kind of tool',
    request({ tools: [{ type: 'browser' }] }),
    'invalid_value',
    'tools[0].type',
    "Invalid value: 'browser'. Supported values are: 'function' and 'custom'.",
  ],
  [
    'a tool without its function',
    request({ tools: [{ type: 'function' }] }),
    'missing_required_parameter',
    'tools[0].function',
    missing('tools[0].function'),
  ],
  [
    'a tool name with a space',
    request({ tools: [tool('f'), tool('a b')] }),
    'invalid_value',
    'tools[1].function.name',
    `Invalid 'tools[1].function.name': string does not match pattern. ${pattern} 'a b' instead.`,
  ],
  [
    'an empty tool name',
    request({ tools: [tool('')] }),
    'invalid_value',
    'tools[0].function.name',
    `Invalid 'tools[0].function.name': string does not match pattern. ${pattern} '' instead.`,
  ],
  [
    'a long tool name',
    request({ tools: [tool(long)] }),
    'string_above_max_length',
    'tools[0].function.name',
    `Invalid 'tools[0].function.name': ${tooLong}`,
  ],
  [
    'a custom tool name with a dot',
    request({ tools: [{ type: 'custom', custom: { name: 'a.b' } }] }),
    'invalid_value',
    'tools[0].custom.name',
    `Invalid 'tools[0].custom.name': string does not match pattern. ${pattern} 'a.b' instead.`,
  ],
  [
    'a function name with a slash',
    request({ functions: [{ name: 'a/b' }] }),
    'invalid_value',
    'functions[0].name',
    `Invalid 'functions[0].name': string does not match pattern. ${pattern} 'a/b' instead.`,
  ],
  [
    'a schema name with a space',
    request(format({}, { name: 'a b' })),
    'invalid_value',
    'response_format.json_schema.name',
    `Invalid 'response_format.json_schema.name': string does not match pattern. ${pattern} 'a b' instead.`,
  ],
  [
    'a long schema name',
    request(format({}, { name: long })),
    'string_above_max_length',
    'response_format.json_schema.name',
    `Invalid 'response_format.json_schema.name': ${tooLong}`,
  ],
  [
    'an unknown format',
    request({ response_format: { type: 'xml' } }),
    'invalid_value',
    'response_format.type',
    "Invalid value: 'xml'. Supported values are: 'text', 'json_object', and 'json_schema'.",
  ],
  [
    'a format without its schema',
    request({ response_format: { type: 'json_schema' } }),
    'missing_required_parameter',
    'response_format.json_schema',
    missing('response_format.json_schema'),
  ],
]

const ACROSS: Refused[] = [
  [
    'two caps',
    request({ max_tokens: 5, max_completion_tokens: 5 }),
    'invalid_parameter_combination',
    'max_tokens',
    "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
  ],
  [
    'stream options without a stream',
    request({ stream_options: {} }),
    null,
    'stream_options',
    "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
  ],
  [
    'likeliest tokens without logprobs',
    request({ logprobs: false, top_logprobs: 2 }),
    null,
    'top_logprobs',
    "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
  ],
  [
    'a tool choice without tools',
    request({ tool_choice: 'auto' }),
    null,
    'tool_choice',
    onlyWith('tool_choice', 'tools'),
  ],
  [
    'a tool choice with an empty list of tools',
    request({ tools: [], tool_choice: 'none' }),
    null,
    'tool_choice',
    onlyWith('tool_choice', 'tools'),
  ],
  [
    'parallel calls without tools',
    request({ parallel_tool_calls: true }),
    null,
    'parallel_tool_calls',
    onlyWith('parallel_tool_calls', 'tools'),
  ],
  [
    'the choice of a missing tool',
    request({ tools: [tool('f')], tool_choice: tool('g') }),
    null,
    'tool_choice',
    "Tool choice 'g' not found in 'tools' parameter.",
  ],
  [
    'the choice of a tool of another kind',
    request({ tools: [tool('c')], tool_choice: custom }),
    null,
    'tool_choice',
    "Tool choice 'c' not found in 'tools' parameter.",
  ],
  [
    "an allowed tool that doesn't exist",
    request({
      tools: [tool('f')],
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [tool('f'), tool('g')] } },
    }),
    null,
    'tool_choice',
    "Tool choice 'g' not found in 'tools' parameter.",
  ],
  [
    'an allowed tool without a name',
    request({
      tools: [tool('f')],
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
    }),
    'missing_required_parameter',
    'tool_choice.allowed_tools.tools[0].function.name',
    missing('tool_choice.allowed_tools.tools[0].function.name'),
  ],
  [
    'a function call without functions',
    request({ function_call: 'auto' }),
    null,
    'function_call',
    onlyWith('function_call', 'functions'),
  ],
  [
    'the call of a missing function',
    request({ functions: [{ name: 'f' }], function_call: { name: 'g' } }),
    null,
    'function_call',
    "Invalid value for 'function_call': no function named 'g' was specified in the 'functions' parameter.",
  ],
  [
    'a voice without speech',
    request({ audio: { voice: 'v', format: 'wav' } }),
    null,
    'audio',
    "Invalid value for 'audio': 'audio' is only allowed when 'modalities' includes 'audio'.",
  ],
  [
    'speech without a voice',
    request({ modalities: ['text', 'audio'] }),
    'missing_required_parameter',
    'audio',
    missing('audio'),
  ],
]

const BETWEEN: Refused[] = [
  ['an assistant without content', talk({ role: 'assistant' }), null, 'messages.[1].content', noContent],
  [
    'an assistant with null content',
    talk({ role: 'assistant', content: null, refusal: null }),
    null,
    'messages.[1].content',
    noContent,
  ],
  [
    'an assistant with null content and no calls',
    talk({ role: 'assistant', content: null, tool_calls: [] }),
    null,
    'messages.[1].content',
    noContent,
  ],
  [
    'a refusal among text',
    talk({ role: 'assistant', content: [textPart, { type: 'refusal', refusal: 'No.' }] }),
    'invalid_value',
    'messages.[1].content',
    "Invalid value for 'content': expected text parts only, or a single refusal part.",
  ],
  ['a call without a result', talk(calling('1')), null, 'messages', unanswered('1')],
  [
    'one of three calls without a result',
    talk(calling('1', '2', '3'), answering('2'), user),
    null,
    'messages',
    unanswered('1, 3'),
  ],
  ['a call with a late result', talk(calling('1'), user, answering('1')), null, 'messages', unanswered('1')],
  [
    'another turn in between',
    talk(calling('1', '2'), answering('1'), { role: 'system', content: 'x' }, answering('2')),
    null,
    'messages',
    unanswered('2'),
  ],
  ['a tool message after no call', talk(answering('1')), null, 'messages.[1].role', orphan],
  [
    'a tool message after a turn that made no call',
    talk(calling('1'), answering('1'), user, answering('1')),
    null,
    'messages.[4].role',
    orphan,
  ],
  ['a tool message first of all', request({ messages: [answering('1')] }), null, 'messages.[0].role', orphan],
  [
    'the result of another call',
    talk(calling('1'), answering('2')),
    null,
    'messages.[2].tool_call_id',
    "Invalid parameter: 'tool_call_id' of '2' not found in 'tool_calls' of previous message.",
  ],
]

const wrongFunction = (context: string, reason: string) =>
  `Invalid schema for function 'f': In context=${context}, ${reason}`
const wrongFormat = (context: string, reason: string) =>
  `Invalid schema for response_format 'answer': In context=${context}, ${reason}`
const closed = "'additionalProperties' is required to be supplied and to be false."

const SCHEMAS: Refused[] = [
  [
    'a strict schema with additional properties',
    request(format(empty, { strict: true })),
    null,
    'response_format',
    wrongFormat('()', closed),
  ],
  [
    'a strict schema with nested additional properties',
    request(format({ ...strict, properties: { a: empty } }, { strict: true })),
    null,
    'response_format',
    wrongFormat("('properties', 'a')", closed),
  ],
  [
    'a property of a quoted name',
    request(format({ ...strict, properties: { "it's": empty }, required: ["it's"] }, { strict: true })),
    null,
    'response_format',
    wrongFormat("('properties', 'it\\'s')", closed),
  ],
  [
    'an invalid schema',
    request(format({ items: { $ref: '#/nowhere' } })),
    null,
    'response_format',
    wrongFormat("('items',)", "reference to component '#/nowhere' which was not found in the schema."),
  ],
  [
    'an invalid pattern',
    request(format({ pattern: '(' })),
    null,
    'response_format',
    wrongFormat('()', "'(' is not a 'regex'."),
  ],
  [
    'no schema',
    request(format(undefined)),
    'missing_required_parameter',
    'response_format.json_schema.schema',
    missing('response_format.json_schema.schema'),
  ],
  [
    'a strict function with additional properties',
    request({ tools: [custom, tool('f', { parameters: empty, strict: true })] }),
    'invalid_function_parameters',
    'tools[1].function.parameters',
    wrongFunction('()', closed),
  ],
  [
    'a function without properties',
    request({ tools: [tool('f', { parameters: { type: 'object' } })] }),
    'invalid_function_parameters',
    'tools[0].function.parameters',
    wrongFunction('()', 'object schema missing properties.'),
  ],
  [
    'a function of a list',
    request({ tools: [tool('f', { parameters: { type: 'array', items: {} } })] }),
    'invalid_function_parameters',
    'tools[0].function.parameters',
    wrongFunction('()', `schema must be a JSON Schema of 'type: "object"', got 'type: "array"'.`),
  ],
  [
    'a legacy function with an invalid schema',
    request({ functions: [{ name: 'f', parameters: { properties: 7 } }] }),
    'invalid_function_parameters',
    'functions[0].parameters',
    wrongFunction('()', "'properties' is required to be an object."),
  ],
]

describe('a request is refused, with the name of the field, for', () => {
  test.each([...FIELDS_REFUSED, ...ACROSS, ...BETWEEN, ...SCHEMAS])('%s', (_, body, code, param, message) => {
    const error = validate(JSON.parse(JSON.stringify(body)))
    if (!(error instanceof GatewayError)) throw new Error('was valid')
    expect(error.toBody().error).toEqual({ type: 'invalid_request_error', code, param, message })
    expect(error.status).toBe(400)
  })
})

describe('any request body', () => {
  const isRefusal = (body: unknown) => {
    const decision = validate(body)
    if (!(decision instanceof GatewayError)) return
    expect(decision).toMatchObject({ status: 400, type: 'invalid_request_error' })
    expect(decision.message.length).toBeLessThan(3_000)
    expect(decision.message.isWellFormed()).toBe(true)
  }

  test('is valid, or refused with 400 and a message of limited length', () => {
    fc.assert(fc.property(fc.jsonValue(), isRefusal), { numRuns: 300 })
    const fields = fc.dictionary(fc.constantFrom(...Object.keys(RequestSchema.properties)), fc.jsonValue())
    fc.assert(
      fc.property(fields, (more) => isRefusal(request(more as Record<string, unknown>))),
      { numRuns: 300 },
    )
    const schema = fc.dictionary(fc.constantFrom('type', 'properties', 'anyOf', '$ref', 'items'), fc.jsonValue())
    fc.assert(
      fc.property(schema, (given) => isRefusal(request(format(given)))),
      { numRuns: 300 },
    )
  })

  test('is truncated in messages', () => {
    const huge = '😀'.repeat(100_000)
    const properties = { [huge]: { properties: { [huge]: { type: huge } } } }
    isRefusal(request({ tools: [tool('f', { parameters: { type: 'object', properties } })] }))
    isRefusal(talk(calling(...Array.from({ length: 128 }, (_, index) => `${index}${huge}`))))
    isRefusal(talk(calling('1'), answering(huge)))
    isRefusal(request({ tools: [tool('f')], tool_choice: tool(huge) }))
    isRefusal(request(format({ $ref: huge })))
    isRefusal(request(format({ pattern: `(${huge.slice(0, 50_000)}` })))
  })

  test('is read in one pass, regardless of the number of messages', () => {
    const messages = Array.from({ length: 50_000 }, (_, index) => [calling(`c${index}`), answering(`c${index}`)]).flat()
    expect(validate(talk(...messages))).not.toBeInstanceOf(GatewayError)
  })
})
