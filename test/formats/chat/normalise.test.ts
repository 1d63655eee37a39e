/** What clients are sent, whatever an upstream's stream or answer looks like: the contract's section 3, frame by frame. */
import { describe, expect, test } from 'bun:test'
import type { AnswerEvent, ChunkChoice } from '../../../src/domain/answer.ts'
import { GatewayError, UpstreamError } from '../../../src/domain/error.ts'
import { toUsageJson, type Usage } from '../../../src/domain/usage.ts'
import { createStreamNormaliser, errorFrame, type Shape } from '../../../src/formats/chat/normalise.ts'

const identity = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'acme/large' }
const usage: Usage = {
  prompt: 3,
  cacheRead: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  completion: 2,
  reasoning: 0,
  raw: null,
}

const start = (shape: Partial<Shape> = {}) =>
  createStreamNormaliser({ identity, includeUsage: false, choices: 8, logprobs: true, thinkTags: false, ...shape })

/** Upstreams send what they like: the types are what the contract allows. */
const chunk = (delta: unknown, finish: unknown = null, index: unknown = 0): AnswerEvent => ({
  chunk: { choices: [{ index, delta, finish_reason: finish } as ChunkChoice] },
})

const parse = (text: string) =>
  text
    .split('\n\n')
    .filter((event) => event !== '' && event !== 'data: [DONE]')
    .map((event) => JSON.parse(event.replace(/^data: /, '')))

/** Plays a finished stream and returns [index, delta, finish] of each frame that it had. */
function play(...events: AnswerEvent[]): unknown[] {
  const normaliser = start()
  const text = normaliser.take(events) + normaliser.tail(toUsageJson(usage, 0))
  expect(text).toEndWith('data: [DONE]\n\n')
  return parse(text).map(({ choices: [choice] }) => [choice.index, choice.delta, choice.finish_reason])
}

const role = { role: 'assistant', content: '', refusal: null }
const call = (text: string) => ({ id: 'c0', type: 'function', function: { name: 'f', arguments: text } })
const opened = { tool_calls: [{ index: 0, ...call('') }] }
const piece = (text: string) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] })

const TABLE: { name: string; events: AnswerEvent[]; frames: unknown[] }[] = [
  {
    name: 'a role that comes again, and texts that are empty',
    events: [
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
    name: 'no role at all, and nulls',
    events: [
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
    name: 'a finish that comes with the last words',
    events: [chunk({ content: 'a' }, 'length')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'length'],
    ],
  },
  {
    name: 'a finish that comes twice',
    events: [chunk({ content: 'a' }, 'length'), chunk({}, 'stop')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'length'],
    ],
  },
  {
    name: 'no finish',
    events: [chunk({ content: 'a' }), { done: true }],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'nothing at all',
    events: [{ done: true }],
    frames: [
      [0, role, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'a finish reason of its own invention',
    events: [chunk({ content: 'a' }, 'eos_token')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'tool calls that end in "stop"',
    events: [chunk({ tool_calls: [call('{"a":1}')] }), chunk({}, 'stop')],
    frames: [
      [0, { ...role, content: null }, null],
      [0, opened, null],
      [0, piece('{"a":1}'), null],
      [0, {}, 'tool_calls'],
    ],
  },
  {
    name: 'tool calls without a finish',
    events: [chunk({ tool_calls: [call('{"a":1}')] }), { done: true }],
    frames: [
      [0, { ...role, content: null }, null],
      [0, opened, null],
      [0, piece('{"a":1}'), null],
      [0, {}, 'tool_calls'],
    ],
  },
  {
    name: 'reasoning under one name',
    events: [chunk({ reasoning: 'hm' }), chunk({ reasoning_content: 'so' }), chunk({ content: 'a' }, 'stop')],
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
    events: [chunk({ content: 'a' }), chunk({ content: 'b' }, 'stop', 1), chunk({}, 'length')],
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
    name: 'an index that is none',
    events: [chunk({ content: 'a' }, 'stop', null)],
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
    events: [chunk({ content: 'b' }, null, 1), chunk({ content: 'a' })],
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
    name: 'choices that nobody asked for',
    events: [chunk({ content: 'a' }), chunk({ content: 'b' }, 'length', 8)],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'everything in one delta',
    events: [
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
    name: 'an emoji in two halves, and a half that stays alone',
    events: [chunk({ content: 'a\ud83e' }), chunk({ content: '\udd8a' }), chunk({ content: 'b\udd8a\ud83e' })],
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
    name: 'words after its finish',
    events: [chunk({ content: 'a' }, 'length'), chunk({ content: 'b' })],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, { content: 'b' }, null],
      [0, {}, 'length'],
    ],
  },
  {
    name: 'a finish of calls without a call',
    events: [chunk({ content: 'a', tool_calls: [] }, 'tool_calls')],
    frames: [
      [0, role, null],
      [0, { content: 'a' }, null],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'a legacy call in pieces that repeat its name',
    events: [
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
    name: 'reasoning in details alone, without indexes',
    events: [
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
            { type: 'reasoning.encrypted', data: 'x', index: 1 },
          ],
        },
        null,
      ],
      [0, {}, 'stop'],
    ],
  },
  {
    name: 'annotations and sound',
    events: [
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
  test.each([...TABLE, ...MORE])('$name', ({ events, frames }) => {
    expect(play(...events)).toEqual(frames)
  })
})

test('nothing is sent for a role alone: that is before the commit point', () => {
  const normaliser = start()
  expect(normaliser.take([chunk({ role: 'assistant', content: '' }), { usage }])).toBe('')
  expect(normaliser.committed()).toBe(false)
  expect(normaliser.take([chunk({ content: 'a' })])).not.toBe('')
  expect(normaliser.committed()).toBe(true)
})

test('usage is null in every frame but its own, where it was asked for, and nowhere otherwise', () => {
  for (const include of [true, false]) {
    const normaliser = start({ includeUsage: include })
    const text = normaliser.take([chunk({ content: 'a' }, 'stop'), { usage }]) + normaliser.tail(toUsageJson(usage, 7))
    const frames = parse(text)
    expect(frames.map((frame) => frame.usage?.total_tokens ?? frame.usage)).toEqual(
      include ? [null, null, null, 5] : [undefined, undefined, undefined],
    )
    expect(frames.at(-1).choices).toHaveLength(include ? 0 : 1)
  }
})

test('nothing is taken after the end, and a failure stays the outcome', () => {
  const normaliser = start()
  const failure = new UpstreamError('broken', 'ended early')
  normaliser.take([chunk({ content: 'a' }), { failure }])
  expect(normaliser.take([chunk({ content: 'b' }), { done: true }])).toBe('')
  expect(normaliser.outcome()).toBe(failure)
})

test('line separators that some clients split on are escaped', () => {
  const normaliser = start()
  const text = normaliser.take([chunk({ content: 'a\u2028b\u2029c\u0085d' })])
  expect(text).not.toMatch(/[\u2028\u2029\u0085]/)
  expect(parse(text).at(-1).choices[0].delta.content).toBe('a\u2028b\u2029c\u0085d')
})

test('an error frame is one line that begins with the error', () => {
  const frame = errorFrame(new GatewayError('upstream_failed', 'It\nbroke.').toBody())
  expect(frame).toMatch(/^data: \{"error":\{[^\n]+\}\}\n\n$/)
})

test('what an upstream says about itself stands in every frame, in words that clients know', () => {
  const normaliser = start({ includeUsage: true })
  const { chunk: said } = chunk({ content: 'a' }) as { chunk: object }
  const about = { service_tier: 'priority', system_fingerprint: 'fp_1' }
  const events = [
    { ...said, ...about },
    { ...said, service_tier: 'on_demand', system_fingerprint: 'fp_2' },
  ]
  const text = normaliser.take(events.map((each) => ({ chunk: each }) as AnswerEvent)) + normaliser.tail('{}')
  const frames = parse(text)
  expect(frames).toHaveLength(5)
  for (const frame of frames) expect(frame).toMatchObject(about)
})

test('log probabilities go out with their own chunk, with a text or without one', () => {
  const normaliser = start()
  const token = { token: 'a', logprob: Number.NaN }
  const withLogprobs = (delta: object): AnswerEvent => ({
    chunk: { choices: [{ index: 0, delta, finish_reason: null, logprobs: { content: [token] } } as never] },
  })
  const [, ...frames] = parse(normaliser.take([withLogprobs({ content: 'a' }), withLogprobs({ content: '' })]))
  const logprobs = { content: [{ token: 'a', logprob: -9999, bytes: [97], top_logprobs: [] }], refusal: null }
  expect(frames.map(({ choices: [choice] }) => [choice.delta, choice.logprobs])).toEqual([
    [{ content: 'a' }, logprobs],
    [{ content: '' }, logprobs],
  ])
})

test('what may be the beginning of a thought is held back, and is before the commit point', () => {
  const normaliser = start({ thinkTags: true })
  expect(normaliser.take([chunk({ content: '\n<thi' })])).toBe('')
  expect(normaliser.committed()).toBe(false)
  const text = normaliser.take([chunk({ content: 'nk>hm</think>\n\na' })])
  expect(parse(text).map(({ choices: [choice] }) => choice.delta)).toEqual([
    role,
    { reasoning: 'hm', reasoning_content: 'hm' },
    { content: 'a' },
  ])
})

test('a call without an id gets one that is the same each time and another for each call', () => {
  const ids = [0, 1].map(() => {
    const list = [{ function: { name: 'f' } }, { function: { name: 'g' } }]
    const text = start().take([chunk({ tool_calls: list }), chunk({ tool_calls: list }, null, 1)])
    return parse(text).flatMap(({ choices: [{ delta }] }) => delta.tool_calls?.[0].id ?? [])
  })
  expect(ids[0]).toEqual(ids[1] ?? [])
  expect(new Set(ids[0]).size).toBe(4)
  for (const id of ids[0] ?? []) expect(id).toMatch(/^call_[0-9a-f]{16}$/)
})
