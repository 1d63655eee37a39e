/** Models and their routes in words, and which of them a list shows. Pure. */
import type { ShownModel, ShownRoute } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import type { Feature } from '../../domain/models.ts'
import type { PricingItem } from '../../domain/usage.ts'
import { hasWords, toExactCount } from '../figures/figures.ts'
import { type Told, toUpstreamState } from '../upstreams/words.ts'

export function toModelState({ enabled, is_ready }: Pick<ShownModel, 'enabled' | 'is_ready'>): Told {
  if (!enabled) return { kind: 'off', word: 'disabled' }
  return is_ready ? { kind: 'good', word: 'ready' } : { kind: 'bad', word: 'not ready' }
}

export const FEATURE_WORDS: Readonly<Record<Feature, string>> = {
  tools: 'tools',
  json_mode: 'JSON',
  structured_outputs: 'JSON schemas',
  logprobs: 'log probabilities',
  web_search: 'web search',
  reasoning: 'reasoning',
}

const isFeature = (feature: string): feature is Feature => feature in FEATURE_WORDS

/** One that a newer server knows goes by its own name. */
export const toFeatureWord = (feature: string): string => (isFeature(feature) ? FEATURE_WORDS[feature] : feature)

const MODALITY_WORDS: Readonly<Record<string, string>> = {
  image: 'images',
  file: 'files',
  audio: 'audio',
  video: 'video',
}

const EMBEDDINGS = 'embeddings'

/** What it takes beside text, and what it can do: `images, files, tools, reasoning`. */
export const toFeatures = (
  model: Pick<ShownModel, 'input_modalities' | 'output_modalities' | 'supported_features'>,
): string[] => [
  ...model.output_modalities.filter((modality) => modality === EMBEDDINGS),
  ...model.input_modalities
    .filter((modality) => modality !== 'text')
    .map((modality) => MODALITY_WORDS[modality] ?? modality),
  ...model.supported_features.map(toFeatureWord),
]

interface ModelFilter {
  search: string
  /** `ready`, `not_ready`, `disabled`; '' for any. */
  state: string
  upstream: string
  feature: string
}

/** Those that have all words of the search in their slug, name, owner or routes. */
export function filterModels(
  models: readonly ShownModel[],
  { search, state, upstream, feature }: ModelFilter,
): ShownModel[] {
  return models.filter((model) => {
    if (state !== '' && toModelState(model).word.replace(' ', '_') !== state) return false
    if (upstream !== '' && !model.routes.some((route) => route.upstream === upstream)) return false
    if (feature !== '' && !abilitiesOf(model).includes(feature)) return false
    const names = model.routes.map((route) => route.upstream_model)
    return hasWords([model.slug, model.name, model.owned_by, ...names], search)
  })
}

const abilitiesOf = (model: ShownModel): string[] => [
  ...model.supported_features,
  ...model.input_modalities,
  ...model.output_modalities,
]

export interface Rung extends ShownRoute {
  /** `first`, `next`, `last`; `only` where there is no other; `off` for one that is disabled. */
  place: 'only' | 'first' | 'next' | 'last' | 'off'
  /** Of 1: how much of what comes to its step goes to it. */
  share: number
}

/** Routes in the order in which they are tried. Those of the same priority share what comes to them by their weights. */
export function toLadder(routes: readonly ShownRoute[]): Rung[] {
  const used = routes.filter((route) => !isDisabled(route))
  const steps = [...new Set(used.map(({ priority }) => priority))].sort((a, b) => a - b)
  const rungs = used
    .toSorted((a, b) => a.priority - b.priority || b.weight - a.weight)
    .map((route): Rung => {
      const beside = used.filter(({ priority }) => priority === route.priority)
      const weight = beside.reduce((sum, each) => sum + each.weight, 0)
      return { ...route, place: toPlace(steps.indexOf(route.priority), steps.length), share: route.weight / weight }
    })
  const others = routes.filter(isDisabled)
  return [...rungs, ...others.map((route): Rung => ({ ...route, place: 'off', share: 0 }))]
}

/** The route or, as the API says it, its upstream. */
const isDisabled = ({ enabled, reason }: ShownRoute) => !enabled || reason === 'its upstream is disabled'

function toPlace(step: number, steps: number): Rung['place'] {
  if (steps === 1) return 'only'
  if (step === 0) return 'first'
  return step === steps - 1 ? 'last' : 'next'
}

/** How a route is doing: what keeps it from being asked, or how its upstream is. */
export function toRouteHealth(
  model: string,
  route: ShownRoute,
  upstream: ShownUpstream | undefined,
): Told & { reason: string | null } {
  if (isDisabled(route)) return { kind: 'off', word: 'disabled', reason: route.enabled ? route.reason : null }
  const target = upstream?.targets.find((one) => one.model === model && one.upstream_model === route.upstream_model)
  if (route.is_ready === false) {
    const isOpen = target?.breaker === 'open' && upstream?.state !== 'down' && upstream?.state !== 'not_ready'
    const word = isOpen ? 'breaker open' : upstream ? toUpstreamState(upstream).word : 'not ready'
    return { kind: 'bad', word, reason: route.reason }
  }
  if (target && target.breaker !== 'closed')
    return {
      kind: 'warn',
      word: target.breaker === 'open' ? 'open for some keys' : 'tried again',
      reason: target.reason,
    }
  if (target?.reason) return { kind: 'warn', word: 'put last', reason: target.reason }
  if (!upstream) return { kind: 'good', word: 'ready', reason: null }
  return { ...toUpstreamState(upstream), reason: upstream.reason }
}

/** For which calls an item holds; '' for all of which no other says it. */
export function toCondition({
  mode,
  min_prompt_tokens: least,
}: Pick<PricingItem, 'mode' | 'min_prompt_tokens'>): string {
  const long = least === undefined ? '' : `where the prompt has more than ${toExactCount(least)} tokens`
  if (mode === undefined) return long.replace('w', 'W')
  return `Served as ${mode}${long === '' ? '' : `, ${long}`}`
}

const PRICE_WORDS = {
  prompt: 'Prompt',
  completion: 'Answer',
  input_cache_read: 'Prompt, from the cache',
  input_cache_write: 'Prompt, into the cache',
  input_cache_write_1h: 'Prompt, into the cache for an hour',
  internal_reasoning: 'Reasoning',
  audio: 'Audio in the prompt',
  audio_completion: 'Audio in the answer',
  image_token: 'Image in the prompt',
  image_token_completion: 'Image in the answer',
} as const satisfies Partial<Record<keyof PricingItem, string>>

export type TokenPrice = keyof typeof PRICE_WORDS

const TOKEN_PRICES = Object.keys(PRICE_WORDS) as TokenPrice[]
export const toPriceWord = (name: TokenPrice): string => PRICE_WORDS[name]

interface PriceLine {
  name: TokenPrice
  word: string
  /** Dollars, in all its digits. */
  perToken: string
}

/** The prices of an item that are for a token each, in an order that is always the same. */
export const toPriceLines = (item: PricingItem): PriceLine[] =>
  TOKEN_PRICES.flatMap((name) => {
    const perToken = item[name]
    return perToken === undefined ? [] : [{ name, word: PRICE_WORDS[name], perToken }]
  })
