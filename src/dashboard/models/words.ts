/** Texts of models and routes, the filter of their list, and conversion of their forms. */
import type { ShownModel, ShownRoute } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { keysOf } from '../../domain/json.ts'
import {
  ENDPOINT_MODALITIES,
  eachModelField,
  FEATURE_WORDS,
  FEATURES,
  type Feature,
  MODALITY_WORDS,
  type ModelField,
  type ModelFieldName,
  UPSTREAM_DISABLED,
} from '../../domain/models.ts'
import { costNanoUsd } from '../../domain/price.ts'
import { capitalize } from '../../domain/text.ts'
import { UNIT_NAMES, UNITS } from '../../domain/units.ts'
import {
  isByUnit,
  isNothing,
  NO_USAGE,
  PRICE_NAMES,
  PRICES,
  type PricingItem,
  toAudioTerms,
} from '../../domain/usage.ts'
import { Refusal } from '../api/refusal.ts'
import { hasWords, isFree, toExactCount, toMoney, toPerToken, toTypedPrice } from '../figures/figures.ts'
import { toWhole } from '../keys/values.ts'
import { type Told, toUpstreamState } from '../upstreams/words.ts'

export function toModelState({ enabled, is_ready }: Pick<ShownModel, 'enabled' | 'is_ready'>): Told {
  if (!enabled) return { kind: 'off', word: 'disabled' }
  return is_ready ? { kind: 'good', word: 'ready' } : { kind: 'bad', word: 'not ready' }
}

const ABILITIES: Readonly<Record<string, string>> = { ...FEATURE_WORDS, ...MODALITY_WORDS }

export const ABILITY_OPTIONS = Object.entries(ABILITIES).filter(([name]) => name !== 'text')

/** Names from a newer server that this page doesn't know are shown unchanged. */
export const toAbilityWord = (name: string): string => ABILITIES[name] ?? name

/** Modalities other than text, and capabilities: `images, files, tools, reasoning`. */
export const toFeatures = (
  model: Pick<ShownModel, 'input_modalities' | 'output_modalities' | 'supported_features'>,
): string[] => [
  ...model.output_modalities.filter((modality) => modality !== 'text').map(toOutputWord),
  ...model.input_modalities.filter((modality) => modality !== 'text').map(toAbilityWord),
  ...model.supported_features.map(toAbilityWord),
]

/** Modalities without a direction are inputs. */
const toOutputWord = (modality: string) =>
  ENDPOINT_MODALITIES.some((one) => one === modality) ? toAbilityWord(modality) : `${modality} output`

interface ModelFilter {
  search: string
  /** `ready`, `not_ready`, `disabled`, or '' for all. */
  state: string
  upstream: string
  feature: string
}

/** Searches ID, name, owner, and routes. */
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
  /** `only` if there is a single step; `off` if disabled. */
  place: 'only' | 'first' | 'next' | 'last' | 'off'
  /** Share of the requests of its step, 0 to 1. */
  share: number
}

/** Routes in the order they are tried. Routes of the same priority share requests by weight. */
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

/** The route itself or its upstream. */
const isDisabled = ({ enabled, reason }: ShownRoute) => !enabled || reason === UPSTREAM_DISABLED

function toPlace(step: number, steps: number): Rung['place'] {
  if (steps === 1) return 'only'
  if (step === 0) return 'first'
  return step === steps - 1 ? 'last' : 'next'
}

/** Why a route is unavailable, or else the state of its upstream. */
export function toRouteHealth(
  model: string,
  route: ShownRoute,
  upstream: ShownUpstream | undefined,
): Told & { reason: string | null } {
  if (isDisabled(route)) return { kind: 'off', word: 'disabled', reason: route.enabled ? route.reason : null }
  const target = upstream?.targets.find((one) => one.model === model && one.upstream_model === route.upstream_model)
  if (route.is_ready === false) {
    const isOpen = target?.breaker === 'open' && upstream?.state !== 'down' && upstream?.state !== 'not_ready'
    const state = upstream && toUpstreamState(upstream)
    const word = isOpen ? 'breaker open' : state && state.kind !== 'good' ? state.word : 'not ready'
    return { kind: 'bad', word, reason: route.reason }
  }
  if (target && target.breaker !== 'closed')
    return {
      kind: 'warn',
      word: target.breaker === 'open' ? 'open for some keys' : 'half-open',
      reason: target.reason,
    }
  if (target?.reason) return { kind: 'warn', word: 'deprioritized', reason: target.reason }
  if (!upstream) return { kind: 'good', word: 'ready', reason: null }
  return { ...toUpstreamState(upstream), reason: upstream.reason }
}

/** Which calls a price item applies to; '' for all others. */
export function toCondition({ mode, size, quality, min_prompt_tokens: least }: Partial<PricingItem>): string {
  const parts = [
    mode && `service tier ${mode}`,
    (size || quality) && `images ${[size, quality && `in ${quality} quality`].filter(Boolean).join(' ')}`,
    least && `prompts over ${toExactCount(least)} tokens`,
  ]
  return capitalize(parts.filter(Boolean).join(', '))
}

/** In a fixed order, in dollars with all digits. */
export const toPriceLines = (item: PricingItem) =>
  PRICE_NAMES.flatMap((name) => {
    const usd = item[name]
    const { word, isOfTokens } = PRICES[name]
    if (usd === undefined || word === null || (isOfTokens && isNothing(usd) && isByUnit([item]))) return []
    return [{ name, word, usd, isOfTokens }]
  })

/** Prices per unit other than tokens, each with its condition: `Generated image, 1024x1024 in low quality`. */
export const toUnitLines = (pricing: readonly PricingItem[]) =>
  pricing.flatMap((item) =>
    toPriceLines(item).flatMap(({ name, word, usd, isOfTokens }) => {
      if (isOfTokens) return []
      const condition = toCondition(item).replace(/^Images /, '')
      const terms = name === 'audio_second' ? toAudioTerms(item) : ''
      return [{ title: condition === '' ? word : `${word}, ${condition}`, usd, terms }]
    }),
  )

/** Editable prices. Other prices of an item don't change. */
export const TYPED_PRICES = [
  'prompt',
  'completion',
  'input_cache_read',
  'input_cache_write',
] as const satisfies readonly (keyof PricingItem)[]

/** Per second, image, and so on. */
export const UNIT_PRICES = UNIT_NAMES.filter((unit) => unit !== 'webSearches' && unit !== 'computeMs').map(
  (unit) => UNITS[unit].price,
)
export const AUDIO_TERMS = { audio_min_seconds: 'Minimum seconds', audio_step_seconds: 'Step in seconds' } as const
const AUDIO_TERM_NAMES = keysOf(AUDIO_TERMS)

type TypedPrice = (typeof TYPED_PRICES)[number]
type UnitValue = (typeof UNIT_PRICES)[number] | keyof typeof AUDIO_TERMS
export type PriceValues = Record<TypedPrice | UnitValue, string>
/** All fields of a form. */
export const PRICE_FIELDS = [...TYPED_PRICES, ...UNIT_PRICES, ...AUDIO_TERM_NAMES]

export const toPriceValues = ([item]: readonly PricingItem[]) =>
  Object.fromEntries([
    ...TYPED_PRICES.map((name) => [name, toTyped(item?.[name])]),
    ...[...UNIT_PRICES, ...AUDIO_TERM_NAMES].map((name) => [name, String(item?.[name] ?? '')]),
  ]) as PriceValues

const toTyped = (usdPerToken: string | undefined) => (usdPerToken === undefined ? '' : toTypedPrice(usdPerToken))

/** Replaces the first price item, which is for short prompts. @throws a Refusal that names the field. */
export function toPricing(values: TypedPrices, [first, ...longer]: readonly PricingItem[]): PricingItem[] {
  const item: PricingItem = { prompt: '0', completion: '0', ...first }
  const isByUnit = UNIT_PRICES.some((name) => values[name]?.trim())
  for (const name of TYPED_PRICES) {
    const text = values[name].trim()
    // Reading an unchanged price back could change its digits.
    if (first && text === toTyped(first[name])) continue
    if (text === '' && name !== 'prompt' && name !== 'completion') delete item[name]
    else item[name] = text === '' && isByUnit ? '0' : toPrice(text, name)
  }
  for (const name of UNIT_PRICES) {
    const text = values[name]?.trim()
    if (text === undefined) continue
    if (text === '') delete item[name]
    else item[name] = toUnitPrice(text, name)
  }
  for (const name of AUDIO_TERM_NAMES) {
    const text = values[name]?.trim()
    if (text === undefined) continue
    if (text === '') delete item[name]
    else item[name] = toSeconds(text, name)
  }
  return [item, ...longer]
}

type TypedPrices = Record<TypedPrice, string> & Partial<Record<UnitValue, string>>

function toUnitPrice(text: string, name: (typeof UNIT_PRICES)[number]): string {
  const usd = text.replace(/^\$/, '')
  if (/^\d{1,9}(\.\d{1,18})?$/.test(usd)) return usd
  throw new Refusal(`${PRICES[name].word}: enter dollars, such as 0.0001 or 0.`, 'invalid', name)
}

function toSeconds(text: string, name: keyof typeof AUDIO_TERMS): number {
  if (/^\d{1,4}$/.test(text)) return Number(text)
  throw new Refusal(`${AUDIO_TERMS[name]}: enter whole seconds, such as 10.`, 'invalid', name)
}

function toPrice(text: string, name: TypedPrice): string {
  const price = toPerToken(text)
  if (price !== null) return price
  throw new Refusal(`${PRICES[name].word}: enter dollars per million tokens, such as 1.25 or 0.`, 'invalid', name)
}

const isSame = (one: readonly PricingItem[], other: readonly PricingItem[]) =>
  JSON.stringify(one) === JSON.stringify(other)

type EditedModel = Pick<ShownModel, 'pricing' | ModelFieldName>
type ModelEdit = Partial<Omit<EditedModel, 'supported_features'> & { supported_features: Feature[] }>
type FieldValues = Record<ModelFieldName, string>
export type ModelValues = PriceValues & FieldValues

export const toModelValues = (model: EditedModel): ModelValues => ({
  ...toPriceValues(model.pricing),
  ...(Object.fromEntries(eachModelField((name) => [name, toTypedField(model[name])])) as FieldValues),
})

/** Features are joined with commas. */
const toTypedField = (value: EditedModel[ModelFieldName]): string =>
  typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)

const READ: Readonly<Record<ModelField['kind'], (text: string, field: string) => unknown>> = {
  tokens: (text, field) => toWhole(text, field, 1, 'Enter a number of tokens, such as 128000.'),
  features: (text) => FEATURES.filter((feature) => text.split(',').includes(feature)),
  flag: (text) => text === 'yes',
}

/** Changed fields only. @throws a Refusal that names the field. */
export function toModelPatch(values: ModelValues, before: EditedModel) {
  // No price was known, and none was entered.
  const isUnpriced = before.pricing.length === 0 && PRICE_FIELDS.every((name) => (values[name] ?? '').trim() === '')
  const pricing = isUnpriced ? [] : toPricing(values, before.pricing)
  const changed = eachModelField((name, { kind }) => {
    if (values[name] === toTypedField(before[name])) return []
    const value = READ[kind](values[name], name)
    return value === before[name] ? [] : [[name, value]]
  })
  return {
    ...(isSame(pricing, before.pricing) ? {} : { pricing }),
    ...(Object.fromEntries(changed.flat()) as ModelEdit),
  }
}

export interface RouteValues extends PriceValues {
  [field: string]: string
  upstream: string
  upstream_model: string
  priority: string
  weight: string
  /** `model` for the model's price, or `own`. */
  price: string
  enabled: string
}

/** A new route, after all others. */
export const toNewRoute = (model: Pick<ShownModel, 'pricing' | 'routes'>, upstream: string): RouteValues => ({
  ...toPriceValues(model.pricing),
  ...{ upstream, upstream_model: '', weight: '1', price: 'model', enabled: 'yes' },
  priority: String(Math.max(-1, ...model.routes.map(({ priority }) => priority)) + 1),
})

export const toRouteValues = (route: ShownRoute): RouteValues => ({
  ...toPriceValues(route.pricing),
  ...{ upstream: route.upstream, upstream_model: route.upstream_model },
  ...{ priority: String(route.priority), weight: String(route.weight) },
  ...{ price: route.own_price ? 'own' : 'model', enabled: route.enabled ? 'yes' : 'no' },
})

/** Leaves out an unchanged price. @throws a Refusal that names the field. */
export function toRouteBody(values: RouteValues, before: Pick<ShownRoute, 'pricing' | 'own_price'> | null) {
  const hadOwn = before?.own_price ?? false
  const pricing = values.price === 'own' ? toPricing(values, before?.pricing ?? []) : null
  const isAsItWas = pricing === null ? !hadOwn : hadOwn && isSame(pricing, before?.pricing ?? [])
  return {
    priority: toWhole(values.priority, 'priority', 0, 'Enter a whole number, 0 or more.'),
    weight: toWhole(values.weight, 'weight', 1, 'Enter a whole number, 1 or more.'),
    enabled: values.enabled === 'yes',
    ...(isAsItWas ? {} : { pricing }),
  }
}

/** Tokens of the test's prompt, with what chat formats add. */
const TEST_TOKENS = { prompt: 8, completion: 1 } as const

/** `costs about $0.000002`, or `free`. */
export function toTestCost(pricing: readonly PricingItem[]): string {
  if (isFree(pricing)) return 'free'
  const nanoUsd = costNanoUsd(pricing, { ...NO_USAGE, ...TEST_TOKENS })
  return nanoUsd === null ? 'cost unknown' : `costs about ${toMoney(nanoUsd)}`
}
