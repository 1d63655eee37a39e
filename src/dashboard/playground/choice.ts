/** Which models are asked, and how they stand in a list. Pure. */
import type { PricingItem } from '../../domain/usage.ts'
import { toPrices } from '../figures/prices.ts'

interface Offer {
  slug: string
  pricing: readonly PricingItem[]
  is_ready: boolean | null
}

const DEMO = 'tollgate/demo'

/** What the address names, whether it is there or not; else one that is ready, and the demo where there is no other. */
export function chooseModels(models: readonly Offer[], model: string | null, beside: string | null): string[] {
  const ready = models.filter(({ is_ready }) => is_ready !== false)
  const usual = ready.find(({ slug }) => slug !== DEMO) ?? ready[0] ?? models[0]
  const first = model ?? usual?.slug
  if (first === undefined) return []
  return beside === null ? [first] : [first, beside]
}

/** Another one than is chosen, to stand beside it; the same where there is no other. */
export const chooseSecond = (models: readonly Offer[], first: string): string =>
  models.find(({ slug, is_ready }) => slug !== first && is_ready !== false)?.slug ?? first

/** As a list names it: with its price for a million tokens, and what keeps it from answering. */
export const toOfferText = ({ slug, pricing, is_ready }: Offer): string =>
  `${slug} · ${toPrices(pricing).replace(' per million', '')}${is_ready === false ? ' · not ready' : ''}`
