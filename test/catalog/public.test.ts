/** The public Model object. */
import { describe, expect, test } from 'bun:test'
import { toPublicModel } from '../../src/catalog/public.ts'
import type { CatalogModel, Target } from '../../src/domain/snapshot.ts'
import { toTarget } from '../support/snapshot.ts'

const target = (notReady: string | null): Target => toTarget({ notReady })
const model = (...targets: Target[]): CatalogModel => ({
  listed: true,
  facts: {
    id: 'v/m',
    object: 'model',
    owned_by: 'v',
    created: 1,
    name: 'M',
    context_length: 10,
    max_output_length: 5,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_features: [],
    pricing: [
      { prompt: '1', completion: '2' },
      { prompt: '3', completion: '4', input_cache_read: '0.5', min_prompt_tokens: 9 },
    ],
  },
  targets,
})

describe('toPublicModel', () => {
  test('always shows a price for cached tokens, which is the prompt price where none is set', () => {
    expect(toPublicModel(model(target(null))).pricing.map((item) => item.input_cache_read)).toEqual(['1', '0.5'])
  })

  test('is ready while some target is', () => {
    expect(toPublicModel(model(target('no key'), target(null))).is_ready).toBe(true)
    expect(toPublicModel(model(target('no key'))).is_ready).toBe(false)
    expect(toPublicModel(model()).is_ready).toBe(false)
    expect(toPublicModel(model(target(null)), []).is_ready).toBe(false)
  })

  test('shows nothing of its upstreams', () => {
    expect(JSON.stringify(toPublicModel(model(target(null))))).not.toContain('secret')
  })
})
