/** Costs, checked against a second implementation: BigInt fractions without scaling or assumptions. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { costNanoUsd, findUnpriced, toCharge } from '../../src/domain/price.ts'
import { toAtto } from '../../src/domain/tariff.ts'
import { NO_USAGE, type PricingItem, type Usage } from '../../src/domain/usage.ts'
import { createPicker } from '../support/random.ts'

const toUsage = (fields: Partial<Usage>): Usage => ({ ...NO_USAGE, ...fields })

type Fraction = readonly [bigint, bigint]
const plus = ([a, b]: Fraction, [c, d]: Fraction): Fraction => [a * d + c * b, b * d]
const times = ([a, b]: Fraction, count: number): Fraction => [a * BigInt(count), b]
const toFraction = (decimal: string): Fraction => {
  const [whole = '', places = ''] = decimal.split('.')
  return [BigInt(whole + places), 10n ** BigInt(places.length)]
}
const thousandthOf = ([a, b]: Fraction): Fraction => [a, b * 1_000n]
const roundHalfUp = ([a, b]: Fraction) => Number((2n * a + b) / (2n * b))

describe('a cost', () => {
  test('is the exact sum of tokens times prices, rounded once, half up', () => {
    const pick = createPicker(7)
    const price = () => `0.${String(pick(1_000)).padStart(6 + pick(7), '0')}${pick(10)}${pick(10)}`
    for (let round = 0; round < 2_000; round++) {
      const item = { prompt: price(), completion: price(), input_cache_read: price(), input_cache_write: price() }
      const more = { input_cache_write_1h: price(), internal_reasoning: price(), request: price(), web_search: price() }
      const time = { second: price() }
      const media = { audio: price(), audio_completion: price(), image_token: price(), image_token_completion: price() }
      const some = () => 1 + pick(2e6)
      const [plain, cacheRead, cacheWrite, cacheWrite1h, audioPrompt, imagePrompt] = [
        some(),
        some(),
        some(),
        some(),
        some(),
        some(),
      ]
      const [written, reasoning, audioCompletion, imageCompletion] = [some(), some(), some(), some()]
      const [webSearches, computeMs] = [pick(5), pick(4e6)]
      const usage = toUsage({
        ...{ webSearches, computeMs },
        prompt: plain + cacheRead + cacheWrite + cacheWrite1h + audioPrompt + imagePrompt,
        completion: written + reasoning + audioCompletion + imageCompletion,
        ...{ cacheRead, cacheWrite, cacheWrite1h, audioPrompt, imagePrompt },
        ...{ reasoning, audioCompletion, imageCompletion },
      })
      const usd = [
        times(toFraction(item.prompt), plain),
        times(toFraction(item.input_cache_read), cacheRead),
        times(toFraction(item.input_cache_write), cacheWrite),
        times(toFraction(more.input_cache_write_1h), cacheWrite1h),
        times(toFraction(media.audio), audioPrompt),
        times(toFraction(media.image_token), imagePrompt),
        times(toFraction(item.completion), written),
        times(toFraction(more.internal_reasoning), reasoning),
        times(toFraction(media.audio_completion), audioCompletion),
        times(toFraction(media.image_token_completion), imageCompletion),
        toFraction(more.request),
        times(toFraction(more.web_search), webSearches),
        thousandthOf(times(toFraction(time.second), computeMs)),
      ].reduce(plus)
      expect(costNanoUsd([{ ...item, ...more, ...media, ...time }], usage)).toBe(roundHalfUp(times(usd, 1_000_000_000)))
    }
  })

  const scenarios: [string, PricingItem[], Partial<Usage>, number][] = [
    ['half a nano-dollar rounds up', [{ prompt: '0.0000000005', completion: '0' }], { prompt: 1 }, 1],
    ['less than half rounds down', [{ prompt: '0.000000000499999999', completion: '0' }], { prompt: 1 }, 0],
    [
      'halves add up before they round',
      [{ prompt: '0.0000000005', completion: '0.0000000005' }],
      { prompt: 1, completion: 1 },
      1,
    ],
    ['no pricing is free', [], { prompt: 1_000, completion: 1_000 }, 0],
    [
      'cached tokens cost as prompt where no price says otherwise',
      [{ prompt: '0.000001', completion: '0' }],
      { prompt: 10, cacheRead: 4, cacheWrite: 3, cacheWrite1h: 2 },
      10_000,
    ],
    [
      'an hour of cache costs as a plain cache write where only that has a price',
      [{ prompt: '0', completion: '0', input_cache_write: '0.000001' }],
      { prompt: 5, cacheWrite: 2, cacheWrite1h: 3 },
      5_000,
    ],
    [
      'reasoning costs as completion where no price says otherwise',
      [{ prompt: '0', completion: '0.000001' }],
      { completion: 10, reasoning: 4 },
      10_000,
    ],
    [
      'audio and images cost as text where no price says otherwise',
      [{ prompt: '0.000001', completion: '0.000002' }],
      { prompt: 10, audioPrompt: 4, imagePrompt: 3, completion: 10, audioCompletion: 4, imageCompletion: 3 },
      30_000,
    ],
    [
      'audio in an answer costs as audio in a prompt where only that has a price',
      [{ prompt: '0.000001', completion: '0.000002', audio: '0.00001' }],
      { prompt: 2, audioPrompt: 1, completion: 2, audioCompletion: 1 },
      23_000,
    ],
    [
      'a free cache is free',
      [{ prompt: '0.000001', completion: '0', input_cache_read: '0' }],
      { prompt: 10, cacheRead: 10 },
      0,
    ],
    [
      'a price per request is charged once',
      [{ prompt: '0', completion: '0', request: '0.01' }],
      { prompt: 9 },
      10_000_000,
    ],
    [
      'each search of the web has its fee',
      [{ prompt: '0.000001', completion: '0', web_search: '0.01' }],
      { prompt: 10, webSearches: 3 },
      30_010_000,
    ],
    [
      'each ms of compute costs a thousandth of a second, and half a nano-dollar rounds up',
      [{ prompt: '0', completion: '0', second: '0.0000005' }],
      { prompt: 9, computeMs: 1_001 },
      501,
    ],
    [
      'a ms has an exact price to the last place',
      [{ prompt: '0', completion: '0', second: '0.000000000000001' }],
      { computeMs: 499_999_999 },
      0,
    ],
    [
      'half a nano-dollar of the smallest ms rounds up',
      [{ prompt: '0', completion: '0', second: '0.000000000000001' }],
      { computeMs: 500_000_000 },
      1,
    ],
    [
      'what tools of the provider read costs what the rest of the prompt does',
      [{ prompt: '0.000001', completion: '0' }],
      { prompt: 10, toolPrompt: 7 },
      10_000,
    ],
    [
      'of tokens that were both read from a cache and written to it none is lost, and each is paid for both',
      [{ prompt: '0.001', completion: '0', input_cache_read: '0.0001', input_cache_write: '0.00125' }],
      { prompt: 1_000, cacheRead: 700, cacheWrite: 900 },
      // 100 plain, 700 read, 900 written
      100_000_000 + 70_000_000 + 1_125_000_000,
    ],
    [
      'parts larger than their whole never make it negative',
      [{ prompt: '1', completion: '1', input_cache_read: '0' }],
      { prompt: 1, cacheRead: 5, completion: 1, reasoning: 1 },
      1_000_000_000,
    ],
  ]
  for (const [name, pricing, usage, cost] of scenarios) {
    test(name, () => expect(costNanoUsd(pricing, toUsage(usage))).toBe(cost))
  }

  test('comes from the last tier whose condition holds: strictly more tokens', () => {
    const pricing: PricingItem[] = [
      { prompt: '0.000001', completion: '0' },
      { prompt: '0.000002', completion: '0', min_prompt_tokens: 100 },
      { prompt: '0.000003', completion: '0', min_prompt_tokens: 200 },
    ]
    const costs = [100, 101, 200, 201].map((prompt) => costNanoUsd(pricing, toUsage({ prompt })))
    expect(costs).toEqual([100_000, 202_000, 400_000, 603_000])
  })

  test('counts cached tokens to choose the tier, and charges them by that tier', () => {
    const pricing: PricingItem[] = [
      { prompt: '0.00000125', completion: '0', input_cache_read: '0.000000125' },
      { prompt: '0.0000025', completion: '0', input_cache_read: '0.00000025', min_prompt_tokens: 200_000 },
    ]
    // 50,001 of the prompt are uncached: these would only reach the lower tier.
    expect(costNanoUsd(pricing, toUsage({ prompt: 200_001, cacheRead: 150_000 }))).toBe(50_001 * 2_500 + 150_000 * 250)
  })
})

describe('a mode', () => {
  const pricing: PricingItem[] = [
    { prompt: '0.000002', completion: '0.00001', input_cache_read: '0.0000002' },
    { prompt: '0.000004', completion: '0.00002', min_prompt_tokens: 100 },
    { prompt: '0.000001', completion: '0.000005', mode: 'flex' },
    { prompt: '0.000005', completion: '0.00003', mode: 'priority' },
    { prompt: '0.00001', completion: '0.00006', mode: 'priority', min_prompt_tokens: 100 },
  ]
  const short = toUsage({ prompt: 100, cacheRead: 50, completion: 10 })
  const long = toUsage({ prompt: 101, completion: 10 })
  const scenarios: [string, string | null, Usage, number, string[]][] = [
    ['served as most are', null, short, 50 * 2_000 + 50 * 200 + 10 * 10_000, []],
    ['in flex, the whole of it', 'flex', short, 100 * 1_000 + 10 * 5_000, []],
    ['dearer', 'priority', short, 100 * 5_000 + 10 * 30_000, []],
    ['dearer and long', 'priority', long, 101 * 10_000 + 10 * 60_000, []],
    ['in a mode of no price, the usual one', 'fast+us', short, 50 * 2_000 + 50 * 200 + 10 * 10_000, ['mode']],
    ['in two, of which one has prices', 'priority+us', short, 100 * 5_000 + 10 * 30_000, ['mode']],
    ['in two, of which the one is cheap', 'flex+us', short, 50 * 2_000 + 50 * 1_000 + 10 * 10_000, ['mode']],
    ['in two that have prices, each price the dearest', 'flex+priority', short, 100 * 5_000 + 10 * 30_000, ['mode']],
    ['in two, and long', 'priority+us', long, 101 * 10_000 + 10 * 60_000, ['mode']],
    ['in a mode that has none for this length, the usual one', 'flex', long, 101 * 4_000 + 10 * 20_000, ['mode']],
  ]
  for (const [name, mode, usage, cost, unpriced] of scenarios) {
    test(`${name}, costs its listed prices, and missing prices are named`, () => {
      expect(costNanoUsd(pricing, usage, mode)).toBe(cost)
      expect(findUnpriced(pricing, usage, mode)).toEqual(unpriced as never)
      expect(toCharge(pricing, usage, mode)).toMatchObject({ nanoUsd: cost, unpriced })
    })
  }
})

test('a mode without a price for this length costs the higher of its own and the standard price, for each price', () => {
  const pricing: PricingItem[] = [
    { prompt: '0.000001', completion: '0.00001' },
    { prompt: '0.000002', completion: '0.00002', min_prompt_tokens: 100 },
    { prompt: '0.000003', completion: '0.000005', audio: '0.000009', mode: 'fast' },
  ]
  const usage = toUsage({ prompt: 101, completion: 10, audioPrompt: 1, reasoning: 1 })
  expect(toCharge(pricing, usage, 'fast')).toMatchObject({
    nanoUsd: 100 * 3_000 + 9_000 + 10 * 20_000,
    lines: [{ price: 'prompt' }, { price: 'audio' }, { price: 'completion' }, { price: 'completion' }],
    unpriced: ['mode'],
  })
})

test('combined modes with their own price cost that price', () => {
  const price = { prompt: '0.00001', completion: '0' }
  const pricing: PricingItem[] = [price, { ...price, prompt: '0.00003', mode: 'fast' }, { ...price, mode: 'fast+us' }]
  expect(toCharge(pricing, toUsage({ prompt: 1 }), 'fast+us')).toMatchObject({ nanoUsd: 10_000, unpriced: [] })
})

describe('usage without a price', () => {
  const text: PricingItem[] = [{ prompt: '0.000001', completion: '0.000002' }]
  const whole: PricingItem[] = [
    { ...text[0], prompt: '1', completion: '1', audio: '1', image_token_completion: '1', web_search: '0.01' },
  ]
  const scenarios: [string, PricingItem[], Partial<Usage>, string[]][] = [
    ['nothing of a call of text', text, { prompt: 5, cacheRead: 1, completion: 3, reasoning: 1 }, []],
    [
      'what is written to a cache, however long it is kept',
      text,
      { prompt: 5, cacheWrite: 1, cacheWrite1h: 1 },
      ['input_cache_write', 'input_cache_write_1h'],
    ],
    [
      'what is kept for an hour, where five minutes have a price',
      [{ ...text[0], prompt: '1', completion: '1', input_cache_write: '1.25' }],
      { prompt: 5, cacheWrite: 2, cacheWrite1h: 3 },
      ['input_cache_write_1h'],
    ],
    ['nothing of an image that is read, which costs as text', text, { prompt: 5, imagePrompt: 4 }, []],
    ['a search', text, { prompt: 5, webSearches: 1 }, ['web_search']],
    [
      'audio, either way',
      text,
      { prompt: 5, audioPrompt: 4, completion: 5, audioCompletion: 4 },
      ['audio', 'audio_completion'],
    ],
    ['an image that is written', text, { completion: 5, imageCompletion: 4 }, ['image_token_completion']],
    [
      'nothing where all of them have one',
      whole,
      { prompt: 5, audioPrompt: 4, completion: 9, audioCompletion: 4, imageCompletion: 4, webSearches: 2 },
      [],
    ],
    ['nothing of what is free as a whole', [], { prompt: 5, audioPrompt: 4, webSearches: 1 }, []],
    [
      'nothing of what costs its time alone',
      [{ prompt: '0', completion: '0.0', second: '0.0005' }],
      { prompt: 5, audioPrompt: 4, webSearches: 1 },
      [],
    ],
    [
      'a search of what costs its time and tokens',
      [{ prompt: '0', completion: '0.000001', second: '0.0005' }],
      { prompt: 5, webSearches: 1 },
      ['web_search'],
    ],
    ['a search of what has prices of nothing', [{ prompt: '0', completion: '0' }], { webSearches: 1 }, ['web_search']],
  ]
  for (const [name, pricing, usage, unpriced] of scenarios) {
    test(`is ${name}`, () => expect(findUnpriced(pricing, toUsage(usage))).toEqual(unpriced as never))
  }
})

test("a price that isn't a plain decimal is rejected", () => {
  for (const text of ['', '-1', '1e-7', '.5', '1.', '0.0000000000000000001', 'NaN', '1,5', ' 1']) {
    expect(() => toAtto(text)).toThrow(RangeError)
  }
})

test('fast sums are as exact as slow ones, up to their limit', () => {
  const decimals = fc
    .tuple(fc.integer({ min: 0, max: 9 }), fc.nat({ max: 18 }), fc.bigInt(0n, 10n ** 18n - 1n))
    .map(([whole, places, digits]) =>
      places === 0 ? `${whole}` : `${whole}.${String(digits).padStart(18, '0').slice(0, places)}`,
    )
  const tokens = fc.oneof(fc.nat({ max: 100 }), fc.nat({ max: 2_000_000 }), fc.nat({ max: 2 ** 31 - 1 }))
  fc.assert(
    fc.property(decimals, decimals, tokens, tokens, (prompt, completion, read, written) => {
      const cost = costNanoUsd([{ prompt, completion }], toUsage({ prompt: read, completion: written }))
      const atto = toAtto(prompt) * BigInt(read) + toAtto(completion) * BigInt(written)
      expect(cost).toBe(Number((atto + 500_000_000n) / 1_000_000_000n))
    }),
    { numRuns: 2_000 },
  )
})

test('a charge breakdown names each price that applies, and its lines add up to the charge', () => {
  const pricing: PricingItem[] = [
    { prompt: '0.000001', completion: '0.000002', request: '0.01' },
    { prompt: '0.000002', completion: '0.000004', input_cache_write: '0.0000025', min_prompt_tokens: 100 },
  ]
  const usage = toUsage({ prompt: 201, cacheRead: 50, cacheWrite1h: 50, completion: 7, reasoning: 5 })
  expect(toCharge(pricing, usage)).toEqual({
    item: pricing[1] as PricingItem,
    lines: [
      { kind: 'prompt', count: 101, price: 'prompt', usdEach: '0.000002', usd: '0.000202' },
      { kind: 'cacheRead', count: 50, price: 'prompt', usdEach: '0.000002', usd: '0.0001' },
      { kind: 'cacheWrite1h', count: 50, price: 'input_cache_write', usdEach: '0.0000025', usd: '0.000125' },
      { kind: 'completion', count: 2, price: 'completion', usdEach: '0.000004', usd: '0.000008' },
      { kind: 'reasoning', count: 5, price: 'completion', usdEach: '0.000004', usd: '0.00002' },
    ],
    usd: '0.000455',
    nanoUsd: 455_000,
    unpriced: ['input_cache_write_1h'],
  })
  expect(toCharge(pricing, NO_USAGE).lines).toMatchObject([{ kind: 'request', usd: '0.01' }])
  const timed: PricingItem[] = [{ prompt: '0', completion: '0', second: '0.0005' }]
  expect(toCharge(timed, toUsage({ computeMs: 1_234 }))).toMatchObject({
    lines: [{ kind: 'computeMs', count: 1_234, price: 'second', usdEach: '0.0005', usd: '0.000617' }],
    ...{ usd: '0.000617', nanoUsd: 617_000, unpriced: [] },
  })
  expect(toCharge([], usage)).toEqual({ item: null, lines: [], usd: '0', nanoUsd: 0, unpriced: [] })
})
