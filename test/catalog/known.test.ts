/** Known facts: exact prices, and the project's words for other people's names. */
import { describe, expect, test } from 'bun:test'
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
  test('are found by slug, else by upstream and model name', async () => {
    const known = await loadKnown()
    expect(findFacts(known, 'openai/gpt-4o-mini', []).name).toBe('GPT-4o mini')
    expect(findFacts(known, 'my/model', [{ upstream: 'openai', model: 'gpt-4o-mini' }]).name).toBe('GPT-4o mini')
    expect(findFacts(known, 'my/model', [])).toEqual({})
    expect(findFacts(known, '__proto__/constructor', [])).toEqual({})
  })

  test('have prices in plain decimals only', async () => {
    const known = await loadKnown()
    const prices = Object.values(known).flatMap(({ models }) =>
      Object.values(models).flatMap((model) => toFacts(model).pricing ?? []),
    )
    expect(prices.length).toBeGreaterThan(1_000)
    for (const { min_prompt_tokens: _, mode: __, ...item } of prices)
      for (const price of Object.values(item)) expect(price).toMatch(/^\d{1,9}(\.\d{1,18})?$/)
  })

  test('speak of files, features and tiers as the catalogue does', async () => {
    expect(findFacts(await loadKnown(), 'google/gemini-2.5-pro', [])).toMatchObject({
      inputModalities: ['text', 'image', 'file', 'audio', 'video'],
      supportedFeatures: ['tools', 'json_mode', 'structured_outputs', 'reasoning'],
      pricing: [{ prompt: '0.00000125' }, { prompt: '0.0000025', min_prompt_tokens: 200_000 }],
    })
  })

  test('say how a model is told to think, and whether it takes a temperature', async () => {
    const known = await loadKnown()
    const of = (model: string) => findRouteSettings(known, 'my/model', { upstream: 'anthropic', model })
    expect(of('claude-3-haiku-20240307')).toEqual({ thinking: 'none' })
    expect(of('claude-haiku-4-5')).toEqual({ thinking: 'budget' })
    // It knows efforts, too, and refuses to think by one.
    expect(of('claude-opus-4-5')).toEqual({ thinking: 'budget' })
    const efforts: Effort[] = ['low', 'medium', 'high', 'xhigh', 'max']
    expect(of('claude-sonnet-5')).toEqual({ thinking: 'adaptive', efforts, thinking_off: true, sampling: false })
    expect(of('claude-opus-4-8')).toMatchObject({ thinking_off: false, thinking_unasked: false })
    expect(of('claude-fable-5')).toEqual({ thinking: 'adaptive', efforts, thinking_off: false, sampling: false })
    expect(of('claude-nobody')).toEqual({})
  })

  test("tell how each of Google's models is asked to think, too", async () => {
    const known = await loadKnown()
    const of = (model: string) => findRouteSettings(known, 'my/model', { upstream: 'google', model })
    expect(of('gemini-2.0-flash')).toEqual({ thinking: 'none' })
    expect(of('gemini-2.5-pro')).toEqual({ thinking: 'budget' })
    expect(of('gemini-2.5-flash')).toEqual({ thinking: 'budget', thinking_off: true })
    const efforts: Effort[] = ['low', 'high']
    expect(of('gemini-3-pro-preview')).toEqual({ thinking: 'adaptive', efforts, thinking_off: false })
  })

  test('have the prices of modes, by what the provider says when it has served so', async () => {
    const known = await loadKnown()
    expect(findFacts(known, 'openai/gpt-5.4', []).pricing).toContainEqual({
      ...{ prompt: '0.000005', completion: '0.00003', input_cache_read: '0.0000005', mode: 'priority' },
    })
    expect(findFacts(known, 'anthropic/claude-opus-4-6', []).pricing).toContainEqual({
      ...{ prompt: '0.00003', completion: '0.00015', input_cache_read: '0.000003', input_cache_write: '0.0000375' },
      ...{ input_cache_write_1h: '0.00006', mode: 'fast' },
    })
  })

  test('have prices of the cache, by whichever name they are listed', async () => {
    const known = await loadKnown()
    const minimax = known.minimax?.models['MiniMax-M2.1']
    const cached = { input_cache_read: '0.00000003', input_cache_write: '0.000000375' }
    expect(minimax && toFacts(minimax).pricing).toEqual([{ prompt: '0.0000003', completion: '0.0000012', ...cached }])
  })

  test('say which efforts a model of OpenAI’s format takes, if any', async () => {
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
    // What it knows is no effort.
    expect(of('groq', 'qwen/qwen3-32b')).toEqual({})
    expect(of('zai', 'glm-4.6')).toEqual({})
  })

  test('have what an hour in the cache costs at Anthropic, which is twice the prompt', async () => {
    expect(findFacts(await loadKnown(), 'anthropic/claude-opus-4-6', []).pricing?.[0]).toMatchObject({
      ...{ prompt: '0.000005', input_cache_write: '0.00000625', input_cache_write_1h: '0.00001' },
    })
  })

  test('have the whole answer at the dearer price where thinking makes it dearer, and thoughts apart only where they are cheaper', async () => {
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
