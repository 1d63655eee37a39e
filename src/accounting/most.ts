/** The most that a call of so many tokens may cost by its price sheet, whatever its upstream makes of it. Pure. */
import { reasonToRefuse } from '../domain/fields.ts'
import { chargeBy } from '../domain/price.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import { toMostTariff } from '../domain/tariff.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import { toMedia } from '../tokens/prompt.ts'
import { toMostComputeMs } from './compute.ts'

/** Searches that are held for a call that may search: no upstream says beforehand how many it makes, and most make a few. */
const MOST_SEARCHES = 10

/**
 * The most that a call of so many tokens costs. All text of a prompt may be written to a cache, and all of an answer be reasoning, or
 * audio or images where these were asked for; each costs the most that it does in any mode that the sheet has, since an account may be
 * set to one; where it may search the web, it does; and where its time has a price, it takes all that its deadline allows.
 */
export function toMostNanoUsd(
  { pricing, features, upstream }: Pick<Target, 'pricing' | 'features'> & { upstream: Pick<Upstream, 'deadlines'> },
  prompt: number,
  completion: number,
  body: CanonicalRequest,
): number {
  if (pricing.length === 0) return 0
  const tariff = toMostTariff(pricing, prompt)
  if (!tariff) return 0
  const { atto } = tariff
  const usage: Usage = { ...NO_USAGE, prompt, completion }
  if (atto.computeMs > 0n) usage.computeMs = toMostComputeMs(upstream, body)
  if (atto.webSearches > 0n && maySearch({ features }, body)) usage.webSearches = MOST_SEARCHES
  if (atto.audioPrompt > atto.prompt || atto.imagePrompt > atto.prompt) {
    const { audio, images } = toMedia(body)
    usage.audioPrompt = Math.min(audio, prompt)
    usage.imagePrompt = Math.min(images, prompt - usage.audioPrompt)
  }
  const audioCompletion = asksFor(body, 'audio') ? atto.audioCompletion : 0n
  const imageCompletion = asksFor(body, 'image') ? atto.imageCompletion : 0n
  if (audioCompletion > 0n && audioCompletion >= imageCompletion) usage.audioCompletion = completion
  else if (imageCompletion > 0n) usage.imageCompletion = completion
  return chargeBy(tariff, usage)
}

/** Whether its model searches by itself, or is asked to by a field that has a fee, of the request or of a tool. */
const maySearch = ({ features }: Pick<Target, 'features'>, body: CanonicalRequest): boolean =>
  features.includes('web_search') || [body, ...(body.tools ?? [])].some(asksForFee)

const asksForFee = (holder: object): boolean =>
  Object.entries(holder).some(([name, value]) => name === 'plugins' || reasonToRefuse(name, value) === 'fee')

const asksFor = ({ modalities }: CanonicalRequest, modality: string) =>
  modalities?.some((asked) => asked === modality) ?? false
