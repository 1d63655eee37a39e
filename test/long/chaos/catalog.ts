/**
 * The chaos test's catalog before and after its change, the keys, and costs. Prices are integers of 10^-12 USD per
 * token, so that costs are calculated differently from the gateway.
 */
import type { UpstreamName } from './plan.ts'

/** Prompt, completion and cached prompt, in 10^-12 USD per token. */
type Price = readonly [prompt: number, completion: number, cached: number]

interface Route {
  upstream: UpstreamName
  priority?: number
  weight?: number
  price?: Price
  /** If it supports less than its model. */
  features?: readonly string[]
}

interface Model {
  features: readonly string[]
  price: Price
  routes: readonly Route[]
}

export type Version = 'before' | 'after'

export interface Tokens {
  prompt: number
  cached: number
  completion: number
}

const ALL = ['tools', 'json_mode', 'structured_outputs']
/** Max output, reserved on a budget without a client cap. */
export const MAX_OUTPUT = 1_000
const LOCAL: ReadonlySet<UpstreamName> = new Set(['gamma'])
/** Limits of `delta`: requests per minute, and concurrency. */
export const DELTA_LIMITS = { rpm: 100, concurrency: 3 }

const LASTING: Readonly<Record<string, Model>> = {
  'acme/large': {
    features: ALL,
    price: [1_250_000, 10_001_000, 125_000],
    routes: [
      { upstream: 'alpha', weight: 3 },
      { upstream: 'beta', weight: 1, price: [1_100_500, 9_000_700, 100_300] },
      { upstream: 'epsilon', priority: 1, price: [700_000, 3_000_000, 70_000], features: [] },
    ],
  },
  'acme/small': {
    features: ALL,
    price: [150_000, 600_000, 75_000],
    routes: [{ upstream: 'alpha' }, { upstream: 'gamma', priority: 1 }],
  },
  'acme/choices': { features: [], price: [33_333, 77_777, 11_111], routes: [{ upstream: 'beta' }] },
  'acme/capped': {
    features: ['tools'],
    price: [500_000, 1_500_000, 50_000],
    routes: [{ upstream: 'delta' }, { upstream: 'alpha', priority: 1, price: [600_000, 1_600_000, 60_000] }],
  },
  'acme/weak': { features: [], price: [90_900, 190_900, 9_900], routes: [{ upstream: 'epsilon' }] },
  'local/llama': { features: ['tools'], price: [0, 0, 0], routes: [{ upstream: 'gamma' }] },
}

const VERSIONS: Readonly<Record<Version, Readonly<Record<string, Model>>>> = {
  before: {
    ...LASTING,
    'acme/moving': { features: ALL, price: [410_000, 820_000, 41_000], routes: [{ upstream: 'alpha' }] },
    'acme/pricey': {
      features: ['tools'],
      price: [2_000_000, 8_000_000, 200_000],
      routes: [{ upstream: 'beta' }, { upstream: 'delta', priority: 1, price: [300_000, 900_000, 30_000] }],
    },
    'acme/leaving': { features: ALL, price: [210_000, 420_000, 21_000], routes: [{ upstream: 'alpha' }] },
  },
  after: {
    ...LASTING,
    'acme/moving': { features: ALL, price: [410_000, 820_000, 41_000], routes: [{ upstream: 'epsilon' }] },
    'acme/pricey': {
      features: ['tools'],
      price: [3_000_000, 7_000_000, 300_000],
      routes: [{ upstream: 'beta' }, { upstream: 'delta', priority: 1, price: [300_000, 900_000, 30_000] }],
    },
    'acme/arriving': { features: ALL, price: [310_000, 620_000, 31_000], routes: [{ upstream: 'beta' }] },
  },
}

export const ALIASES: Readonly<Record<string, string>> = { fast: 'acme/small' }
export const toSlug = (asked: string) => ALIASES[asked] ?? asked

export const modelOf = (version: Version, asked: string): Model | undefined => VERSIONS[version][toSlug(asked)]
export const slugsOf = (version: Version) => Object.keys(VERSIONS[version])
export const isLocal = (upstream: UpstreamName) => LOCAL.has(upstream)

export const toUpstreamModel = (slug: string) => `${slug.split('/')[1]}-v1`

export const SHORTEST_DEADLINE_MS = 900

/** JSON is valid YAML. */
export function toCatalog(version: Version, urlOf: (upstream: UpstreamName) => string): string {
  const ms = `${SHORTEST_DEADLINE_MS}ms`
  const deadlines = { headers: ms, first_token: ms, idle: ms, total: '8s', total_whole: '1500ms' }
  const quiet = { ...deadlines, headers: '3s', first_token: '3s', idle: '3s', total_whole: '4s' }
  const upstream = (name: UpstreamName, more: object = {}) => ({
    dialect: 'openai',
    base_url: urlOf(name),
    api_key: `\${${name.toUpperCase()}_KEY}`,
    deadlines,
    ...more,
  })
  return JSON.stringify({
    version: 1,
    upstreams: {
      alpha: upstream('alpha'),
      beta: upstream('beta', { n: false, max_tokens_field: 'max_completion_tokens' }),
      gamma: upstream('gamma', { local: true, deadlines: quiet }),
      delta: upstream('delta', DELTA_LIMITS),
      epsilon: upstream('epsilon'),
    },
    models: Object.fromEntries(Object.entries(VERSIONS[version]).map(([slug, model]) => [slug, toEntry(slug, model)])),
    aliases: ALIASES,
  })
}

const toEntry = (slug: string, { features, price, routes }: Model) => ({
  name: slug,
  context_length: 32_768,
  max_output_length: MAX_OUTPUT,
  input_modalities: ['text'],
  output_modalities: ['text'],
  supported_features: features,
  pricing: [toPricing(price)],
  routes: routes.map(({ upstream, priority = 0, weight = 1, price: own, features: less }) => ({
    upstream,
    model: toUpstreamModel(slug),
    priority,
    weight,
    ...(own ? { pricing: [toPricing(own)] } : {}),
    ...(less ? { supported_features: less } : {}),
  })),
})

const toPricing = ([prompt, completion, cached]: Price) => ({
  prompt: toDecimal(prompt),
  completion: toDecimal(completion),
  input_cache_read: toDecimal(cached),
})

const toDecimal = (pico: number) => (pico === 0 ? '0' : `0.${String(pico).padStart(12, '0')}`)

/** Nano-dollars, rounded half up. Null without such a route. */
export function toCost(version: Version, slug: string, upstream: UpstreamName, used: Tokens): number | null {
  const model = VERSIONS[version][slug]
  const route = model?.routes.find((one) => one.upstream === upstream)
  if (!model || !route) return null
  if (!route.price && isLocal(upstream)) return 0
  const [prompt, completion, cached] = route.price ?? model.price
  const pico = prompt * (used.prompt - used.cached) + cached * used.cached + completion * used.completion
  return Math.floor((pico + 500) / 1_000)
}

/** Whether the gateway has to enforce JSON there. */
export function lacksJson(version: Version, slug: string, upstream: UpstreamName): boolean {
  const model = VERSIONS[version][slug]
  const route = model?.routes.find((one) => one.upstream === upstream)
  return !(route?.features ?? model?.features ?? []).includes('json_mode')
}

/** How each key is created. `wrong` never is, `revoked` is revoked. */
export const KEYS = {
  main: [],
  budget: ['--budget', '0.004'],
  squad1: ['--team', 'squad'],
  squad2: ['--team', 'squad'],
  rpm: ['--rpm', '30'],
  tpm: ['--tpm', '9000'],
  slots: ['--concurrency', '1'],
  local: ['--scope', 'local'],
  picky: ['--model', 'acme/small', '--model', 'acme/w*'],
  revoked: [],
} as const

export type KeyName = keyof typeof KEYS
export const LIMITS = { rpm: 30, tpm: 9_000, slots: 1, budgetNanoUsd: 4_000_000, squadNanoUsd: 2_000_000, squadRpm: 20 }
export const SQUAD = ['--budget', '0.002', '--rpm', '20']
