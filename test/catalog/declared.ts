/** Declared catalogs for the tests of this folder. */
import type { Catalog, DeclaredModel, DeclaredRoute } from '../../src/catalog/complete.ts'

export const upstream = (id: string) => ({
  id,
  dialect: 'demo' as const,
  baseUrl: null,
  apiKeyRef: null,
  local: false,
  enabled: true,
  deadlines: {},
  options: {},
})
export const ROUTE: DeclaredRoute = {
  upstream: 'u',
  upstreamModel: 'm',
  priority: 0,
  weight: 1,
  pricing: null,
  contextLength: null,
  maxOutputLength: null,
  supportedFeatures: null,
  fromList: [],
  options: {},
  enabled: true,
}
export const model = (slug: string, more: Partial<DeclaredModel> = {}): DeclaredModel => ({
  slug,
  name: slug,
  ownedBy: 'v',
  enabled: true,
  listed: true,
  fromWildcard: false,
  fromList: [],
  createdMs: null,
  contextLength: 10,
  maxOutputLength: 5,
  inputModalities: ['text'],
  outputModalities: ['text'],
  supportedFeatures: [],
  pricing: [{ prompt: '1', completion: '2' }],
  routes: [ROUTE],
  ...more,
})
export const catalog = (...declared: DeclaredModel[]): Catalog => ({
  upstreams: [upstream('u')],
  models: declared,
  aliases: [],
})
