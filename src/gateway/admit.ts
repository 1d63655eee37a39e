/**
 * Everything that is decided about a valid request before it costs anything, in the order that the contract gives its
 * refusals: where it could be answered, and whether its key may. Each step is a Decision; the first refusal is the answer,
 * and leaves no ledger row.
 */

import { type Reserve, toAmount, toReserve } from '../accounting/calls.ts'
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Key, Snapshot, Target } from '../domain/snapshot.ts'
import type { Health } from '../health/health.ts'
import type { RequestHealth } from '../health/request.ts'
import { type Amount, isLimited, type Limiter, type Moment, type Reservation } from '../limits/limiter.ts'
import { order } from '../routing/order.ts'
import { resolve } from '../routing/resolve.ts'
import type { Counter } from '../tokens/count.ts'
import { DEFAULT_OUTPUT_TOKENS, type Estimate, estimatePrompt, toCap } from '../tokens/estimate.ts'
import { noneReady } from './attempt.ts'
import { isSplit } from './fanout.ts'
import { fit } from './fit.ts'
import type { InFlightTracker } from './in-flight.ts'

export interface AdmitDeps {
  counter: Counter
  health: Pick<Health, 'forRequest'>
  limiter: Pick<Limiter, 'admit' | 'isFull'>
  inFlight: Pick<InFlightTracker, 'draining'>
  /** Both clocks. */
  moment(): Moment
}

export interface Admitted {
  key: Key
  body: CanonicalRequest
  /** The resolved model. */
  slug: string
  /** In the order in which they are tried. */
  targets: readonly [Target, ...Target[]]
  /** What its first call reserves. */
  reserve: Reserve
  /** What is reserved for it until it ends. */
  hold: Reservation
  /** How targets stand for it. */
  health: RequestHealth
}

/** Decides about a valid request of a key that was let in. */
export async function admit(
  deps: AdmitDeps,
  snapshot: Snapshot,
  key: Key,
  asked: CanonicalRequest,
): Promise<Decision<Admitted>> {
  // 1. Where could it be answered?
  const resolved = resolve(snapshot, key, asked.model)
  if (!resolved.ok) return resolved
  const { model } = resolved.value
  const promptTokens = estimatePrompt(asked)
  const able = await fit(asked, model.facts, resolved.value.targets, promptTokens, deps.counter)
  if (!able.ok) return able
  const team = key.teamId === null ? null : (snapshot.teams.get(key.teamId) ?? null)
  const body = key.budget || team?.budget ? withCap(asked, able.value) : asked
  const health = deps.health.forRequest(key.id)
  const [first, ...others] = choose(deps, health, able.value, key, body, promptTokens)
  if (!first) return refuse(noneReady(health, able.value))
  // 2. Is there room? Rates, concurrency and budgets, as one reservation.
  if (deps.inFlight.draining()) return refuse(stopping())
  const targets = [first, ...others] as const
  const reserve = toReserve(first, toAsk(promptTokens, body, first))
  const most = isLimited(key, team) ? toMost(promptTokens, body, targets, reserve) : NOTHING
  const reserving = deps.limiter.admit(key, team, most, deps.moment())
  const held = reserving instanceof Promise ? await reserving : reserving
  if (!held.ok) return held
  return allow({ key, body, slug: model.facts.id, targets, reserve, hold: held.value, health })
}

const NOTHING: Amount = { tokens: 0, nanoUsd: 0 }

/** Who is at the limit of its provider comes after all others. */
function choose(
  { limiter, moment }: AdmitDeps,
  health: RequestHealth,
  targets: readonly Target[],
  key: Key,
  body: CanonicalRequest,
  promptTokens: number,
): readonly Target[] {
  const ordered = order(targets, key, body, (target) => health.standing(target))
  const { monotonicMs } = moment()
  const isFull = (target: Target) => {
    const { completionTokens } = toAsk(promptTokens, body, target)
    return limiter.isFull(target.upstream, promptTokens + completionTokens, monotonicMs)
  }
  const [first] = ordered
  if (!first || !isFull(first)) return ordered
  return [...ordered.filter((target) => !isFull(target)), ...ordered.filter(isFull)]
}

/** What its first call may use: where each choice is a call of its own, one choice. */
const toAsk = (promptTokens: number, body: CanonicalRequest, target: Target): Estimate => ({
  promptTokens,
  completionTokens: toCap(body, target.maxOutputLength) * (isSplit(body, target) ? 1 : (body.n ?? 1)),
})

/**
 * The most that the request may use and cost, on whichever of its targets and in however many calls of one choice.
 * @param reserve of the first target.
 */
function toMost(
  promptTokens: number,
  body: CanonicalRequest,
  targets: readonly [Target, ...Target[]],
  reserve: Reserve,
): Amount {
  const [first, ...others] = targets
  const most = times(toAmount(reserve), toCalls(body, first))
  for (const target of others) {
    // Prices take a while to work out, and most routes have those of their model.
    if (isLike(first, target)) continue
    const amount = toAmount(toReserve(target, toAsk(promptTokens, body, target)))
    const { tokens, nanoUsd } = times(amount, toCalls(body, target))
    most.tokens = Math.max(most.tokens, tokens)
    most.nanoUsd = Math.max(most.nanoUsd, nanoUsd)
  }
  return most
}

const toCalls = (body: CanonicalRequest, target: Target) => (isSplit(body, target) ? (body.n ?? 1) : 1)

const times = ({ tokens, nanoUsd }: Amount, calls: number): Amount => ({
  tokens: tokens * calls,
  nanoUsd: nanoUsd * calls,
})

/** Whether a call costs as much on the one as on the other. */
const isLike = (one: Target, other: Target) =>
  one.pricing === other.pricing &&
  one.maxOutputLength === other.maxOutputLength &&
  one.features === other.features &&
  one.upstream.options.n === other.upstream.options.n

/**
 * The request with a cap on what it writes: without one, nothing would keep it within a budget (design 7). Models that
 * reason know the newer name only; servers of other models often the older one. `max_tokens_field` has the last word, and a
 * target that can write less is sent less (`dispatch.ts`).
 */
function withCap(body: CanonicalRequest, targets: readonly Target[]): CanonicalRequest {
  if ((body.max_completion_tokens ?? body.max_tokens ?? null) !== null) return body
  const cap = Math.min(DEFAULT_OUTPUT_TOKENS, Math.max(...targets.map(({ maxOutputLength }) => maxOutputLength)))
  const reasons = targets.some(({ features }) => features.includes('reasoning'))
  return reasons ? { ...body, max_completion_tokens: cap } : { ...body, max_tokens: cap }
}

const stopping = () => new GatewayError('overloaded', 'This Tollgate is stopping and takes no new requests. Try again.')
