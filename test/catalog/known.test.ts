/** Known facts: exact prices, and models.dev's names converted to the catalog's. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkPricing } from '../../src/catalog/check.ts'
import {
  findAt,
  findFacts,
  findRouteSettings,
  loadKnown,
  toEffortSettings,
  toFacts,
  toPerToken,
} from '../../src/catalog/known.ts'
import type { Effort } from '../../src/domain/models.ts'
import { costNanoUsd } from '../../src/domain/price.ts'
import { NO_USAGE, PRICE_NAMES } from '../../src/domain/usage.ts'

describe('toPerToken', () => {
  const scenarios: [number, string][] = [
    [0.15, '0.00000015'],
    [30, '0.00003'],
    [0, '0'],
    [1_500_000, '1.5'],
    [10_000_000, '10'],
    [1e-7, '0.0000000000001'],
    [0.049999999999999996, '0.00000005'],
    [0.8999999999999999, '0.0000009'],
  ]
  for (const [usdPerMillion, perToken] of scenarios) {
    test(`writes $${usdPerMillion} per million as ${perToken} without an exponent`, () => {
      expect(toPerToken(usdPerMillion)).toBe(perToken)
    })
  }
})

describe('the shipped facts', () => {
  test('are found by model ID, else by upstream and model name', async () => {
    const known = await loadKnown()
    expect(findFacts(known, 'openai/gpt-4o-mini', []).name).toBe('GPT-4o mini')
    expect(findFacts(known, 'my/model', [{ upstream: 'openai', model: 'gpt-4o-mini' }]).name).toBe('GPT-4o mini')
    expect(findFacts(known, 'my/model', [])).toEqual({})
    expect(findFacts(known, '__proto__/constructor', [])).toEqual({})
  })

  test('have only plain decimal prices', async () => {
    const known = await loadKnown()
    const prices = Object.values(known).flatMap(({ models }) =>
      Object.values(models).flatMap((model) => toFacts(model).pricing ?? []),
    )
    expect(prices.length).toBeGreaterThan(1_000)
    for (const item of prices)
      for (const name of PRICE_NAMES) if (item[name]) expect(item[name]).toMatch(/^\d{1,9}(\.\d{1,18})?$/)
  })

  test('have other prices that are valid in a catalog, each with its model and limits', async () => {
    const path = join(import.meta.dir, '../../src/catalog/known-prices.jsonl')
    const [from, ...lines] = readFileSync(path, 'utf8').trimEnd().split('\n')
    expect(from).toMatch(/LiteLLM [\d.]+, .*, read \d{4}-\d\d-\d\d/)
    const priced = lines.map((line) => JSON.parse(line)).filter(({ batch }) => !batch)
    const priceOf = (name: string) => priced.find(({ model }) => model === name)?.pricing[0]
    const free = { prompt: '0', completion: '0' }
    expect(priceOf('whisper-1')).toEqual({ ...free, audio_second: '0.0001', audio_step_seconds: 1 })
    expect(priceOf('whisper-large-v3-turbo')).toEqual({ ...free, audio_second: '0.00001111', audio_min_seconds: 10 })
    expect(priceOf('gpt-4o-transcribe')).toMatchObject({ audio: '0.0000025', audio_second: '0.0001' })
    expect(priceOf('gpt-image-2')).toMatchObject({ image_token: '0.000008', image_token_completion: '0.00003' })
    expect(priceOf('grok-imagine-image')).toEqual({ ...free, generated_image: '0.02' })
    expect(priceOf('tts-1-hd')).toEqual({ ...free, character: '0.00003' })
    expect(priceOf('rerank-v3.5')).toEqual({ ...free, search_unit: '0.002' })
    expect(priceOf('rerank-v5.0-pro')).toEqual({ ...free, prompt: '0.00000005' })
    expect(priceOf('mistral-ocr-latest')).toEqual({ ...free, page: '0.004' })
    const known = await loadKnown()
    for (const { provider, model, limit, output, pricing } of priced) {
      expect([...checkPricing(pricing, [])]).toEqual([])
      expect([limit.context > 0, limit.output > 0]).toEqual([true, true])
      const found = findAt(known, provider, model)
      const isCalled = found?.modalities.output.join() === output.join() && output[0] !== 'image'
      if (found && isCalled) expect(toFacts(found)).toMatchObject({ pricing, outputModalities: output })
    }
  })

  test('have batch prices, never above the usual ones', async () => {
    const known = await loadKnown()
    const of = (provider: string, model: string) => findFacts(known, `${provider}/${model}`, [])?.pricing ?? []
    expect(of('openai', 'gpt-5').find(({ mode }) => mode === 'batch')).toEqual({
      ...{ mode: 'batch', prompt: '0.000000625', completion: '0.000005', input_cache_read: '0.0000000625' },
    })
    expect(of('anthropic', 'claude-haiku-4-5').find(({ mode }) => mode === 'batch')).toMatchObject({
      ...{ prompt: '0.0000005', completion: '0.0000025', input_cache_write_1h: '0.000001' },
    })
    const usage = { ...NO_USAGE, prompt: 1_000, cacheRead: 200, completion: 500 }
    for (const provider of ['openai', 'anthropic'])
      for (const model of Object.keys(known[provider]?.models ?? {})) {
        const pricing = of(provider, model)
        if (!pricing.some(({ mode }) => mode === 'batch')) continue
        expect([...checkPricing(pricing, [])]).toEqual([])
        expect(costNanoUsd(pricing, usage, 'batch')).toBeLessThanOrEqual(costNanoUsd(pricing, usage))
      }
  })

  test("use the catalog's names for files, features, and tiers", async () => {
    expect(findFacts(await loadKnown(), 'google/gemini-2.5-pro', [])).toMatchObject({
      inputModalities: ['text', 'image', 'file', 'audio', 'video'],
      supportedFeatures: ['tools', 'json_mode', 'structured_outputs', 'reasoning'],
      pricing: [{ prompt: '0.00000125' }, { prompt: '0.0000025', min_prompt_tokens: 200_000 }],
    })
  })

  test('have reasoning settings of a model, and whether it accepts a temperature', async () => {
    const known = await loadKnown()
    const of = (model: string) => findRouteSettings(known, 'my/model', { upstream: 'anthropic', model })
    expect(of('claude-3-haiku-20240307')).toEqual({ thinking: 'none' })
    expect(of('claude-haiku-4-5')).toEqual({ thinking: 'budget' })
    // This model has efforts, too, but refuses them for thinking.
    expect(of('claude-opus-4-5')).toEqual({ thinking: 'budget' })
    const efforts: Effort[] = ['low', 'medium', 'high', 'xhigh', 'max']
    expect(of('claude-sonnet-5')).toEqual({ thinking: 'adaptive', efforts, thinking_off: true, sampling: false })
    expect(of('claude-opus-4-8')).toMatchObject({ thinking_off: false, thinking_unasked: false })
    expect(of('claude-fable-5')).toEqual({ thinking: 'adaptive', efforts, thinking_off: false, sampling: false })
    expect(of('claude-nobody')).toEqual({})
  })

  test("have reasoning settings of Google's models, too", async () => {
    const known = await loadKnown()
    const of = (model: string) => findRouteSettings(known, 'my/model', { upstream: 'google', model })
    expect(of('gemini-2.0-flash')).toEqual({ thinking: 'none' })
    expect(of('gemini-2.5-pro')).toEqual({ thinking: 'budget' })
    expect(of('gemini-2.5-flash')).toEqual({ thinking: 'budget', thinking_off: true })
    const efforts: Effort[] = ['low', 'high']
    expect(of('gemini-3-pro-preview')).toEqual({ thinking: 'adaptive', efforts, thinking_off: false })
  })

  test("have prices of modes, named as in the provider's responses", async () => {
    const known = await loadKnown()
    expect(findFacts(known, 'openai/gpt-5.4', []).pricing).toContainEqual({
      ...{ prompt: '0.000005', completion: '0.00003', input_cache_read: '0.0000005', mode: 'priority' },
    })
    expect(findFacts(known, 'anthropic/claude-opus-4-6', []).pricing).toContainEqual({
      ...{ prompt: '0.00003', completion: '0.00015', input_cache_read: '0.000003', input_cache_write: '0.0000375' },
      ...{ input_cache_write_1h: '0.00006', mode: 'fast' },
    })
  })

  test('have cache prices under either name', async () => {
    const known = await loadKnown()
    const minimax = known.minimax?.models['MiniMax-M2.1']
    const cached = { input_cache_read: '0.00000003', input_cache_write: '0.000000375' }
    expect(minimax && toFacts(minimax).pricing).toEqual([{ prompt: '0.0000003', completion: '0.0000012', ...cached }])
  })

  test('have the efforts of a model in OpenAI’s format, if any', async () => {
    const known = await loadKnown()
    const of = (provider: string, name: string) => {
      const model = findAt(known, provider, name)
      return model && toEffortSettings(model)
    }
    const efforts: Effort[] = ['low', 'medium', 'high']
    expect(of('xai', 'grok-4.3')).toEqual({ efforts })
    expect(of('xai', 'grok-4.20-multi-agent-0309')).toEqual({ efforts: [...efforts, 'xhigh'], thinking_off: false })
    expect(of('xai', 'grok-4.20-0309-reasoning')).toEqual({ thinking: 'none' })
    expect(of('xai', 'grok-4.20-0309-non-reasoning')).toEqual({ thinking: 'none' })
    expect(of('deepseek', 'deepseek-v4-pro')).toEqual({ efforts: ['high', 'max'] })
    // The listed value isn't an effort.
    expect(of('groq', 'qwen/qwen3-32b')).toEqual({})
    expect(of('zai', 'glm-4.6')).toEqual({})
  })

  test("have Anthropic's one-hour cache price, which is twice the prompt price", async () => {
    expect(findFacts(await loadKnown(), 'anthropic/claude-opus-4-6', []).pricing?.[0]).toMatchObject({
      ...{ prompt: '0.000005', input_cache_write: '0.00000625', input_cache_write_1h: '0.00001' },
    })
  })

  test('have one output price if reasoning costs more, and a separate price only if it costs less', async () => {
    const known = await loadKnown()
    expect(findFacts(known, 'alibaba/qwen-plus', []).pricing).toEqual([{ prompt: '0.0000004', completion: '0.000004' }])
    expect(findFacts(known, 'perplexity/sonar-deep-research', []).pricing?.[0]).toMatchObject({
      ...{ completion: '0.000008', internal_reasoning: '0.000003' },
    })
    for (const { models } of Object.values(known))
      for (const model of Object.values(models))
        for (const { completion, internal_reasoning: thought = completion } of toFacts(model).pricing ?? [])
          expect(Number(thought)).toBeLessThanOrEqual(Number(completion))
  })
})
