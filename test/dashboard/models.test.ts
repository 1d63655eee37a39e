/** Texts of models and their routes. */
import { describe, expect, test } from 'bun:test'
import {
  filterModels,
  toFeatures,
  toLadder,
  toModelState,
  toPriceLines,
  toRouteHealth,
  toUnitLines,
} from '../../src/dashboard/models/words.ts'
import type { ShownModel, ShownRoute } from '../../src/documents/model.ts'
import type { ShownUpstream } from '../../src/documents/upstream.ts'

const route = (changes: Partial<ShownRoute> = {}): ShownRoute => ({
  ...{
    revision: '0',
    upstream: 'openai',
    upstream_model: 'm',
    priority: 0,
    weight: 1,
    pricing: [],
    own_price: false,
    price_id: null,
  },
  ...{ context_length: 8_192, max_output_length: 1_024, supported_features: [], enabled: true, origin: 'file' },
  ...{ is_ready: true, reason: null },
  ...{ thinking: null, efforts: null, thinking_off: null, thinking_unasked: null, sampling: null, served: null },
  ...changes,
})

const model = (changes: Partial<ShownModel> = {}): ShownModel => ({
  ...{
    slug: 'v/m',
    revision: '0',
    name: 'The model',
    owned_by: 'v',
    context_length: 8_192,
    max_output_length: 1_024,
    pricing: [],
  },
  ...{ input_modalities: ['text'], output_modalities: ['text'], supported_features: [], enabled: true, listed: true },
  ...{ from_wildcard: false, origin: 'file', is_ready: true, reason: null, routes: [route()] },
  ...changes,
})

test('a model is ready, not ready, or disabled, whatever its routes are', () => {
  expect(toModelState(model()).word).toBe('ready')
  expect(toModelState(model({ is_ready: false }))).toEqual({ kind: 'bad', word: 'not ready' })
  expect(toModelState(model({ enabled: false, is_ready: false }))).toEqual({ kind: 'off', word: 'disabled' })
})

test('modalities and capabilities have texts; unknown ones are shown by name', () => {
  const said = toFeatures({
    input_modalities: ['text', 'image'],
    output_modalities: ['text'],
    supported_features: ['tools', 'json_mode', 'newer'],
  })
  expect(said).toEqual(['images', 'tools', 'JSON', 'newer'])
  const embeds = { input_modalities: ['text'], output_modalities: ['embeddings'], supported_features: [] }
  expect(toFeatures(embeds)).toEqual(['embeddings'])
})

test('a list filters by state, upstream, feature, and every word of a search', () => {
  const models = [
    model({ slug: 'openai/gpt-5', name: 'GPT-5', supported_features: ['tools'] }),
    model({ slug: 'openai/gpt-4', name: 'GPT-4', is_ready: false, input_modalities: ['text', 'image'] }),
    model({ slug: 'local/llama', name: 'Llama', enabled: false, routes: [route({ upstream: 'ollama' })] }),
  ]
  const slugs = (filter: Partial<Parameters<typeof filterModels>[1]>) =>
    filterModels(models, { search: '', state: '', upstream: '', feature: '', ...filter }).map(({ slug }) => slug)
  expect(slugs({})).toHaveLength(3)
  expect(slugs({ state: 'ready' })).toEqual(['openai/gpt-5'])
  expect(slugs({ state: 'not_ready' })).toEqual(['openai/gpt-4'])
  expect(slugs({ state: 'disabled' })).toEqual(['local/llama'])
  expect(slugs({ upstream: 'ollama' })).toEqual(['local/llama'])
  expect(slugs({ feature: 'tools' })).toEqual(['openai/gpt-5'])
  expect(slugs({ feature: 'image' })).toEqual(['openai/gpt-4'])
  expect(slugs({ search: 'GPT 5' })).toEqual(['openai/gpt-5'])
})

describe('routes', () => {
  const places = (...routes: ShownRoute[]) =>
    toLadder(routes).map(({ upstream, place, share }) => [upstream, place, share])

  test('are listed in the order in which they are tried, unused ones last', () => {
    expect(places(route())).toEqual([['openai', 'only', 1]])
    expect(
      places(
        route({ upstream: 'off', enabled: false }),
        route({ upstream: 'gone', reason: 'its upstream is disabled', is_ready: false }),
        route({ upstream: 'c', priority: 9 }),
        route({ upstream: 'b', priority: 2 }),
        route({ upstream: 'a' }),
      ),
    ).toEqual([
      ['a', 'first', 1],
      ['b', 'next', 1],
      ['c', 'last', 1],
      ['off', 'off', 0],
      ['gone', 'off', 0],
    ])
  })

  test('with the same priority share requests by their weights', () => {
    expect(places(route({ upstream: 'a' }), route({ upstream: 'b', weight: 3 }))).toEqual([
      ['b', 'only', 0.75],
      ['a', 'only', 0.25],
    ])
  })

  const upstream = (state: ShownUpstream['state'], breaker: 'closed' | 'open' = 'closed', keys: number | null = null) =>
    ({
      ...{ id: 'openai', state, reason: 'because', targets: [] },
      targets: [
        {
          model: 'v/m',
          upstream_model: 'm',
          breaker,
          open_for_keys: keys,
          failures_in_a_row: 0,
          retry_in_ms: null,
          reason: null,
        },
      ],
    }) as unknown as ShownUpstream

  test.each([
    ['its upstream is well', route(), upstream('healthy'), 'good', 'healthy'],
    ['its upstream is down', route({ is_ready: false, reason: 'refused' }), upstream('down'), 'bad', 'down'],
    [
      'its breaker is open',
      route({ is_ready: false, reason: 'open' }),
      upstream('healthy', 'open'),
      'bad',
      'breaker open',
    ],
    [
      'only the model has a reason',
      route({ is_ready: false, reason: 'unpriced' }),
      upstream('healthy'),
      'bad',
      'not ready',
    ],
    ['its breaker is open for a key', route(), upstream('healthy', 'open', 1), 'warn', 'open for some keys'],
    ['it is disabled', route({ enabled: false }), upstream('healthy'), 'off', 'disabled'],
    ['nothing is known of its upstream', route(), undefined, 'good', 'ready'],
  ] as const)('tell that %s', (_, of, health, kind, word) => {
    expect(toRouteHealth('v/m', of, health)).toMatchObject({ kind, word })
  })
})

test('prices of units have a line each with size, quality, and steps; free tokens have none', () => {
  const free = { prompt: '0', completion: '0' }
  const images = [
    { ...free, generated_image: '0.19' },
    { ...free, size: '1024x1024', quality: 'low', generated_image: '0.011' },
  ]
  expect(images.flatMap(toPriceLines).filter(({ isOfTokens }) => isOfTokens)).toEqual([])
  expect(toUnitLines([...images, { ...free, audio_second: '0.0001', audio_min_seconds: 10 }])).toEqual([
    { title: 'Generated image', usd: '0.19', terms: '' },
    { title: 'Generated image, 1024x1024 in low quality', usd: '0.011', terms: '' },
    { title: 'Second of audio', usd: '0.0001', terms: ' (at least 10 s)' },
  ])
})

test('prices are listed in the same order, if set', () => {
  const lines = toPriceLines({ completion: '0.00001', prompt: '0.00000125', input_cache_read: '0' })
  expect(lines.map(({ name, usd }) => [name, usd])).toEqual([
    ['prompt', '0.00000125'],
    ['completion', '0.00001'],
    ['input_cache_read', '0'],
  ])
})
