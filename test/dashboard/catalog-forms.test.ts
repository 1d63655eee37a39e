/** Form values of upstreams, models, and routes, converted for the API. */
import { describe, expect, test } from 'bun:test'
import {
  toModelPatch,
  toModelValues,
  toNewRoute,
  toPricing,
  toRouteBody,
  toRouteValues,
} from '../../src/dashboard/models/words.ts'
import { losesCredential, toUpstreamPatch, toUpstreamValues } from '../../src/dashboard/upstreams/words.ts'
import type { ShownRoute } from '../../src/documents/model.ts'
import type { ShownUpstream } from '../../src/documents/upstream.ts'

const fieldOf = (work: () => unknown) => {
  try {
    work()
  } catch (error) {
    return (error as { field?: string }).field
  }
  return null
}

describe('an upstream', () => {
  const before: ShownUpstream = {
    ...{
      id: 'openai',
      revision: '0',
      dialect: 'openai',
      base_url: 'https://a.test/v1',
      local: false,
      enabled: true,
      origin: 'file',
    },
    ...{ state: 'healthy', reason: null, last_ok_ms: null, last_error: null, targets: [], preset: null },
    deadlines: { headers_ms: 1, first_token_ms: 1, idle_ms: 1, total_ms: 1, total_whole_ms: 1 },
    limits: { rpm: 500, tpm: null, concurrency: null },
    credential: { variable: 'KEY', sealed: false, status: 'set' },
    process: null,
    served: [],
    credentials: [],
  }
  const same = toUpstreamValues(before)

  test('changed to another provider gets that URL, and loses its credential', () => {
    const other = { ...same, preset: 'groq', base_url: '' }
    expect(toUpstreamPatch(other, before)).toEqual({ preset: 'groq', base_url: null })
    expect(losesCredential(other, before)).toBe(true)
    const groq = { ...before, preset: 'groq' }
    expect(toUpstreamPatch(toUpstreamValues(groq), groq)).toEqual({})
    expect(toUpstreamPatch({ ...same, preset: '' }, groq)).toEqual({ preset: null })
  })

  test('sends only changed fields', () => {
    expect(toUpstreamPatch(same, before)).toEqual({})
    expect(toUpstreamPatch({ ...same, base_url: 'https://a.test/v1/' }, before)).toEqual({})
    expect(toUpstreamPatch({ ...same, rpm: '', concurrency: '4', enabled: 'no' }, before)).toEqual({
      enabled: false,
      limits: { rpm: null, concurrency: 4 },
    })
    expect(toUpstreamPatch({ ...same, credential: 'none' }, before)).toEqual({ api_key: null })
    expect(toUpstreamPatch({ ...same, credential: 'typed', api_key: 'sk-1' }, before)).toEqual({ api_key: 'sk-1' })
    expect(fieldOf(() => toUpstreamPatch({ ...same, credential: 'typed' }, before))).toBe('api_key')
    expect(fieldOf(() => toUpstreamPatch({ ...same, tpm: 'many' }, before))).toBe('tpm')
  })

  test('loses its credential if its URL changes and none is entered for the new one', () => {
    const moved = { ...same, base_url: 'https://b.test/v1' }
    expect(losesCredential(same, before)).toBe(false)
    expect(losesCredential(moved, before)).toBe(true)
    expect(losesCredential({ ...moved, credential: 'typed', api_key: 'sk-1' }, before)).toBe(false)
    expect(losesCredential(moved, { ...before, credential: null })).toBe(false)
  })
})

describe('prices', () => {
  const item = { prompt: '0.0000012500', completion: '0.00001', input_cache_read: '0.0000001', audio: '0.00004' }
  const typed = { prompt: '1.25', completion: '10', input_cache_read: '0.1', input_cache_write: '' }

  test('stay exact, digit for digit, if other fields change', () => {
    expect(toPricing(typed, [item])).toEqual([item])
  })

  test('are per token; those of long prompts and other units stay', () => {
    const longer = { prompt: '0.0000025', completion: '0.00002', min_prompt_tokens: 200_000 }
    const changed = toPricing({ ...typed, prompt: '2', input_cache_read: '', input_cache_write: '3' }, [item, longer])
    expect(changed).toEqual([
      { prompt: '0.000002', completion: '0.00001', audio: '0.00004', input_cache_write: '0.000003' },
      longer,
    ])
  })

  test('that are unknown are not those of a free model, until entered', () => {
    const unpriced = { pricing: [], context_length: 8_192, max_output_length: 1_000, supported_features: [] }
    const before = { ...unpriced, enabled: false, listed: true }
    const values = toModelValues(before)
    expect(values).toMatchObject({ prompt: '', completion: '' })
    expect(toModelPatch({ ...values, context_length: '4096', enabled: 'yes' }, before)).toEqual({
      ...{ context_length: 4_096, enabled: true },
    })
    const priced = { ...values, prompt: '2', completion: '8' }
    expect(toModelPatch(priced, before)).toEqual({ pricing: [{ prompt: '0.000002', completion: '0.000008' }] })
    expect(fieldOf(() => toModelPatch({ ...values, prompt: '2' }, before))).toBe('completion')
    expect(fieldOf(() => toRouteBody({ ...toNewRoute({ pricing: [], routes: [] }, 'a'), price: 'own' }, null))).toBe(
      'prompt',
    )
  })

  test("of units are entered as they are, with audio's names", () => {
    const none = { pricing: [], context_length: 8_192, max_output_length: 1_000, supported_features: [] }
    const values = toModelValues({ ...none, enabled: false, listed: true })
    const audio = { ...values, audio_second: '$0.00001111', audio_min_seconds: '10' }
    const item = { prompt: '0', completion: '0', audio_second: '0.00001111', audio_min_seconds: 10 }
    expect(toPricing(audio, [])).toEqual([item])
    expect(toPricing({ ...audio, audio_min_seconds: '', character: '0.5' }, [item])).toEqual([
      { prompt: '0', completion: '0', audio_second: '0.00001111', character: '0.5' },
    ])
    expect(fieldOf(() => toPricing({ ...audio, generated_image: '-1' }, [item]))).toBe('generated_image')
    expect(fieldOf(() => toPricing({ ...audio, audio_min_seconds: '0.5' }, [item]))).toBe('audio_min_seconds')
  })

  test('that are invalid name their field', () => {
    expect(fieldOf(() => toPricing({ ...typed, prompt: '' }, [item]))).toBe('prompt')
    expect(fieldOf(() => toPricing({ ...typed, input_cache_write: 'much' }, [item]))).toBe('input_cache_write')
  })
})

test('a model sends only changed fields', () => {
  const before = {
    ...{ context_length: 8_192, max_output_length: 1_024, enabled: true, listed: true },
    ...{ pricing: [{ prompt: '0', completion: '0' }], supported_features: ['tools', 'newer'] },
  }
  const same = toModelValues(before)
  expect(toModelPatch(same, before)).toEqual({})
  expect(toModelPatch({ ...same, context_length: '16,384', enabled: 'no', completion: '1' }, before)).toEqual({
    context_length: 16_384,
    enabled: false,
    pricing: [{ prompt: '0', completion: '0.000001' }],
  })
  expect(toModelPatch({ ...same, supported_features: 'reasoning,tools' }, before)).toEqual({
    supported_features: ['tools', 'reasoning'],
  })
  expect(fieldOf(() => toModelPatch({ ...same, max_output_length: '0' }, before))).toBe('max_output_length')
})

describe('a route', () => {
  const route: ShownRoute = {
    ...{ revision: '0', upstream: 'u', upstream_model: 'm', priority: 2, weight: 1, own_price: false, price_id: null },
    ...{ context_length: 1, max_output_length: 1, supported_features: [], enabled: true, origin: 'file' },
    ...{ is_ready: true, reason: null, pricing: [{ prompt: '0', completion: '0' }] },
    ...{ thinking: null, efforts: null, thinking_off: null, thinking_unasked: null, sampling: null, served: null },
  }

  test("that is new comes after all others, at its model's price", () => {
    const values = toNewRoute({ pricing: [], routes: [route] }, 'u')
    expect(values).toMatchObject({ upstream: 'u', priority: '3', price: 'model' })
    expect(toRouteBody(values, null)).toEqual({ priority: 3, weight: 1, enabled: true })
    expect(toNewRoute({ pricing: [], routes: [] }, 'u').priority).toBe('0')
  })

  test("has its own price if one is entered, and loses it if set to the model's", () => {
    const plain = { priority: 2, weight: 1, enabled: true }
    const own = { ...toRouteValues(route), price: 'own', prompt: '1' }
    expect(toRouteBody(own, route)).toEqual({ ...plain, pricing: [{ prompt: '0.000001', completion: '0' }] })
    expect(toRouteBody({ ...own, price: 'model' }, { ...route, own_price: true })).toEqual({ ...plain, pricing: null })
    expect(toRouteBody(toRouteValues(route), route)).toEqual(plain)
    expect(fieldOf(() => toRouteBody({ ...own, weight: '0' }, route))).toBe('weight')
  })
})
