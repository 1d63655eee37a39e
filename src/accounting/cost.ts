/**
 * What calls may use and cost at most, before it is known what they do: by the estimate, which their rows reserve; under a
 * budget by a token a byte of what they read, which is known at once, and by a count. `gateway/admit.ts` asks for the calls of
 * a request, `call-log.ts` for additional ones. Pure but for the count.
 */

import { reasonToRefuse } from '../domain/fields.ts'
import { chargeBy } from '../domain/price.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import { isTimed, toMaxTariff } from '../domain/tariff.ts'
import { EmbeddingsRequest } from '../domain/task.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Cost, Counting } from '../limits/budget.ts'
import type { Ask } from '../limits/limiter.ts'
import type { Reserve } from '../store/ledger-rows.ts'
import { type Counter, tokensOn } from '../tokens/count.ts'
import { capOf, type Estimate, toCap, worstPrompt } from '../tokens/estimate.ts'
import { toMedia } from '../tokens/prompt.ts'
import { addBills, toEndedBill, toMostComputeMs } from './bill.ts'
import type { Call } from './call.ts'

export const toReserve = (target: Target, { promptTokens, completionTokens }: Estimate, body: AnyRequest): Reserve => ({
  reservedPromptTokens: promptTokens,
  reservedCompletionTokens: completionTokens,
  reservedNanoUsd: toMostNanoUsd(target, promptTokens, completionTokens, body),
})

/** The same as rates count it: they take no whole answer for as long as its model may write. */
export const tokensOf = (
  { reservedPromptTokens, reservedCompletionTokens }: Reserve,
  { body, target }: Pick<PlannedCalls, 'body' | 'target'>,
): number => {
  const likely = body.stream ? Number.POSITIVE_INFINITY : toCap(body, target.maxOutputLength) * (body.n ?? 1)
  return reservedPromptTokens + Math.min(reservedCompletionTokens, likely)
}

/**
 * The most tokens that a choice of a call is held at when it begins. What a stream writes is seen, and its hold grows with that; of a whole
 * answer under a budget nothing is, and so it is all that the model may write.
 * @param isSeen whether it is a stream, or under no budget.
 */
export const toHeldOutput = (body: AnyRequest, maxOutputLength: number, isSeen: boolean): number =>
  isSeen ? toCap(body, maxOutputLength) : Math.min(capOf(body) ?? maxOutputLength, maxOutputLength)

/** A request that Tollgate has to cap is refused where its budget has no room for so many tokens. */
const MIN_CAP = 1_024
export const toLeastCap = (maxOutputLength: number): number => Math.min(MIN_CAP, maxOutputLength)

/** Finds the largest cap, from `least` to `most`, whose price is within so much; `least` where none is. */
export function findCap(least: number, most: number, nanoUsd: number, priceOf: (cap: number) => number): number {
  let [low, high] = [least, most]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (priceOf(middle) <= nanoUsd) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * The request with a cap of ours. Models that reason know the newer name only; servers of other models often the older one.
 * `max_tokens_field` has the last word.
 */
export function withCap(body: AnyRequest, cap: number, { features }: Pick<Target, 'features'>): AnyRequest {
  if (body instanceof EmbeddingsRequest) return body
  const { max_tokens: _, max_completion_tokens: __, ...rest } = body
  return features.includes('reasoning') ? { ...rest, max_completion_tokens: cap } : { ...rest, max_tokens: cap }
}

/** Calls of the same body to one target. */
export interface PlannedCalls {
  target: Target
  body: AnyRequest
  /** What each of them reads by the estimate, which its row reserves. */
  promptTokens: number
  /** What each of them is held at for what it writes, all its choices together; and what rates count of that. */
  outputTokens: number
  likelyTokens: number
  /** How many. */
  calls: number
}

/** What they are held at, where each reads so many tokens. */
const priceOf = (plan: PlannedCalls, promptTokens: number): number =>
  toMostNanoUsd(plan.target, promptTokens, plan.outputTokens, plan.body) * plan.calls

type Join = (costs: number[]) => number
const dearest: Join = (costs) => Math.max(...costs)
const sum: Join = (costs) => costs.reduce((before, cost) => before + cost, 0)

/** What several plans come to, and what has been spent beside them. Worked out where a budget has no room for the worst case alone. */
class PlannedCost implements Counting {
  /** Of each plan, what its calls read at most by a count; empty until they were counted. */
  #counted: number[] = []
  /** The same, for which there has to be room. */
  #likely: number[] = []

  constructor(
    readonly counter: Pick<Counter, 'bound'>,
    readonly quotaId: string,
    readonly plans: readonly PlannedCalls[],
    readonly join: Join,
    readonly spentNanoUsd: number,
  ) {}

  leastNanoUsd(): number {
    return this.spentNanoUsd + this.join(this.plans.map((plan) => priceOf(plan, 0)))
  }

  async count(): Promise<Cost | null> {
    const { counter, quotaId, plans, spentNanoUsd } = this
    const likely: number[] = []
    const tokens: number[] = []
    const counted: number[] = []
    const bounds = await Promise.all(plans.map(({ body }) => counter.bound(quotaId, body)))
    for (const [at, plan] of plans.entries()) {
      const bound = bounds[at]
      if (!bound) return null
      likely.push(priceOf(plan, bound.tokens))
      tokens.push(bound.tokens)
      counted.push(tokensOn(plan.target.upstreamModel, bound))
    }
    this.#counted = counted
    this.#likely = tokens
    const costOf = (tokens: readonly number[]) =>
      spentNanoUsd + this.join(plans.map((plan, at) => priceOf(plan, tokens[at] ?? 0)))
    return {
      likelyNanoUsd: spentNanoUsd + this.join(likely),
      mostNanoUsd: costOf(counted),
      reservedNanoUsd: costOf(plans.map(({ promptTokens }) => promptTokens)),
    }
  }

  /** What a call to the first of its targets is likely to read by a count; null where nothing was counted. */
  get likelyPromptTokens(): number | null {
    return this.#likely[0] ?? null
  }

  /** What a call to the first of its targets reads: by the estimate, or by a count that has come to less. */
  toPromptTokens(estimated: number): number {
    return Math.min(estimated, this.#counted[0] ?? estimated)
  }
}

/**
 * What a request asks for that one of several targets answers: the most of any of them.
 *
 * @param maxPromptTokens what it reads at most; null where it is under no budget.
 */
export function askForAny(
  counter: Pick<Counter, 'bound'>,
  quotaId: string,
  plans: readonly PlannedCalls[],
  maxPromptTokens: number | null,
): Ask & { counting?: PlannedCost } {
  let tokens = 0
  let nanoUsd = 0
  for (const plan of plans) {
    tokens = Math.max(tokens, (plan.promptTokens + plan.likelyTokens) * plan.calls)
    if (maxPromptTokens !== null) nanoUsd = Math.max(nanoUsd, priceOf(plan, maxPromptTokens))
  }
  if (maxPromptTokens === null) return { tokens, nanoUsd }
  return { tokens, nanoUsd, counting: new PlannedCost(counter, quotaId, plans, dearest, 0) }
}

/** Of one request it is asked for again each time that a hold grows. */
const worst = new WeakMap<AnyRequest, number>()
const worstPromptOf = (body: AnyRequest): number => worst.getOrInsertComputed(body, worstPrompt)

/** Whether one reads and costs as much as the other. */
export const isLike = (one: PlannedCalls, other: PlannedCalls): boolean =>
  one.target.pricing === other.target.pricing &&
  one.target.upstreamModel === other.target.upstreamModel &&
  one.target.maxOutputLength === other.target.maxOutputLength &&
  one.outputTokens === other.outputTokens &&
  one.calls === other.calls &&
  (one.target.upstream === other.target.upstream || !isTimed(one.target.pricing))

/** An additional call that is on its way to the record: several may set out before the first of them is there. */
export interface Pending {
  target: Target
  body: AnyRequest
  reserve: Reserve
}

/**
 * What a request asks for with all of its calls: what those have come to that have ended, and what the others may come to. A kill
 * charges the same, by the same piece: it must not bring a budget over its end.
 *
 * @param row of the request, where the first call's reserve stands.
 */
export function askForAll(
  counter: Pick<Counter, 'bound'>,
  quotaId: string,
  row: Reserve,
  hasBudget: boolean,
  calls: readonly Call[],
  pending: Iterable<Pending>,
): Ask {
  let tokens = 0
  let spentNanoUsd = 0
  const plans: PlannedCalls[] = []
  const add = (target: Target, body: AnyRequest, reserve: Reserve) => {
    tokens += tokensOf(reserve, { body, target })
    const { reservedPromptTokens: promptTokens, reservedCompletionTokens: outputTokens } = reserve
    plans.push({ target, body, promptTokens, outputTokens, likelyTokens: outputTokens, calls: 1 })
  }
  for (const call of calls) {
    const reserve = call.row ?? row
    const bill = toEndedBill(call)
    if (bill === null) {
      add(call.target, call.body, reserve)
      continue
    }
    const { usage, costNanoUsd } = addBills([bill])
    tokens += usage.prompt + usage.completion
    // A kill does not know what several models came to, and charges what was reserved.
    spentNanoUsd += bill.within.length === 0 ? costNanoUsd : Math.max(costNanoUsd, reserve.reservedNanoUsd)
  }
  for (const { target, body, reserve } of pending) add(target, body, reserve)
  if (!hasBudget) return { tokens, nanoUsd: 0 }
  const nanoUsd = spentNanoUsd + sum(plans.map((plan) => priceOf(plan, worstPromptOf(plan.body))))
  return { tokens, nanoUsd, counting: new PlannedCost(counter, quotaId, plans, sum, spentNanoUsd) }
}

/** Searches that are held for a call that may search: no upstream says beforehand how many it makes, and most make a few. */
const MAX_SEARCHES = 10

/**
 * The most that a call of so many tokens costs. All text of a prompt may be written to a cache, and all of an answer be reasoning, or
 * audio or images where these were asked for; each costs the most that it does in any mode that the sheet has, since an account may be
 * set to one; where it may search the web, it does; and where its time has a price, it takes all that its deadline allows.
 */
export function toMostNanoUsd(
  { pricing, features, upstream }: Pick<Target, 'pricing' | 'features'> & { upstream: Pick<Upstream, 'deadlines'> },
  prompt: number,
  completion: number,
  body: AnyRequest,
): number {
  if (pricing.length === 0) return 0
  const tariff = toMaxTariff(pricing, prompt)
  if (!tariff) return 0
  const { atto } = tariff
  const usage: Usage = { ...NO_USAGE, prompt, completion }
  if (atto.computeMs > 0n) usage.computeMs = toMostComputeMs(upstream, body)
  if (atto.webSearches > 0n && maySearch({ features }, body)) usage.webSearches = MAX_SEARCHES
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

/** Whether its model searches without being asked, or is asked to by a field that has a fee, of the request or of a tool. */
const maySearch = ({ features }: Pick<Target, 'features'>, body: AnyRequest): boolean =>
  features.includes('web_search') || [body, ...(body.tools ?? [])].some(asksForFee)

const asksForFee = (holder: object): boolean =>
  Object.entries(holder).some(([name, value]) => name === 'plugins' || reasonToRefuse(name, value) === 'fee')

const asksFor = ({ modalities }: AnyRequest, modality: string) =>
  modalities?.some((asked) => asked === modality) ?? false
