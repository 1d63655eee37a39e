/** A call's maximum cost before its usage is known. */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { toMostComputeMs } from '../../src/accounting/bill.ts'
import { askForAll, askForAny, isLike, toMostNanoUsd, toReserve } from '../../src/accounting/cost.ts'
import { DEFAULT_DEADLINES } from '../../src/domain/deadlines.ts'
import { costNanoUsd } from '../../src/domain/price.ts'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { NO_USAGE, type PricingItem } from '../../src/domain/usage.ts'
import { createCounter } from '../../src/tokens/count.ts'
import { estimate } from '../../src/tokens/estimate.ts'
import { toTarget } from '../support/snapshot.ts'

const counter = createCounter()
afterAll(() => counter.close())

test('the maximum cost assumes that the prompt is written to a cache for the longest priced lifetime', () => {
  const body = { model: 'm', messages: [] }
  const most = (more: Partial<PricingItem>) =>
    toMostNanoUsd({ ...toTarget(), pricing: [{ prompt: '0.000001', completion: '0', ...more }] }, 10, 5, body)
  const write = { input_cache_write: '0.000002' }
  expect([{}, write, { ...write, input_cache_write_1h: '0.000003' }].map(most)).toEqual([10_000, 20_000, 30_000])
  expect(most({ input_cache_write_1h: '0.000003' })).toBe(30_000)
})

describe('the maximum cost', () => {
  const base = { prompt: '0.000001', completion: '0.000002' }

  test.each([
    ['a whole answer', false, 20_000],
    ['a stream', true, 30_000],
  ])('has all the time that %s may take', (_, stream, ms) => {
    const target = toTarget({ deadlines: { ...DEFAULT_DEADLINES, total: 30_000, totalWhole: 20_000 } })
    const body = { model: 'm', messages: [], stream }
    const most = toMostNanoUsd({ ...target, pricing: [{ ...base, second: '0.0005' }] }, 10, 5, body)
    expect(most).toBe(20_000 + ms * 500)
    expect(toMostNanoUsd({ ...target, pricing: [base] }, 10, 5, body)).toBe(20_000)
  })

  test('uses the time of the slower of two servers with the same price', () => {
    const pricing = [{ ...base, second: '0.0005' }]
    const body = { model: 'm', messages: [], max_tokens: 5 }
    const planOf = (totalWhole: number) => ({
      ...{ outputTokens: 5, likelyTokens: 5 },
      target: { ...toTarget({ deadlines: { ...DEFAULT_DEADLINES, totalWhole } }), pricing },
      ...{ body, promptTokens: 10, calls: 1 },
    })
    const [one, other] = [planOf(1_000), planOf(9_000)]
    expect([isLike(one, other), isLike(one, one)]).toEqual([false, true])
    expect(askForAny(counter, 'key', [one, other], 10).nanoUsd).toBe(20_000 + 9_000 * 500)
  })

  test('uses the most expensive mode', () => {
    const pricing = [
      base,
      { prompt: '0.0000005', completion: '0.000001', mode: 'flex' },
      { prompt: '0.000006', completion: '0.00001', input_cache_write: '0.0000075', mode: 'fast' },
    ]
    const most = toMostNanoUsd({ ...toTarget(), pricing, features: [] }, 10, 5, { model: 'm', messages: [] })
    expect(most).toBe(10 * 7_500 + 5 * 10_000)
  })

  test('is no less than the cost of any call of that size, however it is served', () => {
    const price = fc.nat({ max: 50 }).map((micro) => `0.0000${String(micro).padStart(2, '0')}`)
    const cache = { input_cache_read: price, input_cache_write: price, input_cache_write_1h: price }
    const item: fc.Arbitrary<PricingItem> = fc.record(
      { prompt: price, completion: price, internal_reasoning: price, second: price, ...cache },
      { requiredKeys: ['prompt', 'completion'] },
    )
    const sheet = fc
      .tuple(item, item, item, item, item)
      .map(([usual, long, flex, fast, fastLong]) => [
        ...[usual, { ...long, min_prompt_tokens: 100 }, { ...flex, mode: 'flex' }, { ...fast, mode: 'fast' }],
        { ...fastLong, mode: 'fast', min_prompt_tokens: 150 },
      ])
    const part = fc.nat({ max: 60 })
    const [target, body] = [
      { ...toTarget(), features: [] },
      { model: 'm', messages: [] },
    ]
    const used = fc.record({ plain: part, cacheRead: part, cacheWrite: part, cacheWrite1h: part, completion: part })
    const mode = fc.constantFrom(null, 'flex', 'fast', 'us', 'fast+us', 'fast+flex')
    fc.assert(
      fc.property(sheet, used, fc.boolean(), mode, (pricing, { plain, ...read }, thinks, served) => {
        const prompt = plain + read.cacheRead + read.cacheWrite + read.cacheWrite1h
        const computeMs = toMostComputeMs(target.upstream, { stream: false })
        const usage = { ...NO_USAGE, ...read, prompt, computeMs, reasoning: thinks ? read.completion : 0 }
        const most = toMostNanoUsd({ ...target, pricing }, prompt, read.completion, body)
        expect(most).toBeGreaterThanOrEqual(costNanoUsd(pricing, usage, served))
      }),
      { numRuns: 1_000 },
    )
  })

  test.each([
    ['nothing searches', [], {}, 0],
    ['the model searches by itself', ['web_search'], {}, 10],
    ['it is asked to', [], { web_search_options: {} }, 10],
    ['a plugin may', [], { plugins: [{ id: 'web' }] }, 10],
    [
      'a tool of the provider may',
      [],
      { tools: [{ type: 'function', function: { name: 'f' }, google_search: {} }] },
      10,
    ],
  ] as const)('has the fees of its searches: %s', (_, features, more, searches) => {
    const pricing = [{ ...base, web_search: '0.01' }]
    const body = { model: 'm', messages: [], ...more } as unknown as CanonicalRequest
    expect(toMostNanoUsd({ ...toTarget(), pricing, features }, 10, 5, body)).toBe(20_000 + searches * 10_000_000)
  })
})

test('a count also has the charge after a kill, for a text with fewer tokens than estimated', async () => {
  const pricing = [{ prompt: '0.000001', completion: '0.000001' }]
  const target = { ...toTarget(), upstreamModel: 'gpt-5', pricing }
  const body = { model: 'm', messages: [{ role: 'user' as const, content: ' '.repeat(4_000) }], max_tokens: 10 }
  const estimated = estimate(body, target.maxOutputLength)
  const reserve = toReserve(target, estimated, body)
  const plan = {
    ...{ target, body, promptTokens: estimated.promptTokens, calls: 1 },
    ...{ outputTokens: estimated.completionTokens, likelyTokens: estimated.completionTokens },
  }
  const asks = [
    askForAny(counter, 'key', [plan], 4_000),
    askForAll(counter, 'key', reserve, true, [], [{ target, body, reserve }]),
  ]
  for (const { counting } of asks) {
    const cost = await counting?.count()
    expect(cost?.likelyNanoUsd).toBeLessThan(reserve.reservedNanoUsd)
    expect(cost?.reservedNanoUsd).toBe(reserve.reservedNanoUsd)
  }
})
