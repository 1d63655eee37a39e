/**
 * Everything that is decided about a valid request before it costs anything: where it could be answered, then whether its
 * key may. Each step is a Decision; the first refusal is the answer, and leaves no ledger row.
 */

import {
  askForAny,
  findCap,
  isLike,
  type PlannedCalls,
  type Reserve,
  toHeldOutput,
  toLeastCap,
  toMostNanoUsd,
  toReserve,
  withCap,
} from '../accounting/cost.ts'
import { EMBEDDING } from '../domain/embedding.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Key, Snapshot, Target, Team } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { RequestHealth } from '../health/health.ts'
import { type EnteredRequest, isLimited, type Limiter, type Moment, type Reservation } from '../limits/limiter.ts'
import { checkEndpoint, order, resolve } from '../routing/route.ts'
import { isEnforced } from '../structured/plan.ts'
import type { Counter } from '../tokens/count.ts'
import { bytesOfExtras, type Estimate, estimate, toCap } from '../tokens/estimate.ts'
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
  /** The canonical request as it is sent. */
  body: CanonicalRequest
  /** The cap of ours that it has, because a budget has no room for all that the model writes; null for none. */
  outputCap: number | null
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
  const now = { monotonicMs: deps.monotonicMs(), wallMs: deps.now() }
  const targets = choose(deps.limiter, asked, fitting, now)
  const [first] = targets
  if (!first) return noneReady(health, fitting)
  // 2. Is there room? Tokens and budgets, as one reservation.
  const plans = isLimited(key, team) ? toPlans(task, targets, isBudgeted) : []
  let ask = plans.length > 0 ? toAsk(deps.counter, asked, plans, isBudgeted) : NOTHING
  const admitting = entered.admit(ask, now)
  let reservation = admitting instanceof Promise ? await admitting : admitting
  let outputCap: number | null = null
  if (reservation instanceof GatewayError && mayCap(reservation, task, first)) {
    const cap = await findOutputCap(entered, ask, plans, toMostPrompt(task), now)
    // All that the first target writes may have room where a dearer one that may be asked in its place has none.
    if (cap < first.maxOutputLength) outputCap = cap
    ask = toAsk(deps.counter, asked, toCappedPlans(plans, cap), isBudgeted)
    reservation = await entered.admit(ask, now)
  }
  if (reservation instanceof GatewayError) return reservation
  const body = outputCap === null ? task.body : withCap(task.body, outputCap, first)
  // It may have begun while something was counted.
  if (deps.load.isDraining) {
    reservation.cancel()
    return stopping()
  }
  // Where it was admitted by a count, no more than that is held: a kill must not charge it by the estimate.
  const promptTokens = ask.counting?.toPromptTokens(task.promptTokens) ?? task.promptTokens
  const reserve = toFirstReserve(first, body, promptTokens, isBudgeted)
  return { body, outputCap, lanes, slug: model.facts.id, targets, first, reserve, reservation }
}

const NOTHING: ReturnType<typeof toAsk> = { tokens: 0, nanoUsd: 0 }

/** The targets in order; who is at the limit of its provider comes after all others. */
function choose(
  limiter: AdmitDeps['limiter'],
  { key, task, health }: Asked,
  targets: readonly Target[],
  { monotonicMs }: Moment,
): readonly Target[] {
  const ordered = order(targets, key, task.affinity, (target) => health.availability(target))
  const free: Target[] = []
  const full: Target[] = []
  for (const target of ordered) {
    const { completionTokens } = toEstimate(task.promptTokens, task.body, target, false)
    const isFull = limiter.isFull(target.upstream, task.promptTokens + completionTokens, monotonicMs)
    // Nobody asks for the others where the first one is free.
    if (!isFull && full.length === 0) return ordered
    if (isFull) full.push(target)
    else free.push(target)
  }
  return free.concat(full)
}

/** What the first call of the request reserves. */
function toFirstReserve(target: Target, body: CanonicalRequest, promptTokens: number, isBudgeted: boolean): Reserve {
  const part = body[EMBEDDING] && toParts(body, target)[0]
  if (part && part !== body) return toReserve(target, estimate(part, target.maxOutputLength), part)
  return toReserve(target, toEstimate(promptTokens, body, target, isBudgeted), body)
}

/** What its first call holds: where each choice is a call of its own, one choice. */
const toEstimate = (promptTokens: number, body: CanonicalRequest, target: Target, isBudgeted: boolean): Estimate => ({
  promptTokens,
  completionTokens:
    toHeldOutput(body, target.maxOutputLength, isSeen(body, target, isBudgeted)) * toChoices(body, target),
})

/** Whether what a call writes is seen on the way, or there is no budget for which that matters. */
const isSeen = (body: CanonicalRequest, target: Target, isBudgeted: boolean): boolean =>
  !isBudgeted || (body.stream === true && !isEnforced(body, target))

/** What the request may use, and what it is held at. */
function toAsk(
  counter: Counter,
  { key, task }: Asked,
  plans: readonly PlannedCalls[],
  isBudgeted: boolean,
): ReturnType<typeof askForAny> {
  return askForAny(counter, key.shareId, plans, isBudgeted ? toMostPrompt(task) : null)
}

const toMostPrompt = ({ mostPromptTokens, body }: Task): number => mostPromptTokens + bytesOfExtras(body)

function toPlans({ body, promptTokens }: Task, targets: readonly Target[], isBudgeted: boolean): PlannedCalls[] {
  const plans: PlannedCalls[] = []
  for (const target of targets) {
    const plan = toPlan(body, promptTokens, target, isBudgeted)
    const [first] = plans
    // Most routes cost what their model does, and prices take a while to work out.
    if (first === undefined || !isLike(first, plan)) plans.push(plan)
  }
  return plans
}

/** In however many calls of one choice. */
const toPlan = (body: CanonicalRequest, promptTokens: number, target: Target, isBudgeted: boolean): PlannedCalls => {
  const choices = toChoices(body, target)
  const likelyTokens = toCap(body, target.maxOutputLength) * choices
  const outputTokens = toHeldOutput(body, target.maxOutputLength, isSeen(body, target, isBudgeted)) * choices
  return { target, body, promptTokens, outputTokens, likelyTokens, calls: toCalls(body, target) }
}

/** Whether a request that a budget refused may be let in with a cap of ours: nothing of its answer is seen on the way. */
const mayCap = ({ kind }: GatewayError, { body, cap }: Task, first: Target): boolean =>
  kind === 'insufficient_quota' && cap === null && !isSeen(body, first, true)

/**
 * Finds the cap of a choice that budgets have room for: the largest for the first target, beside the least for those that may be asked
 * in its place.
 */
async function findOutputCap(
  entered: EnteredRequest,
  { counting }: ReturnType<typeof askForAny>,
  plans: readonly PlannedCalls[],
  mostPromptTokens: number,
  now: Moment,
): Promise<number> {
  // What the prompt takes leaves less for the answer.
  await counting?.count()
  const [first] = plans
  if (!first || !counting) return 0
  const { target, body } = first
  const most = target.maxOutputLength
  const prompt = counting.likelyPromptTokens ?? mostPromptTokens
  const priceAt = (cap: number) => toMostNanoUsd(target, prompt, cap * toChoices(body, target), body) * first.calls
  return findCap(toLeastCap(most), most, entered.room(now), priceAt)
}

/** The first with this cap; the others, which may be asked in its place, with no more than they have to have. */
const toCappedPlans = ([first, ...others]: readonly PlannedCalls[], cap: number): PlannedCalls[] =>
  first
    ? [withOutput(first, cap), ...others.map((plan) => withOutput(plan, toLeastCap(plan.target.maxOutputLength)))]
    : []

const withOutput = (plan: PlannedCalls, cap: number): PlannedCalls => {
  const outputTokens = Math.min(plan.outputTokens, cap * toChoices(plan.body, plan.target))
  return { ...plan, outputTokens }
}

/** How many a call has. */
const toChoices = (body: CanonicalRequest, target: Target): number => (body.n ?? 1) / toCalls(body, target)

const toCalls = (body: CanonicalRequest, target: Target): number => {
  const choices = body.n ?? 1
  return choices > 1 && isSplit(body, target) ? choices : 1
}
