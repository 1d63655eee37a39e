/**
 * Responses of Anthropic's API, read as events: every event of a stream, including unneeded ones; errors; token counts.
 */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import { anthropic } from '../../../src/upstreams/dialects/anthropic/anthropic.ts'
import type { Expected } from '../../../src/upstreams/dialects/dialect.ts'
import { readFailure } from '../../../src/upstreams/dialects/errors.ts'
import {
  type Message,
  PING,
  toErrorBody,
  toEvent,
  toSignature,
  toSteps,
  wholeMessage,
} from '../../support/anthropic-answers.ts'
import { checkStream } from '../../support/contract.ts'
import { toTarget } from '../../support/snapshot.ts'
import { decodeStream, playStream, toExpected, toShape } from '../../support/transcript.ts'

const SHAPE = toShape({ includeUsage: true })
const decode = (...steps: string[]): AnswerEvent[] => decodeStream([Buffer.from(steps.join(''))], SHAPE, anthropic)
const decodeWhole = (message: Message, body: Expected['body'] = {}) =>
  anthropic.whole(wholeMessage(message).body, { ...toExpected(), body })

const START = toEvent({ type: 'message_start', message: { id: 'm1', usage: { input_tokens: 9, output_tokens: 1 } } })
const said = (text: string) => [
  toEvent({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  toEvent({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
]
const STOP = [
  toEvent({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } }),
  toEvent({ type: 'message_stop' }),
]
const textOf = (events: readonly AnswerEvent[]) =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')
const lastOf = (events: readonly AnswerEvent[]) => events.at(-1)
const usageOf = (events: readonly AnswerEvent[]) => events.findLast((event) => event.kind === 'usage')?.usage
const finishOf = (events: readonly AnswerEvent[]) => events.find((event) => event.kind === 'finish')?.reason

describe('a stream', () => {
  const message: Message = {
    blocks: [
      { thought: 'Hm 🤔.' },
      { redacted: 'AAAA' },
      { text: 'A🎉' },
      { call: 'f', input: { a: '🎉' } },
      { call: 'g', input: {} },
    ],
  }

  test('has the same content as the whole response', () => {
    const whole = decodeWhole(message)
    const streamed = decode(...toSteps(message))
    const sum = (events: readonly AnswerEvent[]) => ({
      text: textOf(events),
      reasoning: events.map((event) => (event.kind === 'reasoning' ? event.text : '')).join(''),
      tools: events.filter(({ kind }) => kind === 'tool'),
      arguments: Object.groupBy(
        events.flatMap((event) => (event.kind === 'arguments' ? [event] : [])),
        ({ index }) => index,
      ),
      usage: usageOf(events),
      finish: finishOf(events),
      last: lastOf(events),
    })
    const joined = (events: readonly AnswerEvent[]) => {
      const { arguments: pieces, ...rest } = sum(events)
      return { ...rest, arguments: Object.values(pieces).map((all) => all?.map(({ text }) => text).join('')) }
    }
    expect(joined(streamed)).toEqual(joined(whole))
    expect(joined(whole)).toMatchObject({
      text: 'A🎉',
      reasoning: 'Hm 🤔.',
      arguments: ['{"a":"🎉"}', '{}'],
      finish: 'tool_calls',
      last: { kind: 'done' },
    })
    expect(whole.flatMap((event) => (event.kind === 'reasoning' ? (event.details ?? []) : []))).toEqual([
      { type: 'reasoning.text', text: 'Hm 🤔.', format: 'anthropic-claude-v1', signer: 'paid/large-v1', index: 0 },
      { type: 'reasoning.text', signature: toSignature('Hm 🤔.'), index: 0 },
      { type: 'reasoning.encrypted', data: 'AAAA', format: 'anthropic-claude-v1', signer: 'paid/large-v1', index: 1 },
    ])
  })

  test('is the same however its bytes are split, and interrupted if it ends early anywhere', () => {
    const bytes = Buffer.from(toSteps(message).join(''))
    const whole = playStream([bytes], SHAPE, anthropic)
    checkStream(whole.text, { includeUsage: true })
    for (let place = 1; place < bytes.length - 2; place++) {
      expect(playStream([bytes.subarray(0, place), bytes.subarray(place)], SHAPE, anthropic)).toEqual(whole)
      if (place % 7 === 0) expect(playStream([bytes.subarray(0, place)], SHAPE, anthropic).failure).not.toBeNull()
    }
  })

  const harmless: [string, string[]][] = [
    ['pings anywhere', [PING, START, PING, ...said('Hi').flatMap((step) => [PING, step]), ...STOP]],
    ['its beginning twice', [START, START, ...said('Hi'), START, ...STOP]],
    ['events that nobody knows', [START, toEvent({ type: 'weather', sky: 'blue' }), ...said('Hi'), ...STOP]],
    [
      'pieces that nobody knows',
      [START, ...said('Hi'), toEvent({ type: 'content_block_delta', index: 0, delta: { type: 'smell' } }), ...STOP],
    ],
    [
      'blocks that nobody knows',
      [
        START,
        toEvent({ type: 'content_block_start', index: 4, content_block: { type: 'web_search_tool_result' } }),
        toEvent({ type: 'content_block_delta', index: 4, delta: { type: 'input_json_delta', partial_json: '{' } }),
        ...said('Hi'),
        ...STOP,
      ],
    ],
    ['blocks that never end', [START, ...said('Hi'), ...STOP]],
    ['no names of events', [START, ...said('Hi'), ...STOP].map((step) => step.replace(/^event: .*\n/, ''))],
  ]
  test.each(harmless)('with %s is the same response', (_, steps) => {
    const events = decode(...steps)
    expect([textOf(events), finishOf(events), lastOf(events)]).toEqual(['Hi', 'stop', { kind: 'done' }])
  })

  const broken: [string, string[], object][] = [
    ['begins another answer', [START, ...said('Hi'), START.replace('m1', 'm2')], { kind: 'broken' }],
    ['ends without its end', [START, ...said('Hi'), STOP[0] ?? ''], { kind: 'broken' }],
    ['is no JSON', [START, 'data: {"type"\n\n'], { kind: 'broken' }],
    ['says that it is overloaded, first', [toEvent(toErrorBody('overloaded_error', 'Overloaded'))], { status: 529 }],
    ['says that it failed, later', [START, ...said('H'), toEvent(toErrorBody('api_error', 'x'))], { status: 500 }],
    ['says that it is limited', [toEvent(toErrorBody('rate_limit_error', 'x'))], { status: 429, retryable: true }],
  ]
  test.each(broken)('that %s has failed', (_, steps, error) => {
    expect(lastOf(decode(...steps))).toMatchObject({ kind: 'failure', error })
  })

  test('passes on input that was sent whole, or truncated, unchanged', () => {
    const call = (input: object) => ({ type: 'tool_use', id: 't', name: 'f', input })
    const begin = (block: object) => toEvent({ type: 'content_block_start', index: 0, content_block: block })
    const cut = toEvent({ type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 2 } })
    const end = toEvent({ type: 'message_stop' })
    const half = toEvent({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'input_json_delta', partial_json: '{"a' },
    })
    const argumentsOf = (events: AnswerEvent[]) =>
      events.map((event) => (event.kind === 'arguments' ? event.text : '')).join('')
    expect(argumentsOf(decode(START, begin(call({ a: 1 })), ...STOP))).toBe('{"a":1}')
    const events = decode(START, begin(call({})), half, cut, end)
    expect([argumentsOf(events), finishOf(events)]).toEqual(['{"a', 'length'])
  })
})

test('each stop reason has its name in chat, and an unknown one is `stop`', () => {
  const reasons = { end_turn: 'stop', stop_sequence: 'stop', pause_turn: 'stop', compaction: 'stop', new_one: 'stop' }
  const others = {
    max_tokens: 'length',
    model_context_window_exceeded: 'length',
    refusal: 'content_filter',
    tool_use: 'stop',
  }
  for (const [stop, reason] of Object.entries({ ...reasons, ...others }))
    expect([stop, finishOf(decodeWhole({ blocks: [{ text: 'x' }], stop }))]).toEqual([stop, reason])
})

test('names that every object has are no names of the API', () => {
  const odd = decodeWhole({ blocks: [{ text: 'x' }], stop: 'constructor', usage: { service_tier: 'toString' } })
  expect([finishOf(odd), odd.filter(({ kind }) => kind === 'origin')]).toEqual(['stop', []])
  expect(lastOf(decode(toEvent(toErrorBody('constructor', 'x'))))).toMatchObject({ error: { status: 500 } })
  for (const service_tier of [{ toString: '' }, { valueOf: 1 }, [[]]])
    expect(lastOf(decodeWhole({ blocks: [], usage: { service_tier } }))).toEqual({ kind: 'done' })
})

test('calls become the tool type that was requested', () => {
  const custom = decodeWhole(
    { blocks: [{ call: 'note', input: { input: 'a "b"' } }] },
    { tools: [{ type: 'custom', custom: { name: 'note' } }] },
  )
  expect(custom.slice(1, 3)).toMatchObject([
    { kind: 'tool', index: 0, type: 'custom', name: 'note' },
    { kind: 'arguments', text: 'a "b"' },
  ])
  const legacy = decodeWhole(
    {
      blocks: [
        { call: 'f', input: { a: 1 } },
        { call: 'f', input: { a: 2 } },
      ],
    },
    { functions: [{ name: 'f' }] },
  )
  expect(legacy.filter(({ kind }) => kind === 'tool' || kind === 'finish')).toMatchObject([
    { index: -1, type: 'function_call' },
    { reason: 'function_call' },
  ])
  const twice = decodeWhole({
    blocks: [
      { call: 'f', input: {}, id: 'x' },
      { call: 'f', input: {}, id: 'x' },
    ],
  })
  const ids = twice.flatMap((event) => (event.kind === 'tool' ? event.id : []))
  expect([ids[0], new Set(ids).size]).toEqual(['x', 2])
})

test('citations refer to their position in the text', () => {
  const web = {
    type: 'web_search_result_location',
    url: 'https://h',
    title: 'T',
    cited_text: 'q',
    encrypted_index: 'E',
  }
  const page = {
    type: 'page_location',
    document_index: 0,
    document_title: 'a.pdf',
    cited_text: 'p',
    start_page_number: 1,
  }
  const message = { blocks: [{ text: 'One. ' }, { text: 'Two.', citations: [web, page] }, { text: ' Three.' }] }
  for (const events of [decodeWhole(message), decode(...toSteps(message))]) {
    expect(events.flatMap((event) => (event.kind === 'annotations' ? event.items : []))).toEqual([
      {
        type: 'url_citation',
        url_citation: { url: 'https://h', title: 'T', content: 'q', start_index: 5, end_index: 9 },
        index: 0,
      },
      {
        type: 'file_citation',
        file_citation: { filename: 'a.pdf', content: 'p', start_index: 5, end_index: 9 },
        index: 1,
      },
    ])
  }
})

describe('token counts', () => {
  const usage = (counts: object) => usageOf(decodeWhole({ blocks: [{ text: 'x' }], usage: { ...counts } }))

  test('of the cache are in addition to the input, for both lifetimes', () => {
    expect(
      usage({
        input_tokens: 10,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 },
        output_tokens: 40,
        output_tokens_details: { thinking_tokens: 25 },
        server_tool_use: { web_search_requests: 2 },
      }),
    ).toMatchObject({
      prompt: 160,
      cacheRead: 100,
      cacheWrite: 20,
      cacheWrite1h: 30,
      completion: 40,
      reasoning: 25,
      webSearches: 2,
    })
  })

  test('of a later report replace those of an earlier one, which alone has the lifetimes', () => {
    const cache_creation = { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 30 }
    const start = { input_tokens: 10, cache_creation_input_tokens: 30, cache_creation, output_tokens: 1 }
    const delta = { input_tokens: 25, cache_creation_input_tokens: 44, cache_read_input_tokens: 7, output_tokens: 9 }
    const events = decode(
      toEvent({ type: 'message_start', message: { id: 'm', usage: start } }),
      ...said('x'),
      toEvent({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: delta }),
      STOP[1] ?? '',
    )
    expect(usageOf(events)).toMatchObject({ prompt: 76, cacheRead: 7, cacheWrite: 0, cacheWrite1h: 44, completion: 9 })
  })

  test("of calls within the call are added up; an advisor's belong to another model", () => {
    const iterations = [
      { type: 'compaction', input_tokens: 5, cache_read_input_tokens: 50, output_tokens: 6 },
      { type: 'advisor_message', model: 'claude-big', input_tokens: 70, output_tokens: 8 },
      { type: 'message', input_tokens: 9, output_tokens: 10 },
    ]
    const events = decodeWhole({ blocks: [], usage: { input_tokens: 9, output_tokens: 10, iterations } })
    expect(events.findLast(({ kind }) => kind === 'usage')).toMatchObject({
      usage: { prompt: 64, cacheRead: 50, completion: 16 },
      others: [{ model: 'claude-big', usage: { prompt: 70, completion: 8 } }],
    })
  })

  test('of another model that took over are separate from those of a first one that had output', () => {
    const report = (declined: object) => {
      const iterations = [
        { type: 'message', model: 'a', input_tokens: 9, ...declined },
        { type: 'fallback_message', model: 'b', input_tokens: 4 },
      ]
      const events = decodeWhole({ blocks: [], usage: { input_tokens: 4, output_tokens: 2, iterations } })
      return events.findLast(({ kind }) => kind === 'usage')
    }
    const others = [{ model: 'b', usage: { prompt: 4, completion: 2 } }]
    expect(report({})).toMatchObject({ usage: { prompt: 0, completion: 0 }, others })
    expect(report({ output_tokens: 1 })).toMatchObject({ usage: { prompt: 9, completion: 1 }, others })
  })

  test('of calls within the call stay if a later report lacks them', () => {
    const iterations = [
      { type: 'compaction', input_tokens: 5, cache_read_input_tokens: 50, output_tokens: 6 },
      { type: 'message', input_tokens: 9, output_tokens: 1 },
    ]
    const start = { input_tokens: 9, output_tokens: 1, iterations }
    const delta = { output_tokens: 40, output_tokens_details: { thinking_tokens: 30 } }
    const events = decode(
      toEvent({ type: 'message_start', message: { id: 'm', usage: start } }),
      ...said('x'),
      toEvent({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: delta }),
      STOP[1] ?? '',
    )
    expect(usageOf(events)).toMatchObject({ prompt: 64, cacheRead: 50, completion: 46, reasoning: 30 })
  })

  test("of calls within the call are never less than the call's own", () => {
    const iterations = [{ type: 'compaction', input_tokens: 5, output_tokens: 6 }]
    expect(usage({ input_tokens: 9, output_tokens: 10, iterations })).toMatchObject({ prompt: 9, completion: 10 })
  })

  test('of any number of advisors belong to their models, and those of further models are combined', () => {
    const advised = (model: string) => ({ type: 'advisor_message', model, input_tokens: 7, output_tokens: 1 })
    const iterations = Array.from({ length: 1_000 }, (_, at) => advised(`m${at % 25}`))
    const events = decodeWhole({ blocks: [], usage: { input_tokens: 9, output_tokens: 10, iterations } })
    const report = events.findLast((event) => event.kind === 'usage')
    expect(report?.others).toHaveLength(21)
    expect(report?.others?.[0]).toMatchObject({ model: 'm0', usage: { prompt: 280, completion: 40 } })
    expect(report?.others?.[20]).toMatchObject({ usage: { prompt: 5 * 280, completion: 5 * 40 } })
  })

  test('come with the service tier of the call', () => {
    const events = decodeWhole({ blocks: [], usage: { service_tier: 'priority', speed: 'fast', inference_geo: 'us' } })
    expect(events.slice(0, 2)).toEqual([
      { kind: 'origin', origin: { service_tier: 'priority' } },
      { kind: 'mode', mode: 'fast+priority+us' },
    ])
  })
})

describe('an error', () => {
  const target = toTarget({ dialect: 'anthropic', credential: 'sk-ant-the-credential' })
  const fail = (status: number, body: string, headers: Record<string, string> = {}) =>
    readFailure(anthropic, status, body, { header: (name) => headers[name] ?? null }, target)
  const body = (type: string, message: string, details?: object) => JSON.stringify(toErrorBody(type, message, details))

  const rows: [string, number, string, object][] = [
    ['a wrong key', 401, body('authentication_error', 'invalid x-api-key'), { status: 401, retryable: false }],
    ['an unpaid account', 402, body('billing_error', 'Pay.'), { status: 402 }],
    [
      'an unpaid account that is called a bad request',
      400,
      body('invalid_request_error', 'Your credit balance is too low'),
      { status: 402 },
    ],
    [
      'words of a client that are quoted, and say of no account that it is unpaid',
      400,
      body(
        'invalid_request_error',
        "output_config.format.schema: property 'Your credit balance is too low' is not supported",
      ),
      { status: 400, retryable: false },
    ],
    [
      'a limit of spending',
      429,
      body('rate_limit_error', 'x', { error_code: 'enforced_spend_limit_reached' }),
      { status: 402, retryable: false },
    ],
    [
      'a page of a proxy',
      413,
      '<html>413 Too Large</html>',
      { status: 413, code: 'request_too_large', message: 'gave no reason' },
    ],
    ['an overload', 529, body('overloaded_error', 'Overloaded'), { status: 529, retryable: true }],
    ['a conflict', 409, body('conflict_error', 'x'), { status: 409, retryable: true }],
    [
      'a field at fault',
      400,
      body('invalid_request_error', 'messages.0.content: Field required'),
      { param: 'messages.0.content', code: null },
    ],
    [
      'a field that is not taken',
      400,
      body('invalid_request_error', 'temperature: Extra inputs are not permitted'),
      { param: 'temperature', code: 'unsupported_parameter' },
    ],
    [
      'a long prompt',
      400,
      body('invalid_request_error', 'prompt is too long: 208310 tokens > 200000 maximum'),
      {
        code: 'context_length_exceeded',
        param: 'messages',
        message: expect.stringContaining(
          'maximum context length is 200000 tokens. However, your messages resulted in 208310',
        ),
      },
    ],
    [
      'a long prompt and a large cap',
      400,
      body(
        'invalid_request_error',
        'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease',
      ),
      { code: 'context_length_exceeded', message: expect.stringContaining('209573') },
    ],
    [
      'a code of its own',
      400,
      body('invalid_request_error', 'x', { error_code: 'image_dimensions_too_large' }),
      { code: 'image_dimensions_too_large' },
    ],
  ]
  test.each(rows)('for %s has its meaning', (_, status, text, expected) => {
    expect(fail(status, text)).toMatchObject({ kind: 'status', ...expected })
  })

  test('says how long to wait, and no secret', () => {
    const error = fail(429, body('rate_limit_error', 'key sk-ant-the-credential is limited'), { 'retry-after': '7' })
    expect(error).toMatchObject({ retryAfterMs: 7_000, retryable: true })
    expect(error.message).not.toContain('credential')
  })

  test('in place of a response is thrown, as is an invalid body', () => {
    expect(() => anthropic.whole(toErrorBody('overloaded_error', 'x'), toExpected())).toThrow(
      expect.objectContaining({ status: 529 }),
    )
    for (const json of [null, [], { id: 'x' }, { content: 'text' }])
      expect(() => anthropic.whole(json, toExpected())).toThrow(UpstreamError)
  })
})
