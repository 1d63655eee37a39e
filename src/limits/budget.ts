/**
 * Budgets of keys and teams in integer nano-dollars: reserved before a request is sent, settled with its cost. A
 * request reserves its worst case (a token per byte of text), or a counted cost if the budget can't cover the worst
 * case. The charge stays in the period of admission, even if the request settles late or the budget is removed.
 */
import { BUDGET_WARNING_PERCENT, type Budget, type Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import { endOf, startOf, toBudgetMs, toInForce } from './period.ts'

/** Usage of one budget in one period. Once the next period starts, only open reservations still refer to it. */
export interface PeriodUsage {
  readonly startMs: number
  readonly endMs: number | null
  spentNanoUsd: number
  /** Reserved by running requests, or lent. */
  reservedNanoUsd: number
  /** The part of `reservedNanoUsd` that is lent and unused. */
  lentNanoUsd: number
  /** Reservations at the worst case, which may shrink once counted. */
  readonly uncounted: Set<BudgetReservation>
  /** The last percentage with a warning. */
  warned: number
  /** Whether earlier spend is unknown. */
  readonly isProvisional: boolean
  /**
   * Requests already running when this budget became known, by ID, with the amount of each in `spentNanoUsd` until it
   * ends.
   */
  readonly inFlight: Map<string, number>
}

/** A configured budget and its usage. */
interface BudgetState {
  readonly spender: Spender
  readonly name: string
  readonly budget: Budget
  usage: PeriodUsage
  /** Usage of the previous period, for a clock that was far ahead and is set back. */
  previous: PeriodUsage | null
}

const openPeriod = (
  period: Period,
  atMs: number,
  spentNanoUsd: number,
  isProvisional: boolean,
  inFlight = new Map<string, number>(),
): PeriodUsage => ({
  startMs: startOf(period, atMs),
  endMs: endOf(period, atMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  lentNanoUsd: 0,
  uncounted: new Set(),
  warned: 0,
  isProvisional,
  inFlight,
})

/**
 * Moves a budget to the period of `atMs`. This time goes back only if the clock was far ahead. The previous period
 * returns with its usage. Any other earlier period takes over the current usage until it ends.
 */
function rollOver(state: BudgetState, atMs: number): void {
  const { usage, previous, budget } = state
  if (isIn(usage, atMs)) return
  state.previous = usage
  if (previous !== null && isIn(previous, atMs)) {
    state.usage = previous
    return
  }
  const isBack = atMs < usage.startMs
  const taken = isBack ? usage.spentNanoUsd + usage.reservedNanoUsd : 0
  state.usage = openPeriod(budget.period, atMs, taken, isBack && usage.isProvisional)
}

const isIn = ({ startMs, endMs }: PeriodUsage, atMs: number) => atMs >= startMs && (endMs === null || atMs < endMs)

/** The figures of a rejection. */
export interface BudgetRefusal {
  kind: Spender['kind']
  name: string
  budget: Budget
  spentNanoUsd: number
  reservedNanoUsd: number
  /** Amount beyond the request's reservation. */
  askedNanoUsd: number
  /** Start of the next period, ms; null for a total budget. */
  resetMs: number | null
}

/** In nano-dollars. */
export interface Cost {
  /** The budget must have this much left. */
  likelyNanoUsd: number
  /** Reserved until the cost is known. */
  mostNanoUsd: number
  /** Reservation in the ledger. A crash would charge it, so at least this amount is reserved. */
  reservedNanoUsd: number
}

/** How to count a request whose worst case doesn't fit a nearly spent budget. */
export interface Counting {
  leastNanoUsd(): number
  /** Counts the prompt, which takes a while. Null if not possible in time. */
  count(): Promise<Cost | null>
}

/** A request's claim on one budget in the period it was admitted in. */
export interface BudgetCharge {
  readonly state: BudgetState
  readonly usage: PeriodUsage
}

export const toHeld = ({ mostNanoUsd, reservedNanoUsd }: Cost) => Math.max(mostNanoUsd, reservedNanoUsd)

/** If a reservation is this many times smaller than the budget, counting it would free hardly anything. */
const SMALL = 1_000

const NOTHING: Cost = { likelyNanoUsd: 0, mostNanoUsd: 0, reservedNanoUsd: 0 }

/** The reservation of one request on each of its budgets. */
export class BudgetReservation {
  readonly #budgets: Budgets
  readonly #charges: readonly BudgetCharge[]
  #held: number
  /** Null once counted, or if counting is impossible. */
  #counting: Counting | null
  /** Counting of a later raise that fit into the reserved amount. */
  #within: Counting | null = null
  #isOver = false
  #settledNanoUsd = 0

  constructor(budgets: Budgets, charges: readonly BudgetCharge[], { mostNanoUsd }: Cost, counting: Counting | null) {
    this.#budgets = budgets
    this.#charges = charges
    this.#held = 0
    this.#counting = null
    this.#hold(mostNanoUsd)
    this.#setUncounted(counting)
  }

  get isNeeded(): boolean {
    return this.#charges.length > 0
  }

  /** Raises the reserved amount to at least this, on all budgets or on none. */
  raise(cost: Cost, counting: Counting | null): BudgetRefusal | null {
    const { likelyNanoUsd } = cost
    const heldNanoUsd = toHeld(cost)
    if (this.#isOver) return null
    if (heldNanoUsd <= this.#held) {
      this.#within = counting
      return null
    }
    const now = this.#charges.map((one) => ({ state: this.#budgets.stateOf(one) ?? one.state, usage: one.usage }))
    const refusal = findFull(now, likelyNanoUsd, this.#held)
    if (refusal !== null) return refusal
    // The old counting covers only a part of the request from here on.
    this.#setCounted()
    this.#hold(heldNanoUsd)
    this.#setUncounted(counting)
    return null
  }

  /** Its maximum reservation: the current amount plus the least that one of its budgets has left. */
  room(): number {
    const now = this.#charges.map((one) => ({ state: this.#budgets.stateOf(one) ?? one.state, usage: one.usage }))
    return this.#held + roomOf(now)
  }

  /** Counts once, and lowers the reserved amount accordingly. Never rejects. */
  async count(): Promise<void> {
    const [counting, within] = [this.#counting, this.#within]
    if (counting === null) return
    const [all, more] = await Promise.all([counting.count(), within === null ? NOTHING : within.count()])
    // The reservation may have been raised or settled during the count.
    if (this.#counting !== counting) return
    if (this.#within !== within) return this.count()
    this.#setCounted()
    if (all === null || more === null) return
    this.#hold(Math.min(this.#held, Math.max(toHeld(all), toHeld(more))))
  }

  /** Replaces the reservation by the actual cost, even beyond the budget. Only the first call counts. */
  settle(nanoUsd: number): void {
    this.#setCounted()
    this.#hold(0)
    this.#isOver = true
    this.correct(nanoUsd)
  }

  /** Replaces the settled cost. */
  correct(nanoUsd: number): void {
    const moreNanoUsd = nanoUsd - this.#settledNanoUsd
    this.#settledNanoUsd = nanoUsd
    for (const charge of this.#charges) {
      charge.usage.spentNanoUsd += moreNanoUsd
      const state = this.#budgets.stateOf(charge)
      if (state) this.#budgets.warn(state)
    }
  }

  #hold(nanoUsd: number): void {
    for (const { usage } of this.#charges) usage.reservedNanoUsd += nanoUsd - this.#held
    this.#held = nanoUsd
  }

  /** Allows counting if that may free a relevant amount. */
  #setUncounted(counting: Counting | null): void {
    if (counting === null || !this.#charges.some(({ state }) => this.#held * SMALL > state.budget.nanoUsd)) return
    this.#counting = counting
    this.#within = null
    for (const { usage } of this.#charges) usage.uncounted.add(this)
  }

  #setCounted(): void {
    if (this.#counting === null) return
    this.#counting = null
    for (const { usage } of this.#charges) usage.uncounted.delete(this)
  }
}

/** Infinity without budgets. */
const roomOf = (charges: readonly BudgetCharge[]): number =>
  Math.min(
    Number.POSITIVE_INFINITY,
    ...charges.map(({ state, usage }) => state.budget.nanoUsd - usage.spentNanoUsd - usage.reservedNanoUsd),
  )

/**
 * Finds the first budget that can't cover a request. Requests that cost nothing, as of local models, always pass.
 * @param heldNanoUsd amount that the request has reserved already.
 */
function findFull(charges: readonly BudgetCharge[], likelyNanoUsd: number, heldNanoUsd: number): BudgetRefusal | null {
  const moreNanoUsd = likelyNanoUsd - heldNanoUsd
  if (likelyNanoUsd === 0) return null
  // The request may have reserved more than its likely cost.
  const askedNanoUsd = Math.max(0, moreNanoUsd)
  for (const { state, usage } of charges) {
    const { spender, name, budget } = state
    const { spentNanoUsd, reservedNanoUsd, endMs: resetMs } = usage
    if (spentNanoUsd + reservedNanoUsd + moreNanoUsd > budget.nanoUsd)
      return { kind: spender.kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs }
  }
  return null
}

interface Owner {
  id: string
  name: string
  budget: Budget | null
}

/** Spend passes `percent` of a budget for the first time in its period. */
export interface BudgetWarning {
  spender: Spender
  name: string
  spentNanoUsd: number
  budget: Budget
  /** BUDGET_WARNING_PERCENT, or 100. */
  percent: number
}

/**
 * Spend from `fromMs` to before `untilMs`, running requests at their reserved amounts.
 * @param inFlight receives the running requests, by ID, with the amount counted for each.
 */
export type SpentOf = (
  spender: Spender,
  span: { fromMs: number; untilMs: number },
  inFlight: Map<string, number>,
) => number

export interface Ended {
  id: string
  keyId: string
  teamId: string | null
  costNanoUsd: number
}

/** Undefined if this server still enforces the budgets, or the other server can't be reached. */
export type AskSuccessor = (raise: HeldRaise) => Promise<BudgetRefusal | null | undefined>

/** A further amount for a request in flight that another server finishes. */
export interface HeldRaise {
  id: string
  keyId: string
  teamId: string | null
  /** The budgets must have this much left. */
  likelyNanoUsd: number
  /** Reserved until the cost is known. */
  nanoUsd: number
}

export interface BudgetUse {
  id: string
  name: string
  nanoUsd: number
  spentNanoUsd: number
  reservedNanoUsd: number
}

type BudgetStates = Record<Spender['kind'], Map<string, BudgetState>>

export class Budgets {
  readonly #onWarning: (warning: BudgetWarning) => void
  #states: BudgetStates = { key: new Map(), team: new Map() }
  /** The latest time the clock has shown; periods go by it. */
  #latestMs: number
  /** Asks the server that enforces the budgets now. Null if this server does. */
  successor: AskSuccessor | null = null

  /** @param latestMs the latest time known to the ledger. */
  constructor(onWarning: (warning: BudgetWarning) => void, latestMs: number) {
    this.#onWarning = onWarning
    this.#latestMs = latestMs
  }

  /**
   * Reserves on all budgets, or returns the first that can't cover it. Of concurrent requests, at most one is admitted
   * for less than it may cost, so the total cost exceeds the budget by at most one call.
   * @param counting how to count an amount not counted yet.
   */
  reserve(
    key: Owner,
    team: Owner | null,
    cost: Cost,
    counting: Counting | null,
    wallMs: number,
  ): BudgetReservation | BudgetRefusal {
    const charges = this.#chargesOf(key, team, wallMs)
    return findFull(charges, cost.likelyNanoUsd, 0) ?? new BudgetReservation(this, charges, cost, counting)
  }

  /** Infinity without budgets. */
  room(key: Owner, team: Owner | null, wallMs: number): number {
    return roomOf(this.#chargesOf(key, team, wallMs))
  }

  /** Counts all running requests on these budgets, which lowers their reservations. */
  async countOthers(key: Owner, team: Owner | null): Promise<void> {
    const all = [this.#states.key.get(key.id), team ? this.#states.team.get(team.id) : undefined]
    const uncounted = new Set(all.flatMap((state) => [...(state?.usage.uncounted ?? [])]))
    await Promise.all([...uncounted].map((reservation) => reservation.count()))
  }

  renew(keys: Iterable<Owner>, teams: Iterable<Owner>, spentOf: SpentOf, wallMs: number): void {
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    // Both before either is replaced: `spentOf` may throw.
    this.#states = {
      key: this.#renewed('key', keys, spentOf, wallMs),
      team: this.#renewed('team', teams, spentOf, wallMs),
    }
    for (const state of [...this.#states.key.values(), ...this.#states.team.values()]) this.warn(state)
  }

  /** Usage of all budgets in their current periods. */
  *uses(kind: Spender['kind'], wallMs: number): Iterable<BudgetUse> {
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    for (const state of this.#states[kind].values()) {
      rollOver(state, this.#latestMs)
      const { spender, name, budget, usage } = state
      const { spentNanoUsd, lentNanoUsd } = usage
      const reservedNanoUsd = usage.reservedNanoUsd - lentNanoUsd
      yield { id: spender.id, name, nanoUsd: budget.nanoUsd, spentNanoUsd, reservedNanoUsd }
    }
  }

  ended({ id, keyId, teamId, costNanoUsd }: Ended): void {
    this.#correct(this.#states.key.get(keyId), id, costNanoUsd)
    if (teamId !== null) this.#correct(this.#states.team.get(teamId), id, costNanoUsd)
  }

  /** Raises the request on all budgets that count it, or returns the first that can't cover the amount. */
  raiseInFlight({ id, keyId, teamId, likelyNanoUsd, nanoUsd }: HeldRaise): BudgetRefusal | null {
    const { key, team } = this.#states
    const all = [key.get(keyId), teamId === null ? undefined : team.get(teamId)]
    const raised = all.flatMap((state) => {
      const counted = state?.usage.inFlight.get(id)
      return state === undefined || counted === undefined || counted >= nanoUsd ? [] : [{ state, counted }]
    })
    for (const { state, counted } of raised) {
      const refusal = findFull([{ state, usage: state.usage }], likelyNanoUsd, counted)
      if (refusal !== null) return refusal
    }
    for (const { state, counted } of raised) {
      state.usage.inFlight.set(id, nanoUsd)
      state.usage.spentNanoUsd += nanoUsd - counted
      this.warn(state)
    }
    return null
  }

  #correct(state: BudgetState | undefined, requestId: string, costNanoUsd: number): void {
    const counted = state?.usage.inFlight.get(requestId)
    if (state === undefined || counted === undefined) return
    state.usage.inFlight.delete(requestId)
    state.usage.spentNanoUsd += costNanoUsd - counted
    this.warn(state)
  }

  /** Undefined if the budget was removed or is in another period now. */
  stateOf({ state: { spender }, usage }: BudgetCharge): BudgetState | undefined {
    const state = this.#states[spender.kind].get(spender.id)
    return state?.usage === usage ? state : undefined
  }

  /** Undefined for a budget that no request has used. */
  chargeOf({ kind, id }: Spender, wallMs: number): BudgetCharge | undefined {
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    const state = this.#states[kind].get(id)
    if (state) rollOver(state, this.#latestMs)
    return state && { state, usage: state.usage }
  }

  /** Adds to the spent and reserved amounts of a charge. */
  add(charge: BudgetCharge, spentNanoUsd: number, reservedNanoUsd: number): void {
    charge.usage.spentNanoUsd += spentNanoUsd
    charge.usage.reservedNanoUsd += reservedNanoUsd
    const state = this.stateOf(charge)
    if (state) this.warn(state)
  }

  warn({ spender, name, budget, usage }: BudgetState): void {
    const percent = toLevel(usage.spentNanoUsd, budget.nanoUsd)
    const isNew = percent > usage.warned
    // The level may fall, so that a larger budget warns again.
    usage.warned = percent
    if (isNew) this.#onWarning({ spender, name, spentNanoUsd: usage.spentNanoUsd, budget, percent })
  }

  #chargesOf(key: Owner, team: Owner | null, wallMs: number): BudgetCharge[] {
    const charges: BudgetCharge[] = []
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    if (key.budget !== null) charges.push(this.#charge('key', key, key.budget))
    if (team !== null && team.budget !== null) charges.push(this.#charge('team', team, team.budget))
    return charges
  }

  #charge(kind: Spender['kind'], { id, name }: Owner, budget: Budget): BudgetCharge {
    let state = this.#states[kind].get(id)
    if (state === undefined) {
      const usage = openPeriod(budget.period, this.#latestMs, 0, true)
      state = { spender: { kind, id }, name, budget, usage, previous: null }
      this.#states[kind].set(id, state)
    }
    // `budget` may be older than the last change; `state` is current.
    rollOver(state, this.#latestMs)
    return { state, usage: state.usage }
  }

  #renewed(kind: Spender['kind'], owners: Iterable<Owner>, spentOf: SpentOf, wallMs: number): Map<string, BudgetState> {
    const next = new Map<string, BudgetState>()
    for (const { id, name, budget } of owners) {
      if (budget === null || next.has(id)) continue
      const spender: Spender = { kind, id }
      const known = this.#states[kind].get(id)
      const { period } = budget
      if (known !== undefined && !known.usage.isProvisional && known.budget.period === period) {
        rollOver(known, this.#latestMs)
        next.set(id, { ...known, name, budget })
        continue
      }
      const inFlight = new Map<string, number>()
      const spent = spentOf(spender, toInForce(period, wallMs, this.#latestMs), inFlight)
      const usage = openPeriod(period, this.#latestMs, spent, false, inFlight)
      next.set(id, { spender, name, budget, usage, previous: null })
    }
    return next
  }
}

/** The highest warning level reached; 0 for none. */
function toLevel(spentNanoUsd: number, limitNanoUsd: number): number {
  if (spentNanoUsd === 0) return 0
  if (spentNanoUsd >= limitNanoUsd) return 100
  // A shortcut: every request that settles calls this.
  if (spentNanoUsd < limitNanoUsd / 2) return 0
  // BigInt: a hundred times a large budget exceeds 2^53.
  const isNear = BigInt(spentNanoUsd) * 100n >= BigInt(limitNanoUsd) * BigInt(BUDGET_WARNING_PERCENT)
  return isNear ? BUDGET_WARNING_PERCENT : 0
}
