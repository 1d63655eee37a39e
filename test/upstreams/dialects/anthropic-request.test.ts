/** What Anthropic's API is sent for a chat request: everything in it is taken by the rules of the real service. */
import { describe, expect, test } from 'bun:test'
import type { ContentBlockParam, MessageCreateParamsBase } from '@anthropic-ai/sdk/resources/messages/messages'
import fc from 'fast-check'
import type { CanonicalRequest } from '../../../src/domain/request.ts'
import { OWN_FORMAT_OPTIONS, type RouteSettings, type UpstreamOptions } from '../../../src/domain/settings.ts'
import type { Target } from '../../../src/domain/snapshot.ts'
import { validate } from '../../../src/formats/chat/validate.ts'
import { anthropic } from '../../../src/upstreams/dialects/anthropic/anthropic.ts'
import { toBody } from '../../../src/upstreams/dialects/anthropic/request.ts'
import type { Block, WireBody } from '../../../src/upstreams/dialects/anthropic/wire.ts'
import { anyRequest } from '../../gateway/any-request.ts'
import { toSignature } from '../../support/anthropic-answers.ts'
import { ABLE, findRefusal } from '../../support/anthropic-rules.ts'
import { toTarget } from '../../support/snapshot.ts'

const on = (options: Partial<UpstreamOptions> = {}, route: RouteSettings = {}): Target => ({
  ...toTarget({ dialect: 'anthropic', credential: 'k', options: { ...OWN_FORMAT_OPTIONS, ...options } }),
  upstreamModel: 'claude',
  features: ['tools', 'structured_outputs', 'reasoning'],
  maxOutputLength: 64_000,
  options: route,
})

type Fields = Record<string, unknown>

/** What is sent is what the types of Anthropic's own SDK allow. */
type Parts = 'tools' | 'tool_choice' | 'thinking' | 'system' | 'service_tier' | 'metadata' | 'cache_control'
export const asTyped: (sent: Pick<WireBody, Parts>) => Pick<MessageCreateParamsBase, Parts> = (sent) => sent
export const asTypedBlock: (block: Block) => ContentBlockParam = (block) => block

/** The body for a request that the chat format takes. */
function send(fields: Fields, target = on()): WireBody {
  const body = validate({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...fields })
  if (body instanceof Error) throw body
  const sent: WireBody = JSON.parse(JSON.stringify(toBody(body, target)))
  const { thinking = ABLE.thinking, efforts = ABLE.efforts } = target.options
  expect(findRefusal(sent, { ...ABLE, thinking, efforts }, '2023-06-01')).toBeNull()
  return sent
}

const said = (...messages: object[]) => {
  const { system, messages: turns } = send({ messages })
  return [...(system ? [{ system }] : []), ...turns.map(({ role, content }) => ({ [role]: content }))]
}
const text = (words: string, more: object = {}) => ({ type: 'text' as const, text: words, ...more })
const call = (id: string, name: string, args: string) => ({ id, type: 'function', function: { name, arguments: args } })

describe('a conversation', () => {
  test('begins with its instructions, each a block', () => {
    expect(
      said(
        { role: 'system', content: 'One.' },
        { role: 'developer', content: [text('Two.'), text(' ')] },
        { role: 'user', content: 'Hi' },
      ),
    ).toEqual([{ system: [text('One.'), text('Two.')] }, { user: [text('Hi')] }])
  })

  test('has later instructions in the words of the user, or in turns of their own where its upstream takes them', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'system', content: 'Be brief.' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'Go on' },
    ]
    expect(said(...messages)).toEqual([
      { user: [text('Hi'), text('<system>\nBe brief.\n</system>')] },
      { assistant: [text('Hello')] },
      { user: [text('Go on')] },
    ])
    const sent = send({ messages }, on({ betas: ['mid-conversation-system-2026-04-07'] }))
    expect(sent.messages.map(({ role }) => role)).toEqual(['user', 'system', 'assistant', 'user'])
  })

  test('says nothing blank, and begins with a user whatever it is', () => {
    expect(said({ role: 'system', content: 'Only this' })).toEqual([
      { system: [text('Only this')] },
      { user: [text('.')] },
    ])
    expect(said({ role: 'user', content: '' })).toEqual([{ user: [text('.')] }])
    expect(said({ role: 'assistant', content: 'Once ' })).toEqual([
      { user: [text('.')] },
      { assistant: [text('Once')] },
    ])
  })

  test('has all results of a turn first in the next, in one user turn, with whatever the user says behind them', () => {
    expect(
      said(
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'So:', tool_calls: [call('a', 'f', '{"x":1}'), call('b', 'g', '')] },
        { role: 'tool', tool_call_id: 'b', content: [text('two')] },
        { role: 'tool', tool_call_id: 'a', content: '' },
        { role: 'user', content: 'Well?' },
      ).slice(1),
    ).toEqual([
      {
        assistant: [
          text('So:'),
          { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } },
          { type: 'tool_use', id: 'b', name: 'g', input: {} },
        ],
      },
      {
        user: [
          { type: 'tool_result', tool_use_id: 'b', content: [text('two')] },
          { type: 'tool_result', tool_use_id: 'a' },
          text('Well?'),
        ],
      },
    ])
  })

  test('has ids of another vendor in its own alphabet, in call and result alike, no two of them the same', () => {
    const ids = ['call:1', 'call.1', 'functions.f:0', 'ok-1_A']
    const [, answer, results] = send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls: ids.map((id) => call(id, 'f', '[1]')) },
        ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'x' })),
      ],
    }).messages
    const used = answer?.content.flatMap((block) => (block.type === 'tool_use' ? block.id : [])) ?? []
    expect(new Set(used).size).toBe(4)
    expect(used.at(-1)).toBe('ok-1_A')
    expect(results?.content.flatMap((block) => (block.type === 'tool_result' ? block.tool_use_id : []))).toEqual(used)
    // Arguments that are no object.
    expect(answer?.content[0]).toMatchObject({ input: { rawInvalidInput: '[1]' } })
  })

  test('has legacy functions as tools, and custom tools as functions of one text', () => {
    const sent = send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'x' },
      ],
      functions: [{ name: 'f' }],
      function_call: { name: 'f' },
    })
    expect(sent).toMatchObject({
      tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
      messages: [{}, { content: [{ id: 'function_1' }] }, { content: [{ tool_use_id: 'function_1' }] }],
    })
    const grammar = { definition: 'a+', syntax: 'regex' }
    const custom = { name: 'note', description: 'Notes.', format: { type: 'grammar', grammar } }
    expect(send({ tools: [{ type: 'custom', custom }] }).tools).toEqual([
      {
        name: 'note',
        description: 'Notes.\n\nThe input must match this regex grammar:\na+',
        input_schema: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
      },
    ])
  })

  test('has images and documents', () => {
    const file = (file_data: string, filename?: string) => ({ type: 'file', file: { file_data, filename } })
    const image = (url: string) => ({ type: 'image_url', image_url: { url } })
    const content = [
      image('data:image/jpg;base64,AAAA'),
      image('https://h/x.png'),
      file('data:application/pdf;base64,JVBE', 'a.pdf'),
      file('data:text/plain;charset=utf-8;base64,SGVsbG8=', 'a.txt'),
      file('JVBE'),
    ]
    const [turn] = send({ messages: [{ role: 'user', content }] }).messages
    expect(turn?.content).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' } },
      { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
      {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
        title: 'a.pdf',
      },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Hello' }, title: 'a.txt' },
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' } },
    ])
  })

  const impossible: [string, Fields, string][] = [
    ['audio', { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }, 'messages[0].content[0]'],
    [
      'a picture of another kind',
      { type: 'image_url', image_url: { url: 'data:image/bmp;base64,AA' } },
      'image_url.url',
    ],
    ['a picture of no address', { type: 'image_url', image_url: { url: 'x.png' } }, 'image_url.url'],
    ['a film', { type: 'video_url', video_url: { url: 'https://h' } }, 'messages[0].content[0]'],
    ['a file of nothing', { type: 'file', file: {} }, 'messages[0].content[0].file'],
    ['a spreadsheet', { type: 'file', file: { file_data: 'data:application/x;base64,AA' } }, 'file.file_data'],
  ]
  test.each(impossible)('cannot hold %s: the client is told where', (_, part, param) => {
    const ask = () => send({ messages: [{ role: 'user', content: [part] }] })
    expect(ask).toThrow(expect.objectContaining({ status: 400, code: 'unsupported_value' }))
    expect(ask).toThrow(expect.objectContaining({ param: expect.stringContaining(param) }))
  })

  test('has no probabilities and no sound', () => {
    expect(() => send({ logprobs: true })).toThrow(expect.objectContaining({ param: 'logprobs', status: 400 }))
    const audio = { voice: 'a', format: 'wav' }
    expect(() => send({ modalities: ['text', 'audio'], audio })).toThrow(
      expect.objectContaining({ param: 'modalities' }),
    )
  })
})

describe('what was thought', () => {
  const thought = 'Both.'
  const own = {
    type: 'reasoning.text',
    text: thought,
    signature: toSignature(thought),
    format: 'anthropic-claude-v1',
    index: 0,
  }
  const replay = (reasoning_details: unknown[]) =>
    send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'So', reasoning_details },
        { role: 'user', content: 'And?' },
      ],
    }).messages[1]?.content
  const thinking = { type: 'thinking' as const, thinking: thought, signature: toSignature(thought) }

  test('comes back as it was, whole or in the pieces of a stream', () => {
    expect(replay([own])).toEqual([thinking, text('So')])
    expect(replay([{ ...own, signer: 'paid' }])).toEqual([thinking, text('So')])
    expect(
      replay([
        { ...own, text: 'Bo', signature: undefined },
        { type: 'reasoning.text', text: 'th.', index: 0 },
        { type: 'reasoning.text', signature: own.signature, index: 0 },
        { type: 'reasoning.encrypted', data: 'AAAA', format: 'anthropic-claude-v1', index: 1 },
      ]),
    ).toEqual([thinking, { type: 'redacted_thinking', data: 'AAAA' }, text('So')])
  })

  test('by another vendor or upstream, or without its signature, stays behind', () => {
    expect(
      replay([
        { ...own, format: 'google-gemini-v1' },
        { ...own, format: null },
        { ...own, signer: 'another' },
        { ...own, signature: '' },
        { type: 'reasoning.encrypted', data: 'AAAA', format: 'openai-responses-v1' },
        'nothing',
        null,
      ]),
    ).toEqual([text('So')])
  })
})

describe('thinking', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const adaptive = (effort?: string) => ({
    thinking: { type: 'adaptive', display: 'summarized' },
    ...(effort ? { output_config: { effort } } : {}),
  })
  const off = { thinking: { type: 'disabled' } }
  const budget = (tokens: number) => ({ thinking: { type: 'enabled', budget_tokens: tokens } })

  const rows: [string, RouteSettings, Fields, object][] = [
    ['nothing where nothing is asked', {}, {}, {}],
    ['an effort', {}, { reasoning_effort: 'medium' }, adaptive('medium')],
    ['the nearest effort', {}, { reasoning_effort: 'minimal' }, adaptive('low')],
    ['the higher of two that are as near', {}, { reasoning_effort: 'xhigh' }, adaptive('max')],
    ['an effort that the route has', { efforts: ['xhigh', 'low'] }, { reasoning_effort: 'xhigh' }, adaptive('xhigh')],
    ["OpenRouter's words", {}, { reasoning: { effort: 'high' } }, adaptive('high')],
    ["OpenRouter's words without an effort", {}, { reasoning: { enabled: true } }, adaptive()],
    ["Anthropic's own words", {}, { thinking: { type: 'adaptive' } }, adaptive()],
    ['no', {}, { reasoning_effort: 'none' }, off],
    ['no, in other words', {}, { reasoning: { enabled: false } }, off],
    [
      'as little as can be where it cannot be off',
      { thinking_off: false },
      { reasoning_effort: 'none' },
      adaptive('low'),
    ],
    ['nothing of a model that cannot', { thinking: 'none' }, { reasoning_effort: 'high' }, {}],
    [
      'a budget, a share of the cap',
      { thinking: 'budget' },
      { reasoning_effort: 'high', max_tokens: 10_000 },
      budget(6_000),
    ],
    ['the least budget', { thinking: 'budget' }, { reasoning_effort: 'low', max_tokens: 4_096 }, budget(1_024)],
    [
      'a budget below the cap',
      { thinking: 'budget' },
      { thinking: { budget_tokens: 9_000 }, max_tokens: 2_000 },
      budget(1_999),
    ],
    [
      'no budget where the cap has no room',
      { thinking: 'budget' },
      { reasoning_effort: 'high', max_tokens: 1_024 },
      {},
    ],
    ['off where a tool is forced', {}, { reasoning_effort: 'high', tools, tool_choice: 'required' }, off],
    [
      'off where a tool is forced, if it is known to be possible',
      { thinking_off: true },
      { tools, tool_choice: 'required' },
      off,
    ],
    ['nothing where a tool is forced otherwise', {}, { tools, tool_choice: 'required' }, {}],
  ]
  test.each(rows)('is %s', (_, route, fields, expected) => {
    const { thinking, output_config } = send(fields, on({}, route))
    const found = { ...(thinking ? { thinking } : {}), ...(output_config ? { output_config } : {}) }
    expect(found).toEqual(expected)
  })

  test('that cannot be off where a tool is forced: the model is told in words', () => {
    const tool_choice = { type: 'function', function: { name: 'f' } }
    const sent = send({ tools, tool_choice, reasoning_effort: 'high' }, on({}, { thinking_off: false }))
    expect(sent).toMatchObject({ tool_choice: { type: 'auto' }, system: [text('You must call the tool f.')] })
  })

  test('by a budget is left out where the client has not brought back what was thought', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, tool_calls: [call('a', 'f', '{}')] },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
    ]
    expect(send({ messages, tools, reasoning_effort: 'low' }, on({}, { thinking: 'budget' })).thinking).toBeUndefined()
  })

  test('takes the place of temperature; and so does a model, or a version, without one', () => {
    const sampled = { temperature: 0.2, top_p: 0.9, top_k: 5 }
    expect(send(sampled)).toMatchObject({ temperature: 0.2, top_k: 5 })
    expect(send(sampled)).not.toHaveProperty('top_p')
    expect(send({ top_p: 0.9 })).toMatchObject({ top_p: 0.9 })
    for (const sent of [
      send({ ...sampled, reasoning_effort: 'low' }),
      send(sampled, on({}, { sampling: false })),
      send(sampled, on({ api_version: '2026-10-21' })),
    ])
      for (const name of Object.keys(sampled)) expect(sent).not.toHaveProperty(name)
  })
})

describe('the prompt cache', () => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } }

  test('begins anew where the client says: in a message, a part, a tool, in the words of either vendor', () => {
    const sent = send({
      messages: [
        { role: 'system', content: 'One', ...hour },
        { role: 'user', content: [text('Two', { prompt_cache_breakpoint: { mode: 'explicit' } }), text('Three')] },
        { role: 'assistant', content: 'Four', ...mark },
        { role: 'user', content: 'Five' },
      ],
      tools: [{ type: 'function', function: { name: 'f' }, ...hour }],
    })
    expect(sent).toMatchObject({
      system: [hour],
      tools: [hour],
      messages: [{ content: [mark, {}] }, { content: [mark] }, { content: [{}] }],
    })
  })

  test('has no more marks than four, the last ones, and none of an hour behind a shorter one', () => {
    const marks = [mark, hour, mark, hour, hour].map((each, at) => ({ role: 'user', content: `${at}`, ...each }))
    const [turn] = send({ messages: marks, ...mark }).messages
    expect(turn?.content.map((block) => Reflect.get(block, 'cache_control'))).toEqual([
      undefined,
      undefined,
      { type: 'ephemeral' },
      { type: 'ephemeral' },
      { type: 'ephemeral' },
    ])
  })
})

describe('tools', () => {
  const tool = (parameters?: object, more: object = {}) => ({
    type: 'function',
    function: { name: 'f', ...(parameters ? { parameters } : {}), ...more },
  })

  test('are chosen as they are in chat', () => {
    const tools = [tool(), { type: 'function', function: { name: 'g' } }]
    const choose = (fields: Fields) => send({ tools, ...fields }).tool_choice
    expect(choose({})).toBeUndefined()
    expect(choose({ tool_choice: 'none' })).toEqual({ type: 'none' })
    expect(choose({ tool_choice: 'auto', parallel_tool_calls: false })).toEqual({
      type: 'auto',
      disable_parallel_tool_use: true,
    })
    expect(choose({ parallel_tool_calls: false })).toEqual({ type: 'auto', disable_parallel_tool_use: true })
    expect(choose({ tool_choice: 'required' })).toEqual({ type: 'any' })
    expect(choose({ tool_choice: { type: 'function', function: { name: 'g' } } })).toEqual({ type: 'tool', name: 'g' })
    const allowed_tools = { mode: 'required', tools: [{ type: 'function', function: { name: 'g' } }] }
    const sent = send({ tools, tool_choice: { type: 'allowed_tools', allowed_tools } })
    expect([sent.tool_choice, sent.tools?.map((each) => Reflect.get(each, 'name'))]).toEqual([{ type: 'any' }, ['g']])
  })

  test('are strict where their schema can be said, and else as they came', () => {
    const bounded = {
      type: 'object' as const,
      properties: { age: { type: 'integer', minimum: 1 } },
      required: ['age'],
    }
    const [strict] = send({ tools: [tool({ ...bounded, additionalProperties: false }, { strict: true })] }).tools ?? []
    expect(strict).toMatchObject({
      strict: true,
      input_schema: { additionalProperties: false, properties: { age: { description: '{minimum: 1}' } } },
    })
    const [loose] = send({ tools: [tool(bounded)] }).tools ?? []
    expect(loose).toEqual({ name: 'f', input_schema: bounded })
  })
})

test('everything else has its counterpart, or none', () => {
  const sent = send({
    stop: ['a', ' '],
    user: 'u',
    service_tier: 'default',
    seed: 1,
    frequency_penalty: 1,
    verbosity: 'low',
    store: false,
    metadata: { a: 'b' },
    stream: true,
  })
  expect(sent).toEqual({
    model: 'claude',
    max_tokens: 64_000,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    stop_sequences: ['a'],
    metadata: { user_id: 'u' },
    service_tier: 'standard_only',
    stream: true,
  })
})

test('a name of a user that is too long stays behind', () => {
  expect(send({ user: 'u'.repeat(257) })).not.toHaveProperty('metadata')
  expect(send({ safety_identifier: 'u' })).toMatchObject({ metadata: { user_id: 'u' } })
})

test('a field that chat does not know goes where the catalogue lets it through, and nowhere else', () => {
  const body = {
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
    context_management: { edits: [] },
    mystery: 1,
  }
  const sent = toBody(body as CanonicalRequest, on({ pass: ['context_management', 'model'] }))
  expect(sent).toMatchObject({ context_management: { edits: [] }, model: 'claude' })
  expect(sent).not.toHaveProperty('mystery')
})

test('any request that chat takes is one that the service takes, or is refused with a reason', () => {
  fc.assert(
    fc.property(anyRequest('m'), (request) => {
      try {
        send(request as Fields)
      } catch (error) {
        expect(error).toMatchObject({ status: 400, code: 'unsupported_value' })
      }
    }),
    { numRuns: 500 },
  )
})

test('an upstream is asked by its own settings', () => {
  const { upstream } = on()
  const headers = (options: Partial<UpstreamOptions>) => anthropic.headers(on(options).upstream)
  expect(headers({})).toEqual({ 'anthropic-version': '2023-06-01', 'x-api-key': 'k' })
  expect(headers({ auth: 'bearer', api_version: '2026-10-21', betas: ['a', 'b'] })).toEqual({
    'anthropic-version': '2026-10-21',
    'anthropic-beta': 'a,b',
    authorization: 'Bearer k',
  })
  const at = (baseUrl: string, options = {}) => {
    const target = on(options)
    const body: CanonicalRequest = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    return anthropic.request(body, { ...target, upstream: { ...target.upstream, baseUrl } }).path
  }
  expect(at('https://api.anthropic.com')).toBe('/v1/messages')
  expect(at('https://api.minimax.io/anthropic/v1')).toBe('/messages')
  expect(at('https://h', { path: '/raw' })).toBe('/raw')
  expect(anthropic.probe.path({ ...upstream, baseUrl: 'https://h' })).toBe('/v1/models')
})
