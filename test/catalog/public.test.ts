/** The public Model object. */
import { describe, expect, test } from 'bun:test'
import { isReady, toPublicFacts } from '../../src/catalog/public.ts'
import type { CatalogModel, Target } from '../../src/domain/snapshot.ts'
import { toTarget } from '../support/snapshot.ts'

const target = (notReady: string | null): Target => toTarget({ notReady })
const model = (...targets: Target[]): CatalogModel => ({
  listed: true,
  fromWildcard: false,
  origin: 'file',
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

describe('a public model', () => {
  test('always shows a price for cached tokens, by default the prompt price', () => {
    expect(toPublicFacts(model(target(null))).pricing.map((item) => item.input_cache_read)).toEqual(['1', '0.5'])
  })

  test('shows the model ID under its alias', () => {
    expect(toPublicFacts(model(), 'fast')).toMatchObject({ id: 'fast', alias_of: 'v/m', name: 'M' })
    expect(toPublicFacts(model())).not.toHaveProperty('alias_of')
  })

  test('is ready if any target is', () => {
    expect(isReady([target('no key'), target(null)])).toBe(true)
    expect(isReady([target(null)], () => true)).toBe(false)
    expect(isReady([target('no key')])).toBe(false)
    expect(isReady([])).toBe(false)
  })

  test('hides its upstreams', () => {
    expect(JSON.stringify(toPublicFacts(model(target(null))))).not.toContain('127.0.0.1')
  })
})
