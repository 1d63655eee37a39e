/** Frames that clients get for any upstream stream, through the dialect and the writer. */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import { NO_USAGE, type Receipt, type Usage } from '../../../src/domain/usage.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { createWriter, type Shape, toExpected, toShape } from '../../support/transcript.ts'

const usage: Usage = { ...NO_USAGE, prompt: 3, completion: 2 }
const receipt: Receipt = { usage, costNanoUsd: 7, durationMs: 0 }

/** A stream between an upstream and a client: takes chunks and returns frames. */
function start(changes: Partial<Shape> = {}) {
  const shape = toShape({ choices: 8, ...changes })
  const decoder = openai.decoder(toExpected(shape))
  const writer = createWriter(shape)
  return {
    take(...chunks: string[]): string {
      const events: AnswerEvent[] = []
      for (const data of chunks) decoder.event({ name: null, data }, events)
      return writer.take(events)
    },
    /** The remaining frames after the end of the upstream's stream. */
    end(): string {
      const events: AnswerEvent[] = []
      decoder.end(events)
      return writer.take(events) + writer.tail(receipt)
    },
  }
}

const DONE = '[DONE]'

/** Untyped, since upstreams may send anything. */
const chunk = (delta: unknown, finish: unknown = null, index: unknown = 0, beside: object = {}) =>
  JSON.stringify({ choices: [{ index, delta, finish_reason: finish }], ...beside })

const parse = (text: string) =>
  text
    .split('\n\n')
    .filter((event) => event !== '' && event !== 'data: [DONE]')
    .map((event) => JSON.parse(event.replace(/^data: /, '')))

/** Plays a finished stream and returns [index, delta, finish] of each frame. */
function play(...chunks: string[]): unknown[] {
  const stream = start()
  const text = stream.take(...chunks, DONE) + stream.end()
  expect(text).toEndWith('data: [DONE]\n\n')
  return parse(text).map(({ choices: [choice] }) => [choice.index, choice.delta, choice.finish_reason])
}

const role = { role: 'assistant', content: '', refusal: null }
const call = (text: string) => ({ id: 'c0', type: 'function', function: { name: 'f', arguments: text } })
const opened = { tool_calls: [{ index: 0, ...call('') }] }
const piece = (text: string) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] })

const TABLE: { name: string; chunks: string[]; frames: unknown[] }[] = [
  {
    name: 'a repeated role, and empty texts',
    chunks: [
      chunk({ role: 'assistant', content: '' }),
      chunk({ role: 'assistant', content: 'a' }),
      chunk({ content: '' }, 'stop'),
    ],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'no role, and nulls',
    chunks: [
      chunk({ role: null, content: 'a', tool_calls: null, refusal: null }),
      chunk(null),
      chunk(undefined, 'stop'),
    ],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'a finish with the last text',
    chunks: [chunk({ content: 'a' }, 'length')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'length'],
    ],
  },
  {
    name: 'a repeated finish',
    chunks: [chunk({ content: 'a' }, 'length'), chunk({}, 'stop')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'length'],
    ],
  },
  {
    name: 'no finish',
    chunks: [chunk({ content: 'a' })],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'no chunks',
    chunks: [],
    frames: [
      [0, role, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'an unknown finish reason',
    chunks: [chunk({ content: 'a' }, 'eos_token')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'tool calls that end in "stop"',
    chunks: [chunk({ tool_calls: [call('{"a":1}')] }), chunk({}, 'stop')],
    frames: [
      [0, { ...role, content: null }, null],
      [0, opened, null],
      [0, piece('{"a":1}'), null],
      [0, {}, 'tool_calls'],
    ],
  },
  {
    name: 'tool calls without a finish',
    chunks: [chunk({ tool_calls: [call('{"a":1}')] })],
    frames: [
      [0, { ...role, content: null }, null],
      [0, opened, null],
      [0, piece('{"a":1}'), null],
      [0, {}, 'tool_calls'],
    ],
  },
  {
    name: 'reasoning under one name',
    chunks: [chunk({ reasoning: 'hm' }), chunk({ reasoning_content: 'so' }), chunk({ content: 'a' }, 'stop')],
    frames: [
      [0, role, null],
      [0, { reasoning: 'hm', reasoning_content: 'hm' }, null],
      [0, { reasoning: 'so', reasoning_content: 'so' }, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'two choices',
    chunks: [chunk({ content: 'a' }), chunk({ content: 'b' }, 'stop', 1), chunk({}, 'length')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [1, role, null],
      [1, { content: 'b' }, null],
      [0, {}, 'length'],
      [1, {}, 'stop'],
    ],
  },
  {
    name: 'an invalid index',
    chunks: [chunk({ content: 'a' }, 'stop', null)],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
]

const MORE: typeof TABLE = [
  {
    name: 'a higher choice first',
    chunks: [chunk({ content: 'b' }, null, 1), chunk({ content: 'a' })],
    frames: [
      [0, role, null],
      [1, role, null],
      [1, { content: 'b' }, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
      [1, {}, 'stop'],
    ],
  },
  {
    name: 'unrequested choices',
    chunks: [chunk({ content: 'a' }), chunk({ content: 'b' }, 'length', 8)],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'everything in one delta',
    chunks: [
      chunk({
        tool_calls: [call('{"a":1}')],
        refusal: 'no',
        content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }, { type: 'text', text: 'a' }, 'b'],
      }),
    ],
    frames: [
      [0, role, null],
      [0, { reasoning: 'hm', reasoning_content: 'hm' }, null],
      [0, { content: 'ab' }, null],
      [0, { refusal: 'no' }, null],
      [0, opened, null],
      [0, piece('{"a":1}'), null],
      [0, {}, 'tool_calls'],
    ],
  },
  {
    name: 'an emoji in two halves, and a single half',
    chunks: [chunk({ content: 'a\ud83e' }), chunk({ content: '\udd8a' }), chunk({ content: 'b\udd8a\ud83e' })],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, { content: '🦊' }, null],
      [0, { content: 'b\ufffd' }, null],
      [0, { content: '\ufffd' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'text after its finish',
    chunks: [chunk({ content: 'a' }, 'length'), chunk({ content: 'b' })],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, { content: 'b' }, null],
      [0, {}, 'length'],
    ],
  },
  {
    name: 'a finish of calls without a call',
    chunks: [chunk({ content: 'a', tool_calls: [] }, 'tool_calls')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'a legacy call in pieces that repeat its name',
    chunks: [
      chunk({ function_call: { name: 'f', arguments: '{' } }),
      chunk({ function_call: { name: 'f', arguments: '}' } }, 'stop'),
    ],
    frames: [
      [0, { ...role, content: null }, null],
      [0, { function_call: { name: 'f', arguments: '' } }, null],
      [0, { function_call: { arguments: '{' } }, null],
      [0, { function_call: { arguments: '}' } }, null],
      [0, {}, 'function_call'],
    ],
  },
  {
    name: 'reasoning only in details, without indexes',
    chunks: [
      chunk({ reasoning_details: [{ type: 'reasoning.text', text: 'h' }] }),
      chunk({
        reasoning_details: [
          { type: 'reasoning.text', text: 'm' },
          { type: 'reasoning.encrypted', data: 'x' },
        ],
      }),
    ],
    frames: [
      [0, role, null],
      [
        0,
        {
          reasoning: 'h',
          reasoning_content: 'h',
          reasoning_details: [{ type: 'reasoning.text', text: 'h', index: 0 }],
        },
        null,
      ],
      [
        0,
        {
          reasoning: 'm',
          reasoning_content: 'm',
          reasoning_details: [
            { type: 'reasoning.text', text: 'm', index: 0 },
            { type: 'reasoning.encrypted', data: 'x', index: 1, signer: 'paid/large-v1' },
          ],
        },
        null,
      ],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'annotations and audio',
    chunks: [
      chunk({ audio: { id: 'x', data: 'AA==', transcript: null }, timings: {} }),
      chunk({ annotations: [{ type: 'url_citation' }] }),
      chunk({ annotations: [{ type: 'url_citation' }, null] }),
    ],
    frames: [
      [0, { ...role, content: null }, null],
      [0, { audio: { id: 'x', data: 'AA==' } }, null],
      [0, { annotations: [{ type: 'url_citation', index: 0 }] }, null],
      [0, { annotations: [{ type: 'url_citation', index: 1 }] }, null],
      [0, {}, 'stop'],
    ],
  },
]

describe('a stream with', () => {
  test.each([...TABLE, ...MORE])('$name', ({ chunks, frames }) => {
    expect(play(...chunks)).toEqual(frames)
  })
})

test('sends nothing for only a role', () => {
  const stream = start()
  const numbers = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } }
  expect(stream.take(chunk({ role: 'assistant', content: '' }), JSON.stringify(numbers))).toBe('')
  expect(stream.take(chunk({ content: 'a' }))).not.toBe('')
})

test('usage is null in every frame except its own if it was requested, and missing otherwise', () => {
  for (const include of [true, false]) {
    const stream = start({ includeUsage: include })
    const frames = parse(stream.take(chunk({ content: 'a' }, 'stop')) + stream.end())
    expect(frames.map((frame) => frame.usage?.total_tokens ?? frame.usage)).toEqual(
      include ? [null, null, null, 5] : [undefined, undefined, undefined],
    )
    expect(frames.at(-1).choices).toHaveLength(include ? 0 : 1)
  }
})

test.each([
  ['its end', DONE],
  ['a failure', '{"error":{"message":"it broke"}}'],
])('events after %s are ignored', (_, last) => {
  const stream = start()
  stream.take(chunk({ content: 'a' }), last)
  expect(stream.take(chunk({ content: 'b' }), DONE)).toBe('')
  expect(stream.end()).not.toContain('"content"')
})

test('escapes line separators at which some clients split', () => {
  const text = start().take(chunk({ content: 'a\u2028b\u2029c\u0085d' }))
  expect(text).not.toMatch(/[\u2028\u2029\u0085]/)
  expect(parse(text).at(-1).choices[0].delta.content).toBe('a\u2028b\u2029c\u0085d')
})

test('writes an error frame as one line that begins with the error', () => {
  const frame = createWriter().failure(new GatewayError('upstream_failed', 'It\nbroke.'))
  expect(frame).toMatch(/^data: \{"error":\{[^\n]+\}\}\n\n$/)
})

test("every frame has the upstream's fields, under names that clients know", () => {
  const stream = start({ includeUsage: true })
  const about = { service_tier: 'priority', system_fingerprint: 'fp_1' }
  const chunks = [about, { service_tier: 'on_demand', system_fingerprint: 'fp_2' }].map((each) =>
    chunk({ content: 'a' }, null, 0, each),
  )
  const frames = parse(stream.take(...chunks, DONE) + stream.end())
  expect(frames).toHaveLength(5)
  for (const frame of frames) expect(frame).toMatchObject(about)
})

test('log probabilities are in their own chunk, with or without text', () => {
  const withLogprobs = (delta: object) =>
    JSON.stringify({
      choices: [{ index: 0, delta, finish_reason: null, logprobs: { content: [{ token: 'a', logprob: '#' }] } }],
    }).replace('"#"', 'NaN')
  const [, ...frames] = parse(start().take(withLogprobs({ content: 'a' }), withLogprobs({ content: '' })))
  const logprobs = { content: [{ token: 'a', logprob: -9999, bytes: [97], top_logprobs: [] }], refusal: null }
  expect(frames.map(({ choices: [choice] }) => [choice.delta, choice.logprobs])).toEqual([
    [{ content: 'a' }, logprobs],
    [{ content: '' }, logprobs],
  ])
})

test('text that may begin a think tag is held back', () => {
  const stream = start({ thinkTags: true })
  expect(stream.take(chunk({ content: '\n<thi' }))).toBe('')
  const text = stream.take(chunk({ content: 'nk>hm</think>\n\na' }))
  expect(parse(text).map(({ choices: [choice] }) => choice.delta)).toEqual([
    role,
    { reasoning: 'hm', reasoning_content: 'hm' },
    { content: 'a' },
  ])
})

test('a call without an ID gets a stable, unique ID', () => {
  const ids = [0, 1].map(() => {
    const list = [{ function: { name: 'f' } }, { function: { name: 'g' } }]
    const text = start().take(chunk({ tool_calls: list }), chunk({ tool_calls: list }, null, 1))
    return parse(text).flatMap(({ choices: [{ delta }] }) => delta.tool_calls?.[0].id ?? [])
  })
  expect(ids[0]).toEqual(ids[1] ?? [])
  expect(new Set(ids[0]).size).toBe(4)
  for (const id of ids[0] ?? []) expect(id).toMatch(/^call_[0-9a-f]{16}$/)
})
