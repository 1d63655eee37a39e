/**
 * Orders a request's targets, and reserves likely tokens and worst-case money on its key and team. A step of
 * `handle.ts`.
 */
import {
  askForAny,
  findCap,
  isLike,
  type PlannedCalls,
  toHeldOutput,
  toLeastCap,
  toMostNanoUsd,
  toReserve,
  withCap,
} from '../accounting/cost.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import { isLimited, type Moment, type RequestLimiter } from '../limits/limiter.ts'
import { order } from '../routing/route.ts'
import type { Reserve } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { bytesOfExtras, type Estimate, estimate, toCap } from '../tokens/estimate.ts'
import { type Load, stopping } from './admission.ts'
import { noneReady } from './calls.ts'
import type { Reserved, Resolved } from './exchange.ts'
import { isSplit } from './fan-out.ts'
import { toBatches } from './input-batches.ts'
import { isEnforced } from './structured-plan.ts'

export interface ReserveDeps {
  counter: Counter
  limiter: Pick<RequestLimiter, 'isFull'>
  load: Pick<Load, 'isDraining'>
  /** Wall clock, ms. */
  now(): number
  monotonicMs(): number
}

export async function reserve(deps: ReserveDeps, resolved: Resolved): Promise<Decision<Reserved>> {
  const { key, team, entered, able, health, eligible } = resolved
  const now = { monotonicMs: deps.monotonicMs(), wallMs: deps.now() }
  const targets = inOrder(deps.limiter, resolved, now)
  const [first] = targets
  if (!first) return noneReady(health, eligible)
  const isBudgeted = Boolean(key.budget || team?.budget)
  const toAsk = (plans: readonly PlannedCalls[]) =>
    askForAny(deps.counter, key.quotaId, plans, isBudgeted ? toMostPrompt(able) : null)
  const plans = isLimited(key, team) ? toPlans(able, targets, isBudgeted) : []
  let ask = plans.length > 0 ? toAsk(plans) : NOTHING
  const admitting = entered.admit(ask, now)
  let reservation = admitting instanceof Promise ? await admitting : admitting
  let outputCap: number | null = null
  let room = Number.POSITIVE_INFINITY
  const { counting } = ask
  // Repeats if other requests have taken some of the budget in between.
  while (reservation instanceof GatewayError && mayCap(reservation, able, first) && entered.room(now) < room) {
    // A counted prompt leaves more for output.
    if (room === Number.POSITIVE_INFINITY) await counting?.count()
    room = entered.room(now)
    const cap = findOutputCap(room, counting?.likelyPromptTokens ?? toMostPrompt(able), plans)
    // The first target's full output may fit although a dearer fallback's doesn't.
    if (cap < first.maxOutputLength) outputCap = cap
    ask = toAsk(toCappedPlans(plans, cap))
    reservation = await entered.admit(ask, now)
  }
  if (reservation instanceof GatewayError) return reservation
  const taken = reservation
  resolved.held.defer(() => taken.cancel())
  // A drain may have begun during counting.
  if (deps.load.isDraining) return stopping()
  const body = outputCap === null ? able.body : withCap(able.body, outputCap, first)
  // If admitted by a count, the row reserves no more than that: a crash must not charge the estimate.
  const promptTokens = ask.counting?.toPromptTokens(able.promptTokens) ?? able.promptTokens
  const reserve = toFirstReserve(first, body, promptTokens, isBudgeted)
  return Object.assign(resolved, { targets, first, body, outputCap, reserve, reservation })
}

const NOTHING: ReturnType<typeof askForAny> = { tokens: 0, nanoUsd: 0 }

/** Targets at their provider's limit come last. */
function inOrder(
  limiter: ReserveDeps['limiter'],
  { key, able, health, eligible }: Resolved,
  { monotonicMs }: Moment,
): readonly Target[] {
  const ordered = order(eligible, key, able.affinity, (target) => health.availability(target))
  const free: Target[] = []
  const full: Target[] = []
  for (const target of ordered) {
    const { completionTokens } = toEstimate(able.promptTokens, able.body, target, false)
    const isFull = limiter.isFull(target.upstream, able.promptTokens + completionTokens, monotonicMs)
    // Don't check the others if the first has capacity.
    if (!isFull && full.length === 0) return ordered
    if (isFull) full.push(target)
    else free.push(target)
  }
  return free.concat(full)
}

function toFirstReserve(target: Target, body: AnyRequest, promptTokens: number, isBudgeted: boolean): Reserve {
  const [part] = toBatches(body, target)
  if (part && part !== body) return toReserve(target, estimate(part, target.maxOutputLength), part)
  return toReserve(target, toEstimate(promptTokens, body, target, isBudgeted), body)
}

/** Reserve of the first call: a single choice, if each choice is a call of its own. */
const toEstimate = (promptTokens: number, body: AnyRequest, target: Target, isBudgeted: boolean): Estimate => ({
  promptTokens,
  completionTokens:
    toHeldOutput(body, target.maxOutputLength, isSeen(body, target, isBudgeted)) * toChoices(body, target),
})

/** Whether output is metered as it streams, or no budget needs that. */
const isSeen = (body: AnyRequest, target: Target, isBudgeted: boolean): boolean =>
  !isBudgeted || (body.stream === true && !isEnforced(body, target))

const toMostPrompt = ({ maxPromptTokens, body }: Task): number => maxPromptTokens + bytesOfExtras(body)

function toPlans({ body, promptTokens }: Task, targets: readonly Target[], isBudgeted: boolean): PlannedCalls[] {
  const plans: PlannedCalls[] = []
  for (const target of targets) {
    const calls = toCalls(body, target)
    const choices = toChoices(body, target)
    const plan: PlannedCalls = {
      ...{ target, body, promptTokens, calls },
      likelyTokens: toCap(body, target.maxOutputLength) * choices,
      outputTokens: toHeldOutput(body, target.maxOutputLength, isSeen(body, target, isBudgeted)) * choices,
    }
    const [first] = plans
    // Skips targets that cost the same: most do, and pricing takes a while.
    if (first === undefined || !isLike(first, plan)) plans.push(plan)
  }
  return plans
}

/** Only if its output isn't metered as it streams. */
const mayCap = ({ kind }: GatewayError, { body, cap }: Task, first: Target): boolean =>
  kind === 'insufficient_quota' && cap === null && !isSeen(body, first, true)

/** The largest cap per choice that fits the budgets, with the minimum for fallback targets. */
function findOutputCap(roomNanoUsd: number, promptTokens: number, plans: readonly PlannedCalls[]): number {
  const [first] = plans
  if (!first) return 0
  const { target, body, calls } = first
  const most = target.maxOutputLength
  const priceAt = (cap: number) => toMostNanoUsd(target, promptTokens, cap * toChoices(body, target), body) * calls
  return findCap(toLeastCap(most), most, roomNanoUsd, priceAt)
}

const toCappedPlans = (plans: readonly PlannedCalls[], cap: number): PlannedCalls[] =>
  plans.map((plan, at) => {
    const own = at === 0 ? cap : toLeastCap(plan.target.maxOutputLength)
    return { ...plan, outputTokens: Math.min(plan.outputTokens, own * toChoices(plan.body, plan.target)) }
  })

const toChoices = (body: AnyRequest, target: Target): number => (body.n ?? 1) / toCalls(body, target)

const toCalls = (body: AnyRequest, target: Target): number => (isSplit(body, target) ? (body.n ?? 1) : 1)
