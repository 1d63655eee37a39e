/** Between what is typed of a model or a route and what the API takes. Prices are typed for a million tokens. Pure. */
import type { ShownModel, ShownRoute } from '../../documents/model.ts'
import { FEATURES, type Feature } from '../../domain/models.ts'
import type { PricingItem } from '../../domain/usage.ts'
import { Refusal } from '../api/refusal.ts'
import { toPerToken, toTypedPrice } from '../figures/figures.ts'
import { type TokenPrice, toPriceWord } from './words.ts'

/** Those that are typed. What else a price has stays as it is. */
export const TYPED_PRICES = [
  'prompt',
  'completion',
  'input_cache_read',
  'input_cache_write',
] as const satisfies readonly TokenPrice[]

type TypedPrice = (typeof TYPED_PRICES)[number]
export type PriceValues = Record<TypedPrice, string>

const toPriceValues = ([item]: readonly PricingItem[]): PriceValues => ({
  prompt: toTyped(item?.prompt),
  completion: toTyped(item?.completion),
  input_cache_read: toTyped(item?.input_cache_read),
  input_cache_write: toTyped(item?.input_cache_write),
})

const toTyped = (usdPerToken: string | undefined) => (usdPerToken === undefined ? '' : toTypedPrice(usdPerToken))

/** The prices as typed, of short prompts where they are others for long ones. Throws a Refusal that names the field. */
export function toPricing(values: PriceValues, [first, ...longer]: readonly PricingItem[]): PricingItem[] {
  const item: PricingItem = { prompt: '0', completion: '0', ...first }
  for (const name of TYPED_PRICES) {
    const text = values[name].trim()
    // In other digits it would be another price.
    if (first && text === toTyped(first[name])) continue
    if (text === '' && name !== 'prompt' && name !== 'completion') delete item[name]
    else item[name] = toPrice(text, name)
  }
  return [item, ...longer]
}

function toPrice(text: string, name: TypedPrice): string {
  const price = toPerToken(text)
  if (price !== null) return price
  throw new Refusal(`${toPriceWord(name)}: write dollars for a million tokens, such as 1.25 or 0.`, 'invalid', name)
}

const isSame = (one: readonly PricingItem[], other: readonly PricingItem[]) =>
  JSON.stringify(one) === JSON.stringify(other)

export interface ModelValues extends PriceValues {
  [field: string]: string
  context_length: string
  max_output_length: string
  /** With commas. */
  supported_features: string
  enabled: string
  listed: string
}

type EditedModel = Pick<
  ShownModel,
  'pricing' | 'context_length' | 'max_output_length' | 'supported_features' | 'enabled' | 'listed'
>

export const toModelValues = (model: EditedModel): ModelValues => ({
  ...toPriceValues(model.pricing),
  context_length: String(model.context_length),
  max_output_length: String(model.max_output_length),
  supported_features: model.supported_features.join(','),
  enabled: model.enabled ? 'yes' : 'no',
  listed: model.listed ? 'yes' : 'no',
})

/** What is said otherwise than it is. Throws a Refusal that names the field for what cannot be read. */
export function toModelPatch(values: ModelValues, before: EditedModel) {
  // Nobody knows what it costs, and nobody has said it now.
  const isUnpriced = before.pricing.length === 0 && TYPED_PRICES.every((name) => values[name].trim() === '')
  const pricing = isUnpriced ? [] : toPricing(values, before.pricing)
  const after = {
    context_length: toTokens(values.context_length, 'context_length'),
    max_output_length: toTokens(values.max_output_length, 'max_output_length'),
    enabled: values.enabled === 'yes',
    listed: values.listed === 'yes',
  }
  const changed = Object.entries(after).filter(([name, value]) => before[name as keyof typeof after] !== value)
  return {
    ...(isSame(pricing, before.pricing) ? {} : { pricing }),
    ...(values.supported_features === before.supported_features.join(',')
      ? {}
      : { supported_features: toFeatures(values.supported_features) }),
    ...(Object.fromEntries(changed) as Partial<typeof after>),
  }
}

const toFeatures = (text: string): Feature[] => FEATURES.filter((feature) => text.split(',').includes(feature))

function toTokens(text: string, field: string): number {
  const digits = text.trim().replaceAll(/[,_ ]/g, '')
  if (/^[1-9]\d{0,8}$/.test(digits)) return Number(digits)
  throw new Refusal('Write how many tokens, such as 128000.', 'invalid', field)
}

export interface RouteValues extends PriceValues {
  [field: string]: string
  upstream: string
  upstream_model: string
  priority: string
  weight: string
  /** `model`: as its model; `own`. */
  price: string
  enabled: string
}

/** Of a new route to an upstream, after all others. */
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

/** What a route is to be; of one that is there, what is said otherwise. Throws a Refusal that names the field. */
export function toRouteBody(values: RouteValues, before: Pick<ShownRoute, 'pricing' | 'own_price'> | null) {
  const hadOwn = before?.own_price ?? false
  const pricing = values.price === 'own' ? toPricing(values, before?.pricing ?? []) : null
  const isAsItWas = pricing === null ? !hadOwn : hadOwn && isSame(pricing, before?.pricing ?? [])
  return {
    priority: toWhole(values.priority, 'priority', 0),
    weight: toWhole(values.weight, 'weight', 1),
    enabled: values.enabled === 'yes',
    ...(isAsItWas ? {} : { pricing }),
  }
}

function toWhole(text: string, field: string, least: number): number {
  const digits = text.trim()
  if (/^\d{1,7}$/.test(digits) && Number(digits) >= least) return Number(digits)
  throw new Refusal(`Write a whole number from ${least} on.`, 'invalid', field)
}
