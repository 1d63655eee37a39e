/** What clients are sent, whatever an upstream's stream or answer looks like: the contract's section 3, frame by frame. */
import { describe, expect, test } from 'bun:test'
import { createStreamNormaliser, errorFrame, toCompletion } from '../../src/answer/normalise.ts'
import { GatewayError, UpstreamError } from '../../src/error.ts'
import type { AnswerEvent, ChunkChoice, Completion } from '../../src/wire/chat.ts'
import { toUsageJson, type Usage } from '../../src/wire/usage.ts'

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
  const normaliser = createStreamNormaliser({ identity, includeUsage: false, choices: 8, thinkTags: false })
  const text = normaliser.take(events) + normaliser.tail(toUsageJson(usage, 0))
  expect(text).toEndWith('data: [DONE]\n\n')
  return parse(text).map(({ choices: [choice] }) => [choice.index, choice.delta, choice.finish_reason])
}

const role = { role: 'assistant', content: '', refusal: null }
const call = (index: number) => ({ index, id: `c${index}`, type: 'function', function: { name: 'f', arguments: '' } })

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
    events: [chunk({ tool_calls: [call(0)] }), chunk({}, 'stop')],
    frames: [
      [0, { ...role, content: null }, null],
      [0, { tool_calls: [call(0)] }, null],
      [0, {}, 'tool_calls'],
    ],
  },
  {
    name: 'tool calls without a finish',
    events: [chunk({ tool_calls: [call(0)] }), { done: true }],
    frames: [
      [0, { ...role, content: null }, null],
      [0, { tool_calls: [call(0)] }, null],
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

describe('a stream with', () => {
  test.each(TABLE)('$name', ({ events, frames }) => {
    expect(play(...events)).toEqual(frames)
  })
})

test('nothing is sent for a role alone: that is before the commit point', () => {
  const normaliser = createStreamNormaliser({ identity, includeUsage: false, choices: 8, thinkTags: false })
  expect(normaliser.take([chunk({ role: 'assistant', content: '' }), { usage }])).toBe('')
  expect(normaliser.committed()).toBe(false)
  expect(normaliser.take([chunk({ content: 'a' })])).not.toBe('')
  expect(normaliser.committed()).toBe(true)
})

test('usage is null in every frame but its own, where it was asked for, and nowhere otherwise', () => {
  for (const include of [true, false]) {
    const normaliser = createStreamNormaliser({ identity, includeUsage: include, choices: 8, thinkTags: false })
    const text = normaliser.take([chunk({ content: 'a' }, 'stop'), { usage }]) + normaliser.tail(toUsageJson(usage, 7))
    const frames = parse(text)
    expect(frames.map((frame) => frame.usage?.total_tokens ?? frame.usage)).toEqual(
      include ? [null, null, null, 5] : [undefined, undefined, undefined],
    )
    expect(frames.at(-1).choices).toHaveLength(include ? 0 : 1)
  }
})

test('nothing is taken after the end, and a failure stays the outcome', () => {
  const normaliser = createStreamNormaliser({ identity, includeUsage: false, choices: 8, thinkTags: false })
  const failure = new UpstreamError('broken', 'ended early')
  normaliser.take([chunk({ content: 'a' }), { failure }])
  expect(normaliser.take([chunk({ content: 'b' }), { done: true }])).toBe('')
  expect(normaliser.outcome()).toBe(failure)
})

test('sizes count UTF-8 bytes of what was said, with reasoning apart', () => {
  const normaliser = createStreamNormaliser({ identity, includeUsage: false, choices: 8, thinkTags: false })
  normaliser.take([chunk({ content: 'é' }), chunk({ reasoning: '🦊' }), chunk({ role: 'assistant' })])
  expect(normaliser.sizes()).toEqual({ answer: 2, reasoning: 4 })
})

test('line separators that some clients split on are escaped', () => {
  const normaliser = createStreamNormaliser({ identity, includeUsage: false, choices: 8, thinkTags: false })
  const text = normaliser.take([chunk({ content: 'a\u2028b\u2029c\u0085d' })])
  expect(text).not.toMatch(/[\u2028\u2029\u0085]/)
  expect(parse(text).at(-1).choices[0].delta.content).toBe('a\u2028b\u2029c\u0085d')
})

test('an error frame is one line that begins with the error', () => {
  const frame = errorFrame(new GatewayError('upstream_failed', 'It\nbroke.').toBody())
  expect(frame).toMatch(/^data: \{"error":\{[^\n]+\}\}\n\n$/)
})

describe('a whole answer', () => {
  const convert = (message: unknown, finish: unknown) => {
    const completion = { choices: [{ message, finish_reason: finish }] } as unknown as Completion
    return toCompletion({ identity, includeUsage: false, choices: 8, thinkTags: false }, completion).answer.choices[0]
  }

  test.each([
    ['null content', { content: null }, { role: 'assistant', content: '', refusal: null }],
    ['no message', undefined, { role: 'assistant', content: '', refusal: null }],
    ['a refusal', { refusal: 'no' }, { role: 'assistant', content: null, refusal: 'no' }],
    [
      'reasoning',
      { content: 'a', reasoning_content: 'hm' },
      { role: 'assistant', content: 'a', refusal: null, reasoning: 'hm', reasoning_content: 'hm' },
    ],
    [
      'a tool call beside a null',
      { content: null, tool_calls: [call(0)] },
      { role: 'assistant', content: null, refusal: null, tool_calls: [call(0)] },
    ],
  ])('with %s has every field', (_, message, expected) => {
    const finish = message && 'tool_calls' in message ? 'tool_calls' : 'stop'
    expect(convert(message, 'stop')).toEqual({
      index: 0,
      message: expected,
      logprobs: null,
      finish_reason: finish,
    } as never)
  })

  test.each([null, '', 'eos', undefined])('with the finish reason %p has stopped', (finish) => {
    expect(convert({ content: 'a' }, finish)).toMatchObject({ finish_reason: 'stop' })
  })
})
