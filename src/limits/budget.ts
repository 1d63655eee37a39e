/**
 * What keys and teams may spend in a period, in integer nano-dollars: reserved before a request is made, settled with what it cost. At first
 * a request holds what it costs by the worst case, a token a byte of its text, and where budgets have no room for that, what it costs by a
 * count. It belongs to the period that it was admitted in: its charges are on that period's usage, so whatever settles late, or after a
 * budget is gone, changes nothing of what came after. The limiter has one for all of them. Pure.
 */
import { BUDGET_WARNING_PERCENT, type Budget, type Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import { endOf, startOf, toBudgetMs, toInForce } from './period.ts'

/** What one period of one budget has come to. Once the next period begins, only what was reserved in it still knows it. */
interface PeriodUsage {
  readonly startMs: number
  readonly endMs: number | null
  spentNanoUsd: number
  /** Held by requests under way. */
  reservedNanoUsd: number
  /** Those of them that hold the worst case, and may hold less once they are counted. */
  readonly uncounted: Set<BudgetReservation>
  /** The percentage that was warned of last. */
  warned: number
  /** Whether nobody was asked what was spent before it began. */
  readonly isProvisional: boolean
  /**
   * Requests that were under way before this was known of, by their ids, and what each of them is in `spentNanoUsd` with: what
   * they have reserved, until they end.
   */
  readonly underWay: Map<string, number>
}

/** A budget as it is configured, and what it has come to. */
interface BudgetState {
  readonly spender: Spender
  readonly name: string
  readonly budget: Budget
  usage: PeriodUsage
  /** Of the period that was in force before it: a clock that was far ahead for a while comes back to that. */
  previous: PeriodUsage | null
}

const openPeriod = (
  period: Period,
  atMs: number,
  spentNanoUsd: number,
  isProvisional: boolean,
  underWay = new Map<string, number>(),
): PeriodUsage => ({
  startMs: startOf(period, atMs),
  endMs: endOf(period, atMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  uncounted: new Set(),
  warned: 0,
  isProvisional,
  underWay,
})

/**
 * Has a budget be in the period of `atMs`, which only goes back where the clock had been far ahead. One that was for a while
 * finds what was spent before; one that is set back to where nobody knows takes along what there is, until that period ends.
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

/** Which budget has no room, in the figures that a refusal names. */
export interface BudgetRefusal {
  kind: Spender['kind']
  name: string
  budget: Budget
  spentNanoUsd: number
  reservedNanoUsd: number
  /** What the request asks for beyond what it has reserved. */
  askedNanoUsd: number
  /** When the next period begins; null for a budget in total. */
  resetMs: number | null
}

/** What a request may cost, in nano-dollars. */
export interface Cost {
  /** For so much there has to be room. */
  likelyNanoUsd: number
  /** At most: so much is held until it is known. */
  mostNanoUsd: number
  /** What the rows that are on record reserve, which a kill charges, though it be more than is counted: no less is held. */
  reservedNanoUsd: number
}

/** How it is found out what a request of a nearly spent budget may cost: by the worst case first, which is known at once. */
export interface Counting {
  /** It never costs less than this. */
  leastNanoUsd(): number
  /** Counts its prompt, which takes a while. Null where that is not possible in time. */
  count(): Promise<Cost | null>
}

/** What a request takes from one budget, which is as the request found it, in the period that it was admitted in. */
interface BudgetCharge {
  readonly state: BudgetState
  readonly usage: PeriodUsage
}

const toHeld = ({ mostNanoUsd, reservedNanoUsd }: Cost) => Math.max(mostNanoUsd, reservedNanoUsd)

/** What is this much smaller than a budget is held as it is: to count it would hardly make room. */
const SMALL = 1_000

const NOTHING: Cost = { likelyNanoUsd: 0, mostNanoUsd: 0, reservedNanoUsd: 0 }

/** What one request holds on each budget that it is under. */
export class BudgetReservation {
  readonly #budgets: Budgets
  readonly #charges: readonly BudgetCharge[]
  #held: number
  /** Null once it was counted, or cannot be. */
  #counting: Counting | null
  /** Of what was asked for since, and had room in what is held. */
  #within: Counting | null = null
  #isOver = false

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

  /** Makes it hold at least so much, on all of them or on none; also once it is counted. */
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
    // What would have been counted is only a part of it from here on.
    this.#setCounted()
    this.#hold(heldNanoUsd)
    this.#setUncounted(counting)
    return null
  }

  /** The most that it may hold: what it does, and what all of its budgets have left. */
  room(): number {
    const now = this.#charges.map((one) => ({ state: this.#budgets.stateOf(one) ?? one.state, usage: one.usage }))
    return this.#held + roomOf(now)
  }

  /** Has it counted, once, and holds no more than that says. Never rejects. */
  async count(): Promise<void> {
    const [counting, within] = [this.#counting, this.#within]
    if (counting === null) return
    const [all, more] = await Promise.all([counting.count(), within === null ? NOTHING : within.count()])
    // It may have been raised or settled meanwhile.
    if (this.#counting !== counting) return
    if (this.#within !== within) return this.count()
    this.#setCounted()
    if (all === null || more === null) return
    this.#hold(Math.min(this.#held, Math.max(toHeld(all), toHeld(more))))
  }

  /** Turns the reservation into what was spent, also beyond the budget. Once. */
  settle(nanoUsd: number): void {
    this.#setCounted()
    this.#hold(0)
    this.#isOver = true
    for (const charge of this.#charges) {
      charge.usage.spentNanoUsd += nanoUsd
      const state = this.#budgets.stateOf(charge)
      if (state) this.#budgets.warn(state)
    }
  }

  #hold(nanoUsd: number): void {
    for (const { usage } of this.#charges) usage.reservedNanoUsd += nanoUsd - this.#held
    this.#held = nanoUsd
  }

  /** Lets it be counted, where that may make room. */
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

/** What all of these budgets have left; Infinity for none. */
const roomOf = (charges: readonly BudgetCharge[]): number =>
  Math.min(
    Number.POSITIVE_INFINITY,
    ...charges.map(({ state, usage }) => state.budget.nanoUsd - usage.spentNanoUsd - usage.reservedNanoUsd),
  )

/**
 * Finds the first that has no room for a request. What costs nothing, such as a local model, is let through whatever was spent.
 *
 * @param heldNanoUsd what the request holds already.
 */
function findFull(charges: readonly BudgetCharge[], likelyNanoUsd: number, heldNanoUsd: number): BudgetRefusal | null {
  const moreNanoUsd = likelyNanoUsd - heldNanoUsd
  if (likelyNanoUsd === 0) return null
  // What it holds already may be more than it is likely to cost.
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

/** Spent passes `percent` of a budget for the first time in its period. */
export interface BudgetWarning {
  spender: Spender
  name: string
  spentNanoUsd: number
  budget: Budget
  /** BUDGET_WARNING_PERCENT, or 100. */
  percent: number
}

/**
 * What was spent from `fromMs` on and before `untilMs`, requests under way at what they have reserved.
 *
 * @param underWay takes those, by their ids, and what each is counted with.
 */
export type SpentOf = (
  spender: Spender,
  span: { fromMs: number; untilMs: number },
  underWay: Map<string, number>,
) => number

/** A request that has ended: who asked, and what it has cost. */
export interface Ended {
  id: string
  keyId: string
  teamId: string | null
  costNanoUsd: number
}

type BudgetStates = Record<Spender['kind'], Map<string, BudgetState>>

export class Budgets {
  readonly #onWarning: (warning: BudgetWarning) => void
  #states: BudgetStates = { key: new Map(), team: new Map() }
  /** The latest time that the clock has shown: periods go by it. */
  #latestMs: number

  /** @param latestMs the latest time that the ledger knows of. */
  constructor(onWarning: (warning: BudgetWarning) => void, latestMs: number) {
    this.#onWarning = onWarning
    this.#latestMs = latestMs
  }

  /**
   * Reserves on all that have a budget, or on none: then the first that has no room is returned. However many ask at once,
   * at most one of them is let in for less than it may cost, so that what all of them cost ends within a call of the budget.
   *
   * @param counting of what is held without having been counted.
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

  /** How much all of their budgets have left; Infinity without any. */
  room(key: Owner, team: Owner | null, wallMs: number): number {
    return roomOf(this.#chargesOf(key, team, wallMs))
  }

  /** Has what is under way on these budgets counted, so that it holds no more than it may cost. */
  async countOthers(key: Owner, team: Owner | null): Promise<void> {
    const all = [this.#states.key.get(key.id), team ? this.#states.team.get(team.id) : undefined]
    const uncounted = new Set(all.flatMap((state) => [...(state?.usage.uncounted ?? [])]))
    await Promise.all([...uncounted].map((reservation) => reservation.count()))
  }

  renew(keys: Iterable<Owner>, teams: Iterable<Owner>, spentOf: SpentOf, wallMs: number): void {
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    // Both before either is taken over: `spentOf` may throw.
    this.#states = {
      key: this.#renewed('key', keys, spentOf, wallMs),
      team: this.#renewed('team', teams, spentOf, wallMs),
    }
    for (const state of [...this.#states.key.values(), ...this.#states.team.values()]) this.warn(state)
  }

  ended({ id, keyId, teamId, costNanoUsd }: Ended): void {
    this.#correct(this.#states.key.get(keyId), id, costNanoUsd)
    if (teamId !== null) this.#correct(this.#states.team.get(teamId), id, costNanoUsd)
  }

  #correct(state: BudgetState | undefined, requestId: string, costNanoUsd: number): void {
    const counted = state?.usage.underWay.get(requestId)
    if (state === undefined || counted === undefined) return
    state.usage.underWay.delete(requestId)
    state.usage.spentNanoUsd += costNanoUsd - counted
    this.warn(state)
  }

  /** The budget that a charge is on, unless it is gone or in another period by now. */
  stateOf({ state: { spender }, usage }: BudgetCharge): BudgetState | undefined {
    const state = this.#states[spender.kind].get(spender.id)
    return state?.usage === usage ? state : undefined
  }

  warn({ spender, name, budget, usage }: BudgetState): void {
    const percent = toLevel(usage.spentNanoUsd, budget.nanoUsd)
    const isNew = percent > usage.warned
    // Also downwards: whoever gets a larger budget is warned of that one again.
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
    // The owner in hand may be from before the last change, which is in force all the same.
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
      const underWay = new Map<string, number>()
      const spent = spentOf(spender, toInForce(period, wallMs, this.#latestMs), underWay)
      const usage = openPeriod(period, this.#latestMs, spent, false, underWay)
      next.set(id, { spender, name, budget, usage, previous: null })
    }
    return next
  }
}

/** The highest of the percentages that are warned of which has been spent; 0 for none. */
function toLevel(spentNanoUsd: number, limitNanoUsd: number): number {
  if (spentNanoUsd === 0) return 0
  if (spentNanoUsd >= limitNanoUsd) return 100
  // Most are far from it, and every request that settles asks.
  if (spentNanoUsd < limitNanoUsd / 2) return 0
  // Exact: a hundred times a large budget is beyond 2^53.
  const isNear = BigInt(spentNanoUsd) * 100n >= BigInt(limitNanoUsd) * BigInt(BUDGET_WARNING_PERCENT)
  return isNear ? BUDGET_WARNING_PERCENT : 0
}
