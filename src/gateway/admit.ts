/**
 * Everything that is decided about a valid request before it costs anything: where it could be answered, then whether its
 * key may. Each step is a Decision; the first refusal is the answer, and leaves no ledger row.
 */

import { type Reserve, toAmount, toReserve } from '../accounting/price.ts'
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Key, Snapshot, Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { RequestHealth } from '../health/request.ts'
import { type Amount, isLimited, type Limiter, type Moment, type Reservation } from '../limits/limiter.ts'
import { order, resolve } from '../routing/route.ts'
import type { Counter } from '../tokens/count.ts'
import { DEFAULT_OUTPUT_TOKENS, type Estimate, toCap } from '../tokens/estimate.ts'
import { noneReady } from './attempt.ts'
import { isSplit } from './fanout.ts'
import { fit } from './fit.ts'
import type { InFlightTracker } from './load.ts'

export interface AdmitDeps {
  counter: Counter
  limiter: Pick<Limiter, 'admit' | 'isFull'>
  inFlight: Pick<InFlightTracker, 'draining'>
  /** Both clocks. */
  moment(): Moment
}

/** Who asks for what. */
export interface Asked {
  snapshot: Snapshot
  key: Key
  task: Task
  health: Pick<RequestHealth, 'standing' | 'whyUnavailable'>
}

export interface Admitted {
  /** The canonical request as it is sent: under a budget it has a cap. */
  body: CanonicalRequest
  /** The resolved model. */
  slug: string
  /** In the order in which they are tried. */
  targets: readonly [Target, ...Target[]]
  /** What its first call reserves. */
  reserve: Reserve
  /** What is reserved on its key and team until it ends. */
  reservation: Reservation
}

/** Decides about a valid request of a key that was let in. */
export async function admit(deps: AdmitDeps, asked: Asked): Promise<Decision<Admitted>> {
  const { snapshot, key, task, health } = asked
  // 1. Where could it be answered?
  const resolved = resolve(snapshot, key, task.model)
  if (!resolved.ok) return resolved
  const { model } = resolved.value
  const able = await fit(task.body, model.facts, resolved.value.targets, task.promptTokens, deps.counter)
  if (!able.ok) return able
  const team = key.teamId === null ? null : (snapshot.teams.get(key.teamId) ?? null)
  const body = key.budget || team?.budget ? withCap(task, able.value) : task.body
  const [first, ...others] = choose(deps, asked, able.value, body)
  if (!first) return refuse(noneReady(health, able.value))
  // 2. Is there room? Rates, concurrency and budgets, as one reservation.
  if (deps.inFlight.draining()) return refuse(stopping())
  const targets = [first, ...others] as const
  const reserve = toReserve(first, toAsk(task.promptTokens, body, first))
  const most = isLimited(key, team) ? toMost(task.promptTokens, body, targets, reserve) : NOTHING
  const admitting = deps.limiter.admit(key, team, most, deps.moment())
  const admitted = admitting instanceof Promise ? await admitting : admitting
  if (!admitted.ok) return admitted
  return allow({ body, slug: model.facts.id, targets, reserve, reservation: admitted.value })
}

const NOTHING: Amount = { tokens: 0, nanoUsd: 0 }

/** Who is at the limit of its provider comes after all others. */
function choose(
  { limiter, moment }: AdmitDeps,
  { key, task, health }: Asked,
  targets: readonly Target[],
  body: CanonicalRequest,
): readonly Target[] {
  const ordered = order(targets, key, task.affinity, (target) => health.standing(target))
  const { monotonicMs } = moment()
  const isFull = (target: Target) => {
    const { completionTokens } = toAsk(task.promptTokens, body, target)
    return limiter.isFull(target.upstream, task.promptTokens + completionTokens, monotonicMs)
  }
  const [first] = ordered
  if (!first || !isFull(first)) return ordered
  return [...ordered.filter((target) => !isFull(target)), ...ordered.filter(isFull)]
}

/** What its first call may use: where each choice is a call of its own, one choice. */
const toAsk = (promptTokens: number, body: CanonicalRequest, target: Target): Estimate => ({
  promptTokens,
  completionTokens: (toCap(body, target.maxOutputLength) * (body.n ?? 1)) / toCalls(body, target),
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

const toCalls = (body: CanonicalRequest, target: Target): number => {
  const choices = body.n ?? 1
  return choices > 1 && isSplit(body, target) ? choices : 1
}

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
 * The request with a cap on what it writes: without one, nothing would keep it within a budget. Models that reason know
 * the newer name only; servers of other models often the older one. `max_tokens_field` has the last word, and a target
 * that can write less is sent less (`dispatch.ts`).
 */
function withCap({ body, cap }: Task, targets: readonly Target[]): CanonicalRequest {
  if (cap !== null) return body
  const ours = Math.min(DEFAULT_OUTPUT_TOKENS, Math.max(...targets.map(({ maxOutputLength }) => maxOutputLength)))
  const reasons = targets.some(({ features }) => features.includes('reasoning'))
  return reasons ? { ...body, max_completion_tokens: ours } : { ...body, max_tokens: ours }
}

const stopping = () => new GatewayError('overloaded', 'The server is stopping and takes no new requests. Try again.')
