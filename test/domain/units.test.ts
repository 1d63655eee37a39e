/** Costs of units other than tokens, worked out by hand, for each provider's billing. */
import { describe, expect, test } from 'bun:test'
import { chargeBy, costNanoUsd, findUnpriced, toCharge } from '../../src/domain/price.ts'
import { toMaxTariff, toPricedMode } from '../../src/domain/tariff.ts'
import { NO_USAGE, type PricingItem, type Usage, type Variant } from '../../src/domain/usage.ts'
import { createPicker } from '../support/random.ts'

const FREE = { prompt: '0', completion: '0' }
const toItems = (...items: Partial<PricingItem>[]) => items.map((item) => ({ ...FREE, ...item }))
const used = (fields: Partial<Usage>): Usage => ({ ...NO_USAGE, ...fields })

const WHISPER = toItems({ audio_second: '0.0001', audio_step_seconds: 1 })
const GROQ = toItems({ audio_second: '0.00001111', audio_min_seconds: 10 })
const BOTH = toItems({ prompt: '0.0000025', audio: '0.000006', completion: '0.00001', audio_second: '0.0001' })
const MINI_TTS = toItems({ prompt: '0.0000006', audio_completion: '0.000012' })
const TOKENS = toItems({ prompt: '0.0000025', audio: '0.000006', completion: '0.00001' })
const GPT_IMAGE = toItems({ prompt: '0.000005', image_token: '0.00001', image_token_completion: '0.00004' })
const BY_SIZE = toItems(
  {},
  { generated_image: '0.011', size: '1024x1024', quality: 'low' },
  { generated_image: '0.167', size: '1024x1024', quality: 'high' },
  { generated_image: '0.25', size: '1536x1024', quality: 'high' },
)
const IMAGE_TOKENS = { prompt: 423, imagePrompt: 400, completion: 1_056, imageCompletion: 1_056, images: 1 }
const FLAT = toItems({ generated_image: '0.025' })
const HD = toItems({ generated_image: '0.04' }, { generated_image: '0.08', quality: 'hd' })

describe('the charge for', () => {
  test.each<[string, PricingItem[], Partial<Usage>, number]>([
    ['8.47 s by whole seconds', WHISPER, { audioMs: 8_470 }, 900_000],
    ['9 s by whole seconds', WHISPER, { audioMs: 9_000 }, 900_000],
    ['1 s with a minimum of 10 s', GROQ, { audioMs: 1_000 }, 111_100],
    ['36.7 s with a minimum of 10 s', GROQ, { audioMs: 36_700 }, 407_737],
    ['no audio with a minimum', GROQ, { prompt: 3 }, 0],
    ['seconds where tokens have a price too', BOTH, { audioMs: 1_500 }, 150_000],
    ['tokens where seconds have a price too', BOTH, { prompt: 14, audioPrompt: 10, completion: 4 }, 110_000],
    ['speech by tokens', MINI_TTS, { prompt: 50, completion: 420, audioCompletion: 420 }, 5_070_000],
    ['speech by the second', toItems({ audio_second: '0.00025' }), { audioMs: 20_001 }, 5_000_250],
    ['2,345 characters', toItems({ character: '0.000015' }), { characters: 2_345 }, 35_175_000],
    ['1 character of half a nano-dollar', toItems({ character: '0.0000000005' }), { characters: 1 }, 1],
    ['101 documents', toItems({ search_unit: '0.002' }), { searchUnits: 2 }, 4_000_000],
    ['3 pages', toItems({ page: '0.004' }), { pages: 3 }, 12_000_000],
    ['3 images at one price', FLAT, { images: 3 }, 75_000_000],
    ['an image by tokens, of an image', GPT_IMAGE, IMAGE_TOKENS, 46_355_000],
  ])('%s', (_, pricing, fields, nanoUsd) => {
    const charge = toCharge(pricing, used(fields))
    expect([charge.nanoUsd, charge.unpriced]).toEqual([nanoUsd, []])
    expect(costNanoUsd(pricing, used(fields))).toBe(nanoUsd)
    const lines = charge.lines.reduce((sum, { usd }) => sum + Number(usd) * 1e9, 0)
    expect(Math.abs(lines - nanoUsd)).toBeLessThan(0.6)
  })

  test.each<[string, PricingItem[], Variant, number, string[]]>([
    ['as listed', BY_SIZE, { size: '1024x1024', quality: 'high' }, 167_000_000, []],
    ['of another size, as listed', BY_SIZE, { size: '1536x1024', quality: 'high' }, 250_000_000, []],
    ['of no listed quality, by the dearest', BY_SIZE, { size: '1024x1024', quality: 'ultra' }, 250_000_000, ['size']],
    ['of an unknown size, by the dearest', BY_SIZE, {}, 250_000_000, ['size']],
    ['in HD', HD, { size: '1024x1024', quality: 'hd' }, 80_000_000, []],
    ['in standard quality', HD, { size: '1024x1024', quality: 'standard' }, 40_000_000, []],
    ['at one price for all', FLAT, { size: '1024x1024', quality: 'high' }, 25_000_000, []],
  ])('an image %s', (_, pricing, variant, nanoUsd, unpriced) => {
    const mode = toPricedMode(pricing, null, variant)
    expect(costNanoUsd(pricing, used({ images: 1 }), mode)).toBe(nanoUsd)
    expect(findUnpriced(pricing, used({ images: 1 }), mode)).toEqual(unpriced as never)
  })

  test('audio has a line with the charged time', () => {
    expect(toCharge(GROQ, used({ audioMs: 1_234, prompt: 5 })).lines).toEqual([
      { kind: 'prompt', count: 5, price: 'prompt', usdEach: '0', usd: '0' },
      { kind: 'audioMs', count: 10_000, price: 'audio_second', usdEach: '0.00001111', usd: '0.0001111' },
    ])
  })
})

test.each<[string, PricingItem[], Partial<Usage>, string[]]>([
  ['seconds, of tokens', TOKENS, { audioMs: 1_000 }, ['audio_second']],
  ['documents, of tokens', TOKENS, { searchUnits: 1 }, ['search_unit']],
  ['images, of text', toItems({ prompt: '0.000001' }), { prompt: 9, images: 1 }, ['generated_image']],
  ['characters, of what costs nothing', toItems({}), { characters: 7, prompt: 3 }, ['character']],
  ['seconds that are free', toItems({ audio_second: '0' }), { audioMs: 9 }, []],
  ['seconds, of a free model', [], { audioMs: 9 }, []],
  ['images next to their tokens', GPT_IMAGE, IMAGE_TOKENS, []],
  ['documents by the request', toItems({ request: '0.001' }), { searchUnits: 3 }, []],
])('%s, are unpriced unless something else is charged', (_, pricing, fields, unpriced) => {
  expect(findUnpriced(pricing, used(fields))).toEqual(unpriced as never)
})

test('no charge exceeds the highest prices, whatever the size, quality, and mode', () => {
  const pick = createPicker(5)
  const price = () => `0.00${String(pick(100_000)).padStart(5, '0')}`
  const oneOf = <T>(...all: T[]) => all[pick(all.length)] as T
  for (let round = 0; round < 2_000; round++) {
    const audio = () => ({ audio_second: price(), audio_min_seconds: 1 + pick(20), audio_step_seconds: 1 + pick(9) })
    const pricing = toItems(
      { ...(pick(2) ? audio() : {}), character: price() },
      { generated_image: price(), size: '1x1', quality: oneOf('low', 'high') },
      { generated_image: price(), mode: 'flex', ...audio() },
    )
    const usage = used({ images: pick(4), audioMs: pick(50_000), characters: pick(2_000), searchUnits: pick(2) })
    const variant = { size: oneOf('1x1', '2x2', null), quality: oneOf('low', 'high', null) }
    const mode = toPricedMode(pricing, oneOf('flex', 'priority', null), variant)
    const most = toMaxTariff(pricing, 0)
    if (most) expect(chargeBy(most, usage)).toBeGreaterThanOrEqual(costNanoUsd(pricing, usage, mode))
  }
})
