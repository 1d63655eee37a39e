/** Usage of a call, read from its upstream's response: the same whole and streamed, whatever the upstream sends. */
import { heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import { Meter } from '../../src/accounting/meter.ts'
import { UpstreamError } from '../../src/domain/error.ts'
import type { AnswerEvent } from '../../src/domain/events.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { DONE, text } from '../support/answers.ts'
import { toExpected, toShape } from '../support/transcript.ts'

const expected = toExpected(toShape({ choices: 2 }))

function listen(...batches: AnswerEvent[][]): Meter {
  const meter = new Meter()
  for (const batch of batches) meter.take(batch)
  return meter
}

const messages = [
  { role: 'assistant', content: 'Hello ', reasoning: 'Hm. ', refusal: null },
  {
    role: 'assistant',
    content: null,
    refusal: 'No.',
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }],
  },
]

/** The events of a stream with these deltas. */
function decode(...deltas: { index: number; delta: unknown }[]): AnswerEvent[] {
  const decoder = openai.decoder(expected)
  const events: AnswerEvent[] = []
  const chunks = deltas.map((choice) => JSON.stringify({ choices: [{ ...choice, finish_reason: null }] }))
  for (const data of [...chunks, '[DONE]']) decoder.event({ name: null, data }, events)
  return events
}

const said = {
  answer: ['Hello ', 'No.look{"at":1}'],
  reasoning: ['Hm. '],
  audioChars: 0,
  moreAnswer: 0,
  moreReasoning: 0,
}

describe('the output', () => {
  test('is the same whole and streamed, choice by choice', () => {
    const choices = messages.map((message, index) => ({ index, message, finish_reason: 'stop', logprobs: null }))
    expect(listen(openai.whole({ choices }, expected)).captured()).toEqual(said)
    expect(listen(decode(...messages.map((delta, index) => ({ index, delta })))).captured()).toEqual(said)
  })

  test('of interleaved choices is kept separate', () => {
    const meter = listen([text('a'), text('1', 1)], [text('b'), text('2', 1)])
    expect(meter.captured().answer).toEqual(['ab', '12'])
  })

  test.each([[null], [7], [{ content: 7 }], [{ tool_calls: [null, 7, { function: 'f' }] }], [{ function_call: 'f' }]])(
    'as %j is passed over',
    (delta) => {
      expect(listen(decode({ index: 0, delta })).captured().answer).toEqual([])
    },
  )

  test('beyond the limit is counted in bytes, split or in one piece', () => {
    const long = '\u{1F98A}'.repeat(40_000)
    const once = listen([text(long)]).captured()
    const pieces = listen([...long].map((content) => text(content))).captured()
    expect(once).toEqual(pieces)
    expect(Buffer.byteLength(once.answer.join('')) + once.moreAnswer).toBe(160_000)
  })
})

test.each([
  ['as events', (meter: Meter, text: string) => meter.take([{ kind: 'text', choice: 0, text }])],
  ['as it passes', (meter: Meter, text: string) => meter.takeText(text)],
])('what a stream has said is kept without the chunks that it came in, %s', (_, say) => {
  const CHUNKS = 2_000
  const meters = Array.from({ length: 50 }, () => new Meter())
  const sizeOf = () => {
    Bun.gc(true)
    const { heapSize, extraMemorySize } = heapStats()
    return heapSize + extraMemorySize
  }
  const before = sizeOf()
  for (const meter of meters) {
    for (let i = 0; i < CHUNKS; i++) {
      const chunk = Buffer.from(`${'{}'.repeat(100)}word ${i % 10}${'{}'.repeat(100)}`).toString()
      say(meter, chunk.slice(200, 206))
    }
  }
  const chars = meters.length * CHUNKS * 6
  expect(sizeOf() - before).toBeLessThan(10 * chars)
  expect(meters.every((meter) => meter.captured().answer[0]?.length === CHUNKS * 6)).toBe(true)
})

describe('the end of a call', () => {
  const broken = new UpstreamError('broken', 'it broke')
  const failure = (error: UpstreamError): AnswerEvent => ({ kind: 'failure', error })
  test.each([
    ['ok', [text('a'), DONE]],
    ['cut', [text('a'), failure(broken)]],
    ['failed', [failure(broken)]],
    ['cut', [failure(new UpstreamError('aborted', 'the client left'))]],
  ] as const)('is %s', (outcome, events) => {
    expect(listen([...events])).toMatchObject({ outcome })
  })

  test.each([
    ['failed', broken],
    ['failed', new TypeError('a bug')],
    ['cut', new UpstreamError('aborted', 'the client left')],
  ] as const)('is %s where there is no answer', (outcome, error) => {
    const meter = new Meter()
    meter.fail(error)
    expect(meter).toMatchObject({ outcome, error })
  })

  test("is reported once, and later events don't change it", () => {
    const meter = listen([text('a')])
    const ends: (string | null)[] = []
    meter.onEnd = ({ outcome }) => ends.push(outcome)
    meter.end('cut')
    meter.take([DONE])
    meter.fail(broken)
    expect({ ends, error: meter.error }).toEqual({ ends: ['cut'], error: null })
    expect(meter.captured().answer).toEqual(['a'])
  })
})

test('the last of several usage reports counts', () => {
  const usage = (prompt: number, completion: number): AnswerEvent => ({
    kind: 'usage',
    usage: { ...NO_USAGE, prompt, completion },
  })
  const meter = listen([usage(5, 1)], [text('a')], [usage(5, 2)], [usage(5, 3)], [DONE])
  expect(meter.usage).toEqual({ ...NO_USAGE, prompt: 5, completion: 3 })
})

describe('price conditions other than tokens', () => {
  test('are read from the events: the service tier, the charge, and usage of other models', () => {
    const others = [{ model: 'advisor-v1', usage: { ...NO_USAGE, prompt: 7 } }]
    const meter = listen(
      [{ kind: 'mode', mode: 'priority' }],
      [{ kind: 'mode', mode: 'flex' }, text('Hi')],
      [{ kind: 'usage', usage: { ...NO_USAGE, prompt: 3, completion: 1 }, others }],
      [{ kind: 'charged', nanoUsd: 12 }, { kind: 'done' }],
    )
    expect(meter.mode).toBe('flex')
    expect(meter.others).toEqual(others)
    expect(meter.chargedNanoUsd).toBe(12)
  })

  test('a charge covers earlier output: further output makes it invalid', () => {
    const meter = listen([{ kind: 'charged', nanoUsd: 12 }, text('more')])
    expect(meter.chargedNanoUsd).toBeNull()
  })

  test('a later usage report replaces the one before, including other models', () => {
    const others = [{ model: 'advisor-v1', usage: { ...NO_USAGE, prompt: 7 } }]
    const usage = { ...NO_USAGE, prompt: 3 }
    expect(listen([{ kind: 'usage', usage, others }], [{ kind: 'usage', usage }]).others).toEqual([])
  })
})
