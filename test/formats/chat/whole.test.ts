/** Whole responses and their streams: every field that a client reads, and the same content both ways. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { UpstreamError } from '../../../src/domain/error.ts'
import { NO_USAGE } from '../../../src/domain/usage.ts'
import type {
  ChatCompletion,
  ChatMessage,
  Choice,
  Delta,
  ToolCall,
  ToolCallDelta,
} from '../../../src/formats/chat/answer.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { createWriter, type Shape, toExpected, toShape, writeWhole } from '../../support/transcript.ts'

const shape = toShape({ choices: 2 })
const receipt = { usage: NO_USAGE, costNanoUsd: 0, durationMs: 0 }

/** Untyped, since upstreams may send anything. */
const toEvents = (asked: Shape, ...choices: unknown[]) => openai.whole({ choices }, toExpected(asked))
const toCompletion = (asked: Shape, ...choices: unknown[]): ChatCompletion =>
  JSON.parse(writeWhole(toEvents(asked, ...choices), receipt))
const convert = (message: unknown, finish: unknown = 'stop', changes: Partial<Shape> = {}) =>
  toCompletion({ ...shape, ...changes }, { message, finish_reason: finish }).choices[0]

const called = (text: unknown, id = 'c') => ({ id, type: 'function', function: { name: 'f', arguments: text } })
const said = { role: 'assistant', content: '', refusal: null, annotations: [] }
const silent = { ...said, content: null }
const custom = { id: 'c', type: 'custom', custom: { name: 'run', input: 'ls' } }

describe('a message with', () => {
  test.each([
    ['null content', { content: null }, said, 'stop'],
    ['nothing', undefined, said, 'stop'],
    ['a refusal', { refusal: 'no' }, { ...silent, refusal: 'no' }, 'stop'],
    [
      'parts',
      {
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      { ...said, content: 'ab' },
      'stop',
    ],
    [
      'reasoning',
      { content: 'a', reasoning_content: 'hm' },
      { ...said, content: 'a', reasoning: 'hm', reasoning_content: 'hm' },
      'stop',
    ],
    [
      'a call next to an empty text',
      { content: '', tool_calls: [called('{}')] },
      { ...silent, tool_calls: [called('{}')] },
      'tool_calls',
    ],
    [
      'a call and a text',
      { content: 'a', tool_calls: [called('{}')] },
      { ...said, content: 'a', tool_calls: [called('{}')] },
      'tool_calls',
    ],
    [
      'arguments that are no text',
      { tool_calls: [called({ a: 1 })] },
      { ...silent, tool_calls: [called('{"a":1}')] },
      'tool_calls',
    ],
    ['no arguments', { tool_calls: [called(null)] }, { ...silent, tool_calls: [called('{}')] }, 'tool_calls'],
    ['a custom call', { tool_calls: [custom] }, { ...silent, tool_calls: [custom] }, 'tool_calls'],
    ['calls that are none', { content: 'a', tool_calls: [], function_call: null }, { ...said, content: 'a' }, 'stop'],
    [
      'a legacy call',
      { content: '', function_call: { name: 'f', arguments: '{}' } },
      { ...silent, function_call: { name: 'f', arguments: '{}' } },
      'function_call',
    ],
    [
      'annotations',
      { content: 'a', annotations: [{ type: 'url_citation' }] },
      { ...said, content: 'a', annotations: [{ type: 'url_citation' }] },
      'stop',
    ],
    [
      'images',
      { content: '', images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' }, index: 0 }] },
      { ...silent, images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] },
      'stop',
    ],
    ['keys of its own', { content: 'a', tokens: 5, name: null }, { ...said, content: 'a' }, 'stop'],
  ])('%s has every field', (_, message, expected, finish) => {
    expect(convert(message)).toEqual({ index: 0, message: expected, logprobs: null, finish_reason: finish } as never)
  })

  test("a thought in the text is separated if the upstream's settings say so", () => {
    const message = { content: '<think>hm</think>\na' }
    expect(convert(message)?.message.content).toBe(message.content)
    expect(convert(message, 'stop', { thinkTags: true })?.message).toMatchObject({ content: 'a', reasoning: 'hm' })
  })
})

test.each([
  [null, 'stop', 'tool_calls'],
  ['', 'stop', 'tool_calls'],
  ['eos', 'stop', 'tool_calls'],
  [undefined, 'stop', 'tool_calls'],
  ['stop', 'stop', 'tool_calls'],
  ['tool_calls', 'stop', 'tool_calls'],
  ['function_call', 'stop', 'tool_calls'],
  ['length', 'length', 'length'],
  ['MAX_TOKENS', 'length', 'length'],
  ['content_filter', 'content_filter', 'content_filter'],
])('the finish reason %p is %s, and %s after calls', (finish, spoken, calling) => {
  expect(convert({ content: 'a' }, finish)?.finish_reason as string).toBe(spoken)
  expect(convert({ tool_calls: [called('{}')] }, finish)?.finish_reason as string).toBe(calling)
})

test.each([
  [
    'out of order',
    [
      { index: 1, message: { content: 'b' } },
      { index: 0, message: { content: 'a' } },
    ],
    ['a', 'b'],
  ],
  ['without an index', [{ message: { content: 'a' } }, { message: { content: 'b' } }], ['a', 'b']],
  [
    'that all have index 0',
    [
      { index: 0, message: { content: 'a' } },
      { index: 0, message: { content: 'b' } },
    ],
    ['a', 'b'],
  ],
  [
    'with a gap',
    [
      { index: 5, message: { content: 'b' } },
      { index: 2, message: { content: 'a' } },
    ],
    ['a', 'b'],
  ],
  ['beyond the requested ones', ['a', 'b', 'c'].map((content, index) => ({ index, message: { content } })), ['a', 'b']],
  ['that are none', [null, 'x', { message: { content: 'a' } }], ['a']],
])('choices %s get indexes from 0', (_, choices, contents) => {
  const found = toCompletion(shape, ...choices).choices
  expect(found.map(({ index, message }) => [index, message.content])).toEqual(contents.map((each, at) => [at, each]))
})

test('the text of a response is one line of JSON, with the usage at the end', () => {
  const choices = [{ message: { content: 'a\u2028\u0085b\ud83e' } }]
  const events = openai.whole({ choices, service_tier: 'default' }, toExpected(shape))
  const text = writeWhole(events, { usage: NO_USAGE, costNanoUsd: 100, durationMs: 0 })
  expect(text).not.toMatch(/[\u0085\u2028]/)
  expect(text).toContain('"service_tier":"default","usage":{"prompt_tokens":0,')
  expect(text).toEndWith(',"cost":0.0000001}}')
  expect(JSON.parse(text).choices[0].message.content).toBe('a\u2028\u0085b\ufffd')
})

/** Reads a stream to its end and assembles it like a client. */
function readStream(text: string) {
  const choices: { deltas: Delta[]; finish: unknown }[] = []
  for (const data of text.split('\n\n').slice(0, -2)) {
    for (const { index, delta, finish_reason } of JSON.parse(data.slice('data: '.length)).choices) {
      const deltas = choices[index]?.deltas ?? []
      choices[index] = { deltas: [...deltas, delta], finish: finish_reason }
    }
  }
  return choices.map(({ deltas, finish }) => ({ message: toMessage(deltas), finish }))
}

/** Joins the deltas of one choice like a client, to the message of a whole response. */
function toMessage(deltas: readonly Delta[]): ChatMessage {
  let content = ''
  let refusal = ''
  const calls: ToolCall[] = []
  const message: ChatMessage = { role: 'assistant', content: null, refusal: null, annotations: [] }
  for (const delta of deltas) {
    content += delta.content ?? ''
    refusal += delta.refusal ?? ''
    for (const call of delta.tool_calls ?? []) addCall(calls, call)
    if (delta.function_call) {
      message.function_call ??= { name: delta.function_call.name ?? '', arguments: '' }
      message.function_call.arguments += delta.function_call.arguments ?? ''
    }
    if (delta.reasoning) {
      message.reasoning = (message.reasoning ?? '') + delta.reasoning
      message.reasoning_content = message.reasoning
    }
    if (delta.reasoning_details) {
      message.reasoning_details = [...(message.reasoning_details ?? []), ...delta.reasoning_details]
    }
    if (delta.annotations) {
      const items = delta.annotations.map((item) => ({ ...item, index: undefined }))
      message.annotations = [...(message.annotations ?? []), ...items]
    }
    if (delta.audio) message.audio = delta.audio
  }
  if (calls.length > 0) message.tool_calls = calls
  if (refusal !== '') message.refusal = refusal
  const instead = calls.length > 0 || message.function_call || message.audio || refusal !== ''
  message.content = content === '' && instead ? null : content
  return message
}

function addCall(calls: ToolCall[], { index, id = '', type, function: called, custom }: ToolCallDelta): void {
  const call = calls[index]
  if (call?.type === 'function') call.function.arguments += called?.arguments ?? ''
  else if (call?.type === 'custom') call.custom.input += custom?.input ?? ''
  else if (type === 'custom') calls[index] = { id, type, custom: { name: custom?.name ?? '', input: '' } }
  else calls[index] = { id, type: 'function', function: { name: called?.name ?? '', arguments: '' } }
}

const junk = fc.jsonValue({ maxDepth: 2 })
const or = <T>(arbitrary: fc.Arbitrary<T>) => fc.oneof({ weight: 3, arbitrary }, { weight: 1, arbitrary: junk })
const word = fc.string({
  unit: fc.constantFrom('a', ' ', '\ud83e', '\udd8a', '<think>', '</think>', '\n'),
  maxLength: 6,
})
const text = or(word)
const call = or(
  fc.record(
    {
      id: or(fc.constantFrom('', 'a', 'b')),
      index: or(fc.nat(2)),
      type: or(fc.constantFrom('function', 'custom')),
      function: or(
        fc.record({ name: or(fc.constantFrom('', 'f', 'g')), arguments: or(fc.constantFrom('{}', '{"a":1}')) }),
      ),
      custom: or(fc.record({ name: word, input: word })),
    },
    { requiredKeys: [] },
  ),
)
const message = or(
  fc.record(
    {
      role: junk,
      content: or(fc.oneof(word, fc.array(fc.record({ type: fc.constantFrom('text', 'thinking'), text })))),
      refusal: text,
      reasoning: text,
      reasoning_content: text,
      reasoning_details: or(fc.array(or(fc.record({ type: word, text })))),
      tool_calls: or(fc.array(call, { maxLength: 3 })),
      function_call: or(fc.record({ name: text, arguments: text })),
      annotations: or(fc.array(junk)),
      audio: junk,
    },
    { requiredKeys: [] },
  ),
)
const choice = or(
  fc.record({ index: or(fc.nat(2)), message, finish_reason: text, logprobs: junk }, { requiredKeys: [] }),
)

/** The events of a response; null if the choices are an error, or missing. */
function answered(asked: Shape, choices: unknown[]) {
  try {
    return toEvents(asked, ...choices)
  } catch (error) {
    if (error instanceof UpstreamError) return null
    throw error
  }
}

test('a stream has the same content as the whole response, for any upstream response', () => {
  fc.assert(
    fc.property(fc.array(choice, { minLength: 1, maxLength: 3 }), fc.boolean(), (choices, thinkTags) => {
      const asked = { ...shape, thinkTags }
      const events = answered(asked, choices)
      if (events === null) return
      const whole: Choice[] = JSON.parse(writeWhole(events, receipt)).choices
      const writer = createWriter(asked)
      const streamed = readStream(writer.take(events) + writer.tail(receipt))
      expect(streamed).toEqual(whole.map(({ message, finish_reason }) => ({ message, finish: finish_reason })))
      for (const { message } of whole) expect(`${message.content}${message.reasoning}`.isWellFormed()).toBe(true)
    }),
    { numRuns: 500 },
  )
})
