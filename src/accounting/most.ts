/** The most that a call of so many tokens may cost by its price sheet, whatever its upstream makes of it. Pure. */
import { reasonToRefuse } from '../domain/fields.ts'
import { costNanoUsd } from '../domain/price.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { modesOf } from '../domain/tariff.ts'
import { NO_USAGE, type PricingItem, type Usage } from '../domain/usage.ts'
import { toMedia } from '../tokens/prompt.ts'

/** Searches that are held for a call that may search: no upstream says beforehand how many it makes, and most make a few. */
const MOST_SEARCHES = 10

/**
 * The most that a call of so many tokens costs. Where they have prices of their own, all text of a prompt may be written to a
 * cache, and all of an answer be reasoning, or audio or images where these were asked for; it may be served in the dearest mode that
 * the sheet has, since an account may be set to one; and where it may search the web, it does.
 */
export function toMostNanoUsd(
  target: Pick<Target, 'pricing' | 'features'>,
  prompt: number,
  completion: number,
  body: CanonicalRequest,
): number {
  const { pricing } = target
  const usage: Usage = { ...NO_USAGE, prompt, completion }
  const plain = costNanoUsd(pricing, usage)
  if (!pricing.some(hasOtherPrices)) return plain
  if (pricing.some((item) => item.web_search) && maySearch(target, body)) usage.webSearches = MOST_SEARCHES
  const { audio, images } = toMedia(body)
  const audioPrompt = Math.min(audio, prompt)
  const imagePrompt = Math.min(images, prompt - audioPrompt)
  const text = prompt - audioPrompt - imagePrompt
  const reads: Partial<Usage>[] = [{}, { cacheWrite: prompt }, { cacheWrite1h: prompt }]
  if (text < prompt)
    for (const written of [{}, { cacheWrite: text }, { cacheWrite1h: text }])
      reads.push({ audioPrompt, imagePrompt, ...written })
  const writes: Partial<Usage>[] = [{}, { reasoning: completion }]
  if (asksFor(body, 'audio')) writes.push({ audioCompletion: completion })
  if (asksFor(body, 'image')) writes.push({ imageCompletion: completion })
  let most = plain
  for (const mode of [null, ...modesOf(pricing)])
    for (const read of reads)
      for (const write of writes) most = Math.max(most, costNanoUsd(pricing, { ...usage, ...read, ...write }, mode))
  return most
}

const hasOtherPrices = (item: PricingItem) =>
  Boolean(
    item.input_cache_write ||
      item.input_cache_write_1h ||
      item.internal_reasoning ||
      item.audio ||
      item.audio_completion ||
      item.image_token ||
      item.image_token_completion ||
      item.web_search ||
      item.mode,
  )

/** Whether its model searches by itself, or is asked to by a field that has a fee, of the request or of a tool. */
const maySearch = ({ features }: Pick<Target, 'features'>, body: CanonicalRequest): boolean =>
  features.includes('web_search') || [body, ...(body.tools ?? [])].some(asksForFee)

const asksForFee = (holder: object): boolean =>
  Object.entries(holder).some(([name, value]) => name === 'plugins' || reasonToRefuse(name, value) === 'fee')

const asksFor = ({ modalities }: CanonicalRequest, modality: string) =>
  modalities?.some((asked) => asked === modality) ?? false
