/**
 * Upper bounds of the usage and cost of calls. Rows reserve an estimate. Budgets use one token per byte, or a count.
 */

import { EndpointRequest } from '../domain/endpoint-request.ts'
import { reasonToRefuse } from '../domain/fields.ts'
import { chargeBy } from '../domain/price.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import { isTimed, toMaxTariff } from '../domain/tariff.ts'
import { addUnits, MOST_UNITS } from '../domain/units.ts'
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

/** Tokens for rate limits, which don't count a whole response at the model's output limit. */
export const tokensOf = (
  { reservedPromptTokens, reservedCompletionTokens }: Reserve,
  { body, target }: Pick<PlannedCalls, 'body' | 'target'>,
): number => {
  const likely = body.stream ? Number.POSITIVE_INFINITY : toCap(body, target.maxOutputLength) * (body.n ?? 1)
  return reservedPromptTokens + Math.min(reservedCompletionTokens, likely)
}

/**
 * Output tokens reserved per choice when a call begins. A stream's hold grows with its output. A whole response under a
 * budget must reserve the model's limit.
 */
export const toHeldOutput = (body: AnyRequest, maxOutputLength: number, isSeen: boolean): number =>
  isSeen || body instanceof EndpointRequest
    ? toCap(body, maxOutputLength)
    : Math.min(capOf(body) ?? maxOutputLength, maxOutputLength)

/** A request that Tollgate must cap is rejected if its budget can't cover this many tokens. */
const MIN_CAP = 1_024
export const toLeastCap = (maxOutputLength: number): number => Math.min(MIN_CAP, maxOutputLength)

/** The largest cap from `least` to `most` with a price of at most `nanoUsd`; else `least`. */
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
 * Reasoning models only know `max_completion_tokens`; servers of other models often only `max_tokens`. The upstream's
 * `max_tokens_field` overrides this.
 */
export function withCap(body: AnyRequest, cap: number, { features }: Pick<Target, 'features'>): AnyRequest {
  if (body instanceof EndpointRequest) return body
  const { max_tokens: _, max_completion_tokens: __, ...rest } = body
  return features.includes('reasoning') ? { ...rest, max_completion_tokens: cap } : { ...rest, max_tokens: cap }
}

export interface PlannedCalls {
  target: Target
  body: AnyRequest
  /** Estimated input of each call, which its row reserves. */
  promptTokens: number
  outputTokens: number
  likelyTokens: number
  calls: number
}

const priceOf = (plan: PlannedCalls, promptTokens: number): number =>
  toMostNanoUsd(plan.target, promptTokens, plan.outputTokens, plan.body) * plan.calls

type Join = (costs: number[]) => number
const dearest: Join = (costs) => Math.max(...costs)
const sum: Join = (costs) => costs.reduce((before, cost) => before + cost, 0)

class PlannedCost implements Counting {
  /** Upper bound of the input by plan; empty until counted. */
  #counted: number[] = []
  /** Likely input by plan, which the budget must cover. */
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

  get likelyPromptTokens(): number | null {
    return this.#likely[0] ?? null
  }

  toPromptTokens(estimated: number): number {
    return Math.min(estimated, this.#counted[0] ?? estimated)
  }
}

/**
 * The maximum over the request's targets.
 * @param maxPromptTokens upper bound of its input; null without a budget.
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

/** Cached, since it is needed each time a hold grows. */
const worst = new WeakMap<AnyRequest, number>()
const worstPromptOf = (body: AnyRequest): number => worst.getOrInsertComputed(body, worstPrompt)

export const isLike = (one: PlannedCalls, other: PlannedCalls): boolean =>
  one.target.pricing === other.target.pricing &&
  one.target.upstreamModel === other.target.upstreamModel &&
  one.target.maxOutputLength === other.target.maxOutputLength &&
  one.outputTokens === other.outputTokens &&
  one.calls === other.calls &&
  (one.target.upstream === other.target.upstream || !isTimed(one.target.pricing))

/** An additional call being recorded. Several may start before the first is recorded. */
export interface Pending {
  target: Target
  body: AnyRequest
  reserve: Reserve
}

/**
 * Actual cost of ended calls, plus maximum cost of the others. A crash charges the same, so it can't exceed the budget.
 * @param row row of the request, with the first call's reservation.
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
    // After a crash, the usage of several models is unknown, and the reservation is charged.
    spentNanoUsd += bill.nested.length === 0 ? costNanoUsd : Math.max(costNanoUsd, reserve.reservedNanoUsd)
  }
  for (const { target, body, reserve } of pending) add(target, body, reserve)
  if (!hasBudget) return { tokens, nanoUsd: 0 }
  const nanoUsd = spentNanoUsd + sum(plans.map((plan) => priceOf(plan, worstPromptOf(plan.body))))
  return { tokens, nanoUsd, counting: new PlannedCost(counter, quotaId, plans, sum, spentNanoUsd) }
}

/** Web searches reserved for a call that may search. Most calls make a few; the number isn't known in advance. */
const MAX_SEARCHES = 10

/**
 * Assumes cache writes, output as reasoning or as requested audio or images, the most expensive mode of the price list
 * (an account may use it by default), web searches if possible, and the full deadline if time has a price.
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
  if (body[MOST_UNITS]) addUnits(usage, body[MOST_UNITS])
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

/** True if a call may search: by its model, or by a field with a fee in the request or a tool. */
const maySearch = ({ features }: Pick<Target, 'features'>, body: AnyRequest): boolean =>
  features.includes('web_search') || [body, ...(body.tools ?? [])].some(asksForFee)

const asksForFee = (holder: object): boolean =>
  Object.entries(holder).some(([name, value]) => name === 'plugins' || reasonToRefuse(name, value) === 'fee')

const asksFor = ({ modalities }: AnyRequest, modality: string) =>
  modalities?.some((asked) => asked === modality) ?? false
