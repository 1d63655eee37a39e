/**
 * Everything that is decided about a valid request before it costs anything: where it could be answered, then whether its
 * key may. Each step is a Decision; the first refusal is the answer, and leaves no ledger row.
 */

import { askForAny, isLike, type PlannedCalls, type Reserve, toReserve } from '../accounting/cost.ts'
import { EMBEDDING } from '../domain/embedding.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Key, Snapshot, Target, Team } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { RequestHealth } from '../health/health.ts'
import { type EnteredRequest, isLimited, type Limiter, type Moment, type Reservation } from '../limits/limiter.ts'
import { checkEndpoint, order, resolve } from '../routing/route.ts'
import type { Counter } from '../tokens/count.ts'
import { bytesOfExtras, DEFAULT_OUTPUT_TOKENS, type Estimate, estimate, toCap } from '../tokens/estimate.ts'
import { noneReady } from './attempt.ts'
import { isSplit } from './fanout.ts'
import { fitFeatures, fitLength, mayOverflow, toAble } from './fit.ts'
import { fitInputs } from './fit-inputs.ts'
import { type Load, stopping } from './intake.ts'
import { type Lanes, toLanes } from './lane.ts'
import { toParts } from './parts.ts'

export interface AdmitDeps {
  counter: Counter
  limiter: Pick<Limiter, 'isFull'>
  load: Pick<Load, 'isDraining'>
  /** Wall clock, ms. */
  now(): number
  /** A clock that never steps, ms. */
  monotonicMs(): number
}

/** Who asks for what. */
export interface Asked {
  snapshot: Snapshot
  key: Key
  team: Team | null
  /** The request as the limiter knows it: a refusal ends it. */
  entered: EnteredRequest
  task: Task
  health: Pick<RequestHealth, 'availability' | 'whyUnavailable'>
}

export interface Admitted {
  /** The canonical request as it is sent: under a budget it has a cap. */
  body: CanonicalRequest
  /** Which targets are sent the request as it came. */
  lanes: Lanes
  /** The resolved model. */
  slug: string
  /** In the order in which they are tried. */
  targets: readonly Target[]
  first: Target
  /** What its first call reserves. */
  reserve: Reserve
  /** What is reserved on its key and team until it ends. */
  reservation: Reservation
}

/** Decides about a valid request of a key that was let in. */
export async function admit(deps: AdmitDeps, arrived: Asked): Promise<Decision<Admitted>> {
  const { snapshot, key, team, entered, health } = arrived
  // 1. Where could it be answered?
  const resolved = resolve(snapshot, key, arrived.task.model)
  if (resolved instanceof GatewayError) return resolved
  const { model } = resolved
  const wrong = checkEndpoint(arrived.task.endpoint, model.facts)
  if (wrong) return wrong
  const task = toAble(arrived.task, model.facts, resolved.targets)
  const asked = { ...arrived, task }
  const lanes = toLanes(task)
  const able = fitFeatures(task, model.facts, resolved.targets, lanes)
  if (able instanceof GatewayError) return able
  const embedding = task.body[EMBEDDING]
  const counted = embedding
    ? fitInputs(deps.counter, key.shareId, task.body, embedding, able)
    : mayOverflow(task, able) && fitLength(deps.counter, key.shareId, task.body, able)
  const fitting = counted ? await counted : able
  if (fitting instanceof GatewayError) return fitting
  const isBudgeted = Boolean(key.budget || team?.budget)
  const body = isBudgeted ? withCap(task, fitting) : task.body
  const now = { monotonicMs: deps.monotonicMs(), wallMs: deps.now() }
  const targets = choose(deps.limiter, asked, fitting, body, now)
  const [first] = targets
  if (!first) return noneReady(health, fitting)
  // 2. Is there room? Tokens and budgets, as one reservation.
  const ask = isLimited(key, team) ? toAsk(deps.counter, asked, body, targets, isBudgeted) : NOTHING
  const admitting = entered.admit(ask, now)
  const reservation = admitting instanceof Promise ? await admitting : admitting
  if (reservation instanceof GatewayError) return reservation
  // It may have begun while something was counted.
  if (deps.load.isDraining) {
    reservation.cancel()
    return stopping()
  }
  // Where it was admitted by a count, no more than that is held: a kill must not charge it by the estimate.
  const promptTokens = ask.counting?.toPromptTokens(task.promptTokens) ?? task.promptTokens
  const reserve = toFirstReserve(first, body, promptTokens)
  return { body, lanes, slug: model.facts.id, targets, first, reserve, reservation }
}

const NOTHING: ReturnType<typeof toAsk> = { tokens: 0, nanoUsd: 0 }

/** The targets in order; who is at the limit of its provider comes after all others. */
function choose(
  limiter: AdmitDeps['limiter'],
  { key, task, health }: Asked,
  targets: readonly Target[],
  body: CanonicalRequest,
  { monotonicMs }: Moment,
): readonly Target[] {
  const ordered = order(targets, key, task.affinity, (target) => health.availability(target))
  const free: Target[] = []
  const full: Target[] = []
  for (const target of ordered) {
    const { completionTokens } = toEstimate(task.promptTokens, body, target)
    const isFull = limiter.isFull(target.upstream, task.promptTokens + completionTokens, monotonicMs)
    // Nobody asks for the others where the first one is free.
    if (!isFull && full.length === 0) return ordered
    if (isFull) full.push(target)
    else free.push(target)
  }
  return free.concat(full)
}

/** What the first call of the request reserves. */
function toFirstReserve(target: Target, body: CanonicalRequest, promptTokens: number): Reserve {
  const part = body[EMBEDDING] && toParts(body, target)[0]
  if (part && part !== body) return toReserve(target, estimate(part, target.maxOutputLength), part)
  return toReserve(target, toEstimate(promptTokens, body, target), body)
}

/** What its first call may use: where each choice is a call of its own, one choice. */
const toEstimate = (promptTokens: number, body: CanonicalRequest, target: Target): Estimate => ({
  promptTokens,
  completionTokens: (toCap(body, target.maxOutputLength) * (body.n ?? 1)) / toCalls(body, target),
})

/** What the request may use at most, and cost by the worst case. */
function toAsk(
  counter: Counter,
  { key, task }: Asked,
  body: CanonicalRequest,
  targets: readonly Target[],
  isBudgeted: boolean,
): ReturnType<typeof askForAny> {
  const plans: PlannedCalls[] = []
  for (const target of targets) {
    const plan = toPlan(body, task.promptTokens, target)
    const [first] = plans
    // Most routes cost what their model does, and prices take a while to work out.
    if (first === undefined || !isLike(first, plan)) plans.push(plan)
  }
  const most = isBudgeted ? task.mostPromptTokens + bytesOfExtras(body) : null
  return askForAny(counter, key.shareId, plans, most)
}

/** In however many calls of one choice. */
const toPlan = (body: CanonicalRequest, promptTokens: number, target: Target): PlannedCalls => {
  const calls = toCalls(body, target)
  return { target, body, promptTokens, calls, choices: (body.n ?? 1) / calls }
}

const toCalls = (body: CanonicalRequest, target: Target): number => {
  const choices = body.n ?? 1
  return choices > 1 && isSplit(body, target) ? choices : 1
}

/**
 * The request with a cap on what it writes: without one, nothing would keep it within a budget. Models that reason know
 * the newer name only; servers of other models often the older one. `max_tokens_field` has the last word, and a target
 * that can write less is sent less (`dispatch.ts`).
 */
function withCap({ body, cap }: Task, targets: readonly Target[]): CanonicalRequest {
  if (cap !== null) return body
  let most = 0
  let reasons = false
  for (const { maxOutputLength, features } of targets) {
    most = Math.max(most, maxOutputLength)
    reasons ||= features.includes('reasoning')
  }
  const ours = Math.min(DEFAULT_OUTPUT_TOKENS, most)
  return reasons ? { ...body, max_completion_tokens: ours } : { ...body, max_tokens: ours }
}
