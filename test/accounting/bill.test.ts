/**
 * Cost of an interrupted call, whoever ended it: one rule, wherever its usage was not received. The test controls the
 * clock.
 */
import { describe, expect, test } from 'bun:test'
import { toBill } from '../../src/accounting/bill.ts'
import { Meter } from '../../src/accounting/meter.ts'
import { endedBy, UpstreamError } from '../../src/domain/error.ts'
import type { AnswerEvent } from '../../src/domain/events.ts'
import type { Feature } from '../../src/domain/models.ts'
import type { Lane } from '../../src/domain/task.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import type { Counter } from '../../src/tokens/count.ts'
import { DONE, text } from '../support/answers.ts'
import { toTarget } from '../support/snapshot.ts'

/** Ten input tokens, and one output token per character. */
const counter: Counter = {
  async usage(_, __, { answer, reasoning }) {
    const thought = reasoning.join('').length
    return { ...NO_USAGE, prompt: 10, completion: answer.join('').length + thought, reasoning: thought }
  },
  bound: async () => null,
  prompt: async () => 10,
  close() {},
}

const failure = (error: UpstreamError): AnswerEvent => ({ kind: 'failure', error })
const passed = (deadline: string) => failure(new UpstreamError('deadline', 'it passed', { deadline }))
const broken = failure(new UpstreamError('broken', 'it broke'))
const tooLong = failure(new UpstreamError('broken', 'it was too long', { isTooLong: true }))
const left = failure(endedBy('disconnected'))
const usage = (completion: number): AnswerEvent => ({ kind: 'usage', usage: { ...NO_USAGE, prompt: 10, completion } })
const written = (completion: number): AnswerEvent => ({ kind: 'usage', usage: { ...NO_USAGE, completion } })
const thought: AnswerEvent = { kind: 'reasoning', choice: 0, text: 'hm' }
const summary: AnswerEvent = { ...thought, details: [{ type: 'reasoning.summary', summary: 'hm', index: 0 }] }

/** After two seconds at 100 tokens per second, with a model that writes 1,000 at most. */
const UNSEEN = 200

test.each<[string, AnswerEvent[], { stream: boolean; thinks: boolean }, prompt: number, completion: number]>([
  ['answered without usage', [text('abc'), DONE], { stream: true, thinks: true }, 10, 3],
  ['was left in the middle', [text('abc'), left], { stream: true, thinks: false }, 10, 3],
  ['was left by a thinker’s client', [text('abc'), left], { stream: true, thinks: true }, 10, UNSEEN],
  ['was left while it thought aloud', [thought, left], { stream: true, thinks: true }, 10, 2],
  ['was left after its usage', [text('abc'), usage(7), left], { stream: true, thinks: true }, 10, 7],
  ['was left after words that follow it', [usage(7), text('abc'), left], { stream: true, thinks: true }, 10, UNSEEN],
  ['was left after a report before its first word', [usage(1), left], { stream: true, thinks: true }, 10, UNSEEN],
  [
    'was left after a summary of its thoughts',
    [summary, text('abc'), left],
    { stream: true, thinks: true },
    10,
    UNSEEN,
  ],
  ['was left while whole', [left], { stream: false, thinks: false }, 10, UNSEEN],
  ['reported that its words are none', [text('abc'), usage(0), DONE], { stream: true, thinks: false }, 10, 3],
  ['reported what it wrote alone', [text('abc'), written(2), DONE], { stream: true, thinks: false }, 10, 2],
  ['was too long to be read whole', [tooLong], { stream: false, thinks: false }, 10, UNSEEN],
  ['was too long to be read at once', [tooLong], { stream: true, thinks: false }, 10, UNSEEN],
  ['broke off in the middle', [text('abc'), broken], { stream: true, thinks: false }, 10, 3],
  ['broke off in a thinker’s answer', [text('abc'), broken], { stream: true, thinks: true }, 10, UNSEEN],
  ['broke before the first word', [broken], { stream: true, thinks: true }, 0, 0],
  ['was silent after its headers', [passed('first_token')], { stream: true, thinks: false }, 10, 0],
  ['thought for too long', [passed('first_token')], { stream: true, thinks: true }, 10, UNSEEN],
  ['took too long for a whole answer', [passed('total_whole')], { stream: false, thinks: false }, 10, UNSEEN],
  ['did not begin a stream', [passed('headers')], { stream: true, thinks: true }, 0, 0],
])('a call that %s', async (_, events, { stream, thinks }, prompt, completion) => {
  let nowMs = 0
  const meter = new Meter(() => nowMs)
  nowMs = 2_000
  meter.take(events)
  nowMs = 60_000
  const features: Feature[] = thinks ? ['reasoning'] : []
  const target = { ...toTarget(), features }
  target.upstream.options = { ...target.upstream.options, max_tokens_per_second: 100 }
  const body = { model: 'm', messages: [], stream }
  const bill = await toBill({ lane: 'translated', target, body, meter }, 'cut', counter, 'k1')
  const { usage: billed, estimated } = bill
  expect({ prompt: billed.prompt, completion: billed.completion }).toEqual({ prompt, completion })
  expect(estimated).toBe(prompt > 0)
})

test("hidden output is limited by the request's cap, else by the model's maximum output", async () => {
  const billedFor = async (body: object) => {
    let nowMs = 0
    const meter = new Meter(() => nowMs)
    nowMs = 3_600_000
    meter.take([left])
    const bill = await toBill(
      { lane: 'translated', target: toTarget(), body: { model: 'm', messages: [], ...body }, meter },
      'cut',
      counter,
      'k',
    )
    return bill.usage.completion
  }
  expect(await billedFor({})).toBe(1_000)
  expect(await billedFor({ max_tokens: 50 })).toBe(50)
  expect(await billedFor({ max_completion_tokens: 5_000 })).toBe(1_000)
  expect(await billedFor({ max_tokens: 50, n: 3 })).toBe(150)
})

describe('usage of other models within a call', () => {
  const pricing = [{ prompt: '0.000001', completion: '0.000002', web_search: '0.01' }]
  const dear = { pricing: [{ prompt: '0.00001', completion: '0.00002' }], priceId: 'dear' }
  const billed = async (model: string, more: AnswerEvent[] = [], own = pricing) => {
    const meter = new Meter(() => 0)
    const others = [{ model, usage: { ...NO_USAGE, prompt: 100, completion: 10, webSearches: 1 } }]
    meter.take([{ kind: 'usage', usage: { ...NO_USAGE, prompt: 10, completion: 5 }, others }, ...more, DONE])
    const target = { ...toTarget({ prices: new Map([['advisor-1', dear]]) }), pricing: own, priceId: 'own' }
    return toBill({ lane: 'translated', target, body: { model: 'm', messages: [] }, meter }, 'ok', counter, 'k')
  }

  test.each(['advisor-1', 'advisor-1-20260102', 'advisor-1-2026-01-02'])(
    'costs what it costs there: %s',
    async (model) => {
      const { costNanoUsd, isUnpriced, nested } = await billed(model)
      expect({ costNanoUsd, isUnpriced }).toEqual({ costNanoUsd: 10 * 1_000 + 5 * 2_000, isUnpriced: false })
      expect(nested).toMatchObject([
        // Its searches have no price of their own.
        { upstreamModel: model, priceId: 'dear', costNanoUsd: 100 * 10_000 + 10 * 20_000, isUnpriced: true },
      ])
    },
  )

  test("costs the same as the called model's, and is marked, if it has no price", async () => {
    expect((await billed('stranger')).nested).toMatchObject([
      {
        upstreamModel: 'stranger',
        priceId: 'own',
        costNanoUsd: 100 * 1_000 + 10 * 2_000 + 10_000_000,
        isUnpriced: true,
      },
    ])
    expect((await billed('stranger', [], [])).nested).toMatchObject([{ costNanoUsd: 0, isUnpriced: false }])
  })

  test("is charged once if the call was interrupted after another model's report that took over", async () => {
    const meter = new Meter(() => 0)
    const others = [{ model: 'advisor-1', usage: { ...NO_USAGE, prompt: 100, completion: 10 } }]
    meter.take([text('abc'), { kind: 'usage', usage: NO_USAGE, others }, left])
    const target = { ...toTarget({ prices: new Map([['advisor-1', dear]]) }), pricing, priceId: 'own' }
    const body = { model: 'm', messages: [], stream: true }
    const bill = await toBill({ lane: 'translated', target, body, meter }, 'cut', counter, 'k')
    expect(bill).toMatchObject({ costNanoUsd: 0, nested: [{ costNanoUsd: 100 * 10_000 + 10 * 20_000 }] })
  })

  test('is part of the call if the upstream reports the total cost', async () => {
    expect(await billed('advisor-1', [{ kind: 'charged', nanoUsd: 7 }])).toMatchObject({
      ...{ usage: { prompt: 110, completion: 15, webSearches: 1 }, costNanoUsd: 7, reportedNanoUsd: 7, nested: [] },
    })
  })
})

test.each([
  ['asked for an hour', { cache_control: { type: 'ephemeral', ttl: '1h' } }, 0, 21_000],
  ['asked for no time', { cache_control: { type: 'ephemeral' } }, 0, 13_000],
  ['only wrote of an hour', { text: 'say "ttl":"1h"' }, 0, 13_000],
  ['is told what was kept for how long', { cache_control: { ttl: '1h' } }, 1, 14_000],
])('what is written to a cache for a client that %s', async (_, more, cacheWrite1h, cost) => {
  const meter = new Meter(() => 0)
  const written = { ...NO_USAGE, prompt: 10, cacheWrite: 8 - cacheWrite1h, cacheWrite1h }
  meter.take([{ kind: 'usage', usage: written }, DONE])
  const price = { input_cache_write: '0.000001375', input_cache_write_1h: '0.000002375' }
  const target = { ...toTarget(), pricing: [{ prompt: '0.000001', completion: '0', ...price }] }
  const content = [{ type: 'text' as const, text: 'hi', ...more }]
  const body = { model: 'm', messages: [{ role: 'user' as const, content }] }
  const { costNanoUsd } = await toBill({ lane: 'translated', target, body, meter }, 'ok', counter, 'k')
  expect(costNanoUsd).toBe(cost)
})

test.each([
  ['an hour', '1h', true],
  ['no time', undefined, false],
])(
  'what is written to a cache for %s is marked where only five minutes have a price: %s',
  async (_, ttl, isUnpriced) => {
    const meter = new Meter(() => 0)
    meter.take([{ kind: 'usage', usage: { ...NO_USAGE, prompt: 10, cacheWrite: 8 } }, DONE])
    const target = {
      ...toTarget(),
      pricing: [{ prompt: '0.000001', completion: '0', input_cache_write: '0.00000125' }],
    }
    const content = [{ type: 'text' as const, text: 'hi', cache_control: { type: 'ephemeral', ttl } }]
    const body = { model: 'm', messages: [{ role: 'user' as const, content }] }
    expect(await toBill({ lane: 'translated', target, body, meter }, 'ok', counter, 'k')).toMatchObject({
      costNanoUsd: 12_000,
      isUnpriced,
    })
  },
)

describe('a web search that its upstream does not count', () => {
  const cited: AnswerEvent = { kind: 'annotations', choice: 0, items: [{ type: 'url_citation', index: 0 }] }
  const bill = (events: AnswerEvent[], more: object, prices: object, lane: Lane = 'translated') => {
    const meter = new Meter(() => 0)
    meter.take([text('abc'), ...events, DONE])
    const target = { ...toTarget(), pricing: [{ prompt: '0.000001', completion: '0.000002', ...prices }] }
    return toBill({ lane, target, body: { model: 'm', messages: [], ...more }, meter }, 'ok', counter, 'k1')
  }
  const charged = 10 * 1_000 + 3 * 2_000

  test('is one, if the response cites results or a search was requested', async () => {
    const searched = { usage: { webSearches: 1 }, estimated: true }
    for (const [events, more] of [
      [[cited, usage(3)], {}],
      [[usage(3)], { web_search_options: {} }],
      [[cited], {}],
    ] as const) {
      const priced = await bill([...events], more, { web_search: '0.025' })
      expect(priced).toMatchObject({ ...searched, isUnpriced: false, costNanoUsd: charged + 25_000_000 })
      expect(await bill([...events], more, {})).toMatchObject({ ...searched, isUnpriced: true, costNanoUsd: charged })
    }
  })

  test('is none if a passthrough response reports each', async () => {
    const told = await bill([cited, usage(3)], { web_search_options: {} }, {}, 'native')
    expect(told).toMatchObject({ usage: { webSearches: 0 }, estimated: false, isUnpriced: false })
  })

  test('is none if nothing from the web is cited, or the charge is reported', async () => {
    const file: AnswerEvent = { kind: 'annotations', choice: 0, items: [{ type: 'file_citation', index: 0 }] }
    expect(await bill([file, usage(3)], { web_search_options: null }, {})).toMatchObject({
      ...{ usage: { webSearches: 0 }, estimated: false, isUnpriced: false, costNanoUsd: charged },
    })
    expect(await bill([cited, usage(3), { kind: 'charged', nanoUsd: 7 }], {}, {})).toMatchObject({
      ...{ isUnpriced: false, costNanoUsd: 7 },
    })
  })
})
