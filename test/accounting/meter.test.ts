/** What a call used, read off what its upstream sent: the same whole and streamed, whatever the upstream sends. */
import { describe, expect, test } from 'bun:test'
import { createMeter, heardOf, watch } from '../../src/accounting/meter.ts'
import { toEvents } from '../../src/delivery/events.ts'
import type { AnswerEvent, Choice, Completion } from '../../src/domain/answer.ts'
import { UpstreamError } from '../../src/domain/error.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'

const chunk = (delta: unknown, index = 0): AnswerEvent => ({
  chunk: { choices: [{ index, delta, finish_reason: null }] } as never,
})

async function* stream(...batches: AnswerEvent[][]) {
  yield* batches
}

async function listen(...batches: AnswerEvent[][]) {
  const meter = createMeter()
  const answer = watch(meter, { kind: 'stream', events: stream(...batches) })
  if (answer.kind === 'stream') for await (const _ of answer.events);
  return meter
}

const completion: Completion = {
  choices: [
    { content: 'Hello ', reasoning: 'Hm. ', refusal: null },
    {
      content: null,
      refusal: 'No.',
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }],
    },
  ].map(
    (message, index): Choice =>
      ({ index, message: { role: 'assistant', ...message }, finish_reason: 'stop', logprobs: null }) as Choice,
  ),
}
const said = { answer: ['Hello ', 'No.look{"at":1}'], reasoning: ['Hm. '], moreAnswer: 0, moreReasoning: 0 }

describe('what was said', () => {
  test('is the same whole and streamed, choice by choice', async () => {
    const whole = createMeter()
    watch(whole, { kind: 'whole', completion })
    expect(heardOf(whole)).toEqual(said)
    expect(heardOf(await listen(toEvents(completion)))).toEqual(said)
  })

  test('of choices that come interleaved is told apart', async () => {
    const meter = await listen(
      [chunk({ content: 'a' }), chunk({ content: '1' }, 1)],
      [chunk({ content: 'b' }), chunk({ content: '2' }, 1)],
    )
    expect(heardOf(meter).answer).toEqual(['ab', '12'])
  })

  test.each([[null], [7], [{ content: 7 }], [{ tool_calls: [null, 7, { function: 'f' }] }], [{ function_call: 'f' }]])(
    'as %j is passed over',
    async (delta) => {
      expect(heardOf(await listen([chunk(delta)])).answer).toEqual([])
    },
  )

  test('beyond what is kept is counted in bytes, cut or in one piece', async () => {
    const long = '\u{1F98A}'.repeat(40_000)
    const once = heardOf(await listen([chunk({ content: long })]))
    const pieces = heardOf(await listen([...long].map((content) => chunk({ content }))))
    expect(once).toEqual(pieces)
    expect(Buffer.byteLength(once.answer.join('')) + once.moreAnswer).toBe(160_000)
  })
})

describe('how a call ended', () => {
  const broken = new UpstreamError('broken', 'it broke')
  test.each([
    ['ok', [chunk({ content: 'a' }), { done: true } as const]],
    ['cut', [chunk({ content: 'a' }), { failure: broken }]],
    ['failed', [chunk({ role: 'assistant' }), { failure: broken }]],
    ['cut', [{ failure: new UpstreamError('aborted', 'the client left') }]],
  ])('is %s', async (end, events) => {
    expect(await listen(events)).toMatchObject({ end })
  })

  test('is a cut where its reader leaves', async () => {
    const meter = createMeter()
    const answer = watch(meter, { kind: 'stream', events: stream([chunk({ content: 'a' })], [{ done: true }]) })
    if (answer.kind === 'stream') for await (const _ of answer.events) break
    expect(meter.end).toBe('cut')
    expect(heardOf(meter).answer).toEqual(['a'])
  })
})

test('usage that comes in pieces, or again and again, is what was said last of each figure', async () => {
  const { usage } = await listen([
    { usage: { prompt: 5, completion: 1 } },
    chunk({ content: 'a' }),
    { usage: { completion: 2 } },
    { usage: { completion: 3 } },
    { done: true },
  ])
  expect(usage).toEqual({ ...NO_USAGE, prompt: 5, completion: 3 })
})
