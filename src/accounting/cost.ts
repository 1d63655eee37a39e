/**
 * What calls may cost under a budget before it is known what they do cost: by a token a byte of what they read, which is known
 * at once, and by a count. `gateway/admit.ts` asks for those of a request, `calls.ts` for additional ones. Pure but for the count.
 */
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Cost, Counting } from '../limits/budget-reservation.ts'
import type { Ask } from '../limits/limiter.ts'
import { tokensOn, worstPrompt } from '../tokens/bound.ts'
import type { Counter } from '../tokens/count.ts'
import { toCap } from '../tokens/estimate.ts'
import type { Call } from './calls.ts'
import { costNanoUsd, type Reserve, toAmount, toMostNanoUsd } from './price.ts'

/** Calls of the same body to one target. */
export interface Planned {
  target: Target
  body: CanonicalRequest
  /** How many, each of so many choices. */
  calls: number
  choices: number
}

/** The most that they cost, where each reads so many tokens. */
const priceOf = ({ target, body, calls, choices }: Planned, promptTokens: number): number =>
  toMostNanoUsd(target.pricing, promptTokens, toCap(body, target.maxOutputLength) * choices, body) * calls

type Join = (costs: number[]) => number
const dearest: Join = (costs) => Math.max(...costs)
const sum: Join = (costs) => costs.reduce((sum, cost) => sum + cost, 0)

/** What several plans come to, and what has been spent beside them. Worked out where a budget has no room for the worst case alone. */
class PlannedCost implements Counting {
  constructor(
    readonly counter: Pick<Counter, 'bound'>,
    readonly keyId: string,
    readonly plans: () => readonly Planned[],
    readonly join: Join,
    readonly spentNanoUsd: number,
  ) {}

  leastNanoUsd(): number {
    return this.spentNanoUsd + this.join(this.plans().map((plan) => priceOf(plan, 0)))
  }

  async count(): Promise<Cost | null> {
    const { counter, keyId, spentNanoUsd } = this
    const likely: number[] = []
    const most: number[] = []
    const plans = this.plans()
    const bounds = await Promise.all(plans.map(({ body }) => counter.bound(keyId, body)))
    for (const [at, plan] of plans.entries()) {
      const bound = bounds[at]
      if (!bound) return null
      likely.push(priceOf(plan, bound.tokens))
      most.push(priceOf(plan, tokensOn(plan.target.upstreamModel, bound)))
    }
    return { likelyNanoUsd: spentNanoUsd + this.join(likely), mostNanoUsd: spentNanoUsd + this.join(most) }
  }
}

/** How a request is counted that one of several targets answers: the dearest of them counts. */
export const countingAny = (
  counter: Pick<Counter, 'bound'>,
  keyId: string,
  plans: () => readonly Planned[],
): Counting => new PlannedCost(counter, keyId, plans, dearest, 0)

/** The most that planned calls cost, whatever they read is made of. */
export const toWorstNanoUsd = (plan: Planned, worstPromptTokens = worstPrompt(plan.body)): number =>
  priceOf(plan, worstPromptTokens)

/** An additional call that is on its way to the record: several may set out before the first of them is there. */
export interface Pending {
  target: Target
  body: CanonicalRequest
  reserve: Reserve
}

/**
 * What a request asks for with all of its calls: what those have come to that have ended, and what the others may come to.
 *
 * @param row of the request, where the first call's reserve stands.
 */
export function askForAll(
  counter: Pick<Counter, 'bound'>,
  row: Reserve & { keyId: string },
  hasBudget: boolean,
  calls: readonly Call[],
  pending: Iterable<Pending>,
): Ask {
  let tokens = 0
  let spentNanoUsd = 0
  const plans: Planned[] = []
  const add = (target: Target, body: CanonicalRequest, reserve: Reserve) => {
    tokens += toAmount(reserve).tokens
    plans.push({ target, body, calls: 1, choices: body.n ?? 1 })
  }
  for (const { target, body, row: additional, meter } of calls) {
    const { outcome, usage } = meter
    // Of one that failed nothing is paid, unless it was given up unheard.
    if (outcome === 'failed' && !meter.isGivenUp) continue
    if (outcome !== 'ok' || usage === null) add(target, body, additional ?? row)
    else {
      tokens += usage.prompt + usage.completion
      spentNanoUsd += costNanoUsd(target.pricing, usage)
    }
  }
  for (const { target, body, reserve } of pending) add(target, body, reserve)
  if (!hasBudget) return { tokens, nanoUsd: 0 }
  const nanoUsd = spentNanoUsd + sum(plans.map((plan) => toWorstNanoUsd(plan)))
  return { tokens, nanoUsd, counting: new PlannedCost(counter, row.keyId, () => plans, sum, spentNanoUsd) }
}
