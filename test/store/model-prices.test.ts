/** What models cost at an upstream, seen beside what nobody knows the price of. */
import { expect, test } from 'bun:test'
import type { CatalogRows, ModelRow, RouteRow, UpstreamRow } from '../../src/store/catalog-rows.ts'
import { toSnapshot } from '../../src/store/snapshot.ts'

const at = { createdMs: 0, updatedMs: 0, origin: 'discovered' as const }
const upstream = (id: string, local: boolean): UpstreamRow => ({
  ...{ id, dialect: 'openai', baseUrl: 'http://127.0.0.1:1/v1', apiKeyRef: null, local, enabled: true },
  ...{ deadlines: {}, options: {}, ...at },
})
const unpriced: ModelRow = {
  ...{ slug: 'v/new', name: 'New', ownedBy: 'v', contextLength: 1, maxOutputLength: 1, pricing: [], priceId: null },
  ...{ inputModalities: ['text'], outputModalities: ['text'], supportedFeatures: [], enabled: true, listed: true },
  ...{ fromWildcard: false, fromList: [], ...at },
}
const route = (to: string, pricing: RouteRow['pricing'] = null): RouteRow => ({
  ...{ model: 'v/new', upstream: to, upstreamModel: `at-${to}`, priority: 0, weight: 1, pricing, priceId: null },
  ...{ contextLength: null, maxOutputLength: null, supportedFeatures: null, options: {}, fromList: [], enabled: true },
  origin: 'discovered',
})

test('a model that nobody knows the price of has no target on a paid upstream, and is not free there', () => {
  const own = [{ prompt: '0.1', completion: '0.2' }]
  const catalog: CatalogRows = {
    upstreams: [upstream('paid', false), upstream('near', true), upstream('other', false)],
    models: [unpriced],
    routes: [route('paid'), route('near'), route('other', own)],
    aliases: [],
  }
  const { models, upstreams } = toSnapshot({ ...catalog, revision: 1, sealed: [], keys: [], teams: [] }, {})
  const targets = models.get('v/new')?.targets.map(({ upstream: { id }, pricing }) => [id, pricing])
  expect(targets).toEqual([
    ['near', []],
    ['other', own],
  ])
  expect(upstreams.get('paid')?.prices.get('at-paid')).toBeUndefined()
  expect(upstreams.get('near')?.prices.get('at-near')).toEqual({ pricing: [], priceId: null })
})
