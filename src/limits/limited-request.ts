/**
 * One request that is under limits, its key's or its team's, from its entry to its end: rates, slots and budgets, checked
 * together and taken together. `limiter.ts` makes them. Pure.
 */
import type { Decision, ErrorKind, GatewayError } from '../domain/error.ts'
import { type Limits, NO_LIMITS } from '../domain/limits.ts'
import type { Key, Team } from '../domain/snapshot.ts'
import { type BudgetRefusal, BudgetReservation, type Budgets, type Cost, type Counting } from './budget.ts'
import type { Amount, Ask, EnteredRequest, Moment, Reservation } from './limiter.ts'
import { addRateHeaders, type Headers, toBudgetError, toRateError } from './messages.ts'
import type { RateLimiter, RateRefusal, Slot } from './rates.ts'

/** Whoever is refused for one of these and comes again should not have used up its rate by waiting. */
const GIVES_BACK: ReadonlySet<ErrorKind> = new Set(['token_limit', 'insufficient_quota', 'overloaded', 'over_share'])

const toWorst = ({ nanoUsd }: Ask): Cost => ({
  likelyNanoUsd: nanoUsd,
  mostNanoUsd: nanoUsd,
  reservedNanoUsd: 0,
})

const isBudgetRefusal = (decided: unknown): decided is BudgetRefusal =>
  decided !== null && typeof decided === 'object' && 'askedNanoUsd' in decided

/** Whether a count could help: what is spent already stays spent. */
const mayFit = ({ spentNanoUsd, budget }: BudgetRefusal, counting: Counting) =>
  spentNanoUsd + counting.leastNanoUsd() <= budget.nanoUsd

/** How long it has to be waited for room; for ever where no waiting helps. */
const toWait = ({ retryAfterMs }: RateRefusal) => retryAfterMs ?? Number.POSITIVE_INFINITY

/** First it has entered and may be read, then it is what it has reserved. */
export class LimitedRequest implements EnteredRequest, Reservation {
  headers: Headers = {}
  readonly #teamLimits: Limits
  /** Null where there is no limit of rate or concurrency; then there is no slot either. */
  readonly #keyRates: RateLimiter | null
  #keySlot: Slot | null = null
  #teamSlot: Slot | null = null
  #budget: BudgetReservation | null = null
  #isOver = false

  constructor(
    private readonly budgets: Budgets,
    private readonly key: Key,
    private readonly team: Team | null,
    keyRates: RateLimiter | null,
    private readonly teamRates: RateLimiter | null,
  ) {
    this.#teamLimits = team?.limits ?? NO_LIMITS
    this.#keyRates = keyRates
  }

  /** Counts it in, and takes a slot, with its key and its team or with neither. */
  enter(nowMs: number): Decision<EnteredRequest> {
    const byKey = this.#keyRates?.requestRefusal(this.key.limits, nowMs) ?? null
    const byTeam = this.teamRates?.requestRefusal(this.#teamLimits, nowMs) ?? null
    const full = this.#toRateError(byKey, byTeam, nowMs)
    if (full) return full
    this.#keySlot = this.#keyRates?.take(0, nowMs) ?? null
    this.#teamSlot = this.teamRates?.take(0, nowMs) ?? null
    return this
  }

  get hasBudget(): boolean {
    return this.#budget?.isNeeded ?? false
  }

  admit(ask: Ask, now: Moment): Decision<Reservation> | Promise<Decision<Reservation>> {
    const { tokens, counting = null } = ask
    const decided = this.#admit(tokens, toWorst(ask), counting, now)
    if (!isBudgetRefusal(decided)) return decided
    return this.#refuseOrCount(decided, ask, (cost) => this.#admit(tokens, cost, null, now))
  }

  /** What does not fit by the worst case is tried by a count, and then by counts of all that is under way. */
  #refuseOrCount<T>(
    refusal: BudgetRefusal,
    { counting, isMore = false }: Ask,
    attempt: (cost: Cost) => T | BudgetRefusal,
  ): GatewayError | Promise<T | GatewayError> {
    if (!counting || !mayFit(refusal, counting)) return toBudgetError(refusal, this.headers, isMore)
    return this.#untilCounted(counting, refusal, isMore, attempt)
  }

  async #untilCounted<T>(
    counting: Counting,
    refusal: BudgetRefusal,
    isMore: boolean,
    attempt: (cost: Cost) => T | BudgetRefusal,
  ): Promise<T | GatewayError> {
    const cost = await counting.count()
    if (cost === null) return toBudgetError(refusal, this.headers, isMore)
    let decided = attempt(cost)
    if (isBudgetRefusal(decided)) {
      await this.budgets.countOthers(this.key, this.team)
      decided = attempt(cost)
    }
    return isBudgetRefusal(decided) ? toBudgetError(decided, this.headers, isMore) : decided
  }

  #admit(
    tokens: number,
    cost: Cost,
    counting: Counting | null,
    { monotonicMs, wallMs }: Moment,
  ): Decision<Reservation> | BudgetRefusal {
    // Check all of it, and only then take.
    const byKey = this.#keyRates?.tokenRefusal(this.key.limits, tokens, monotonicMs) ?? null
    const byTeam = this.teamRates?.tokenRefusal(this.#teamLimits, tokens, monotonicMs) ?? null
    const full = this.#toRateError(byKey, byTeam, monotonicMs)
    if (full) return full
    const budget = this.budgets.reserve(this.key, this.team, cost, counting, wallMs)
    if (!(budget instanceof BudgetReservation)) return budget
    this.#budget = budget
    this.#keySlot?.spend(tokens, monotonicMs)
    this.#teamSlot?.spend(tokens, monotonicMs)
    this.headers = this.#toHeaders(monotonicMs)
    return this
  }

  refuse(error: GatewayError, monotonicMs: number): void {
    if (GIVES_BACK.has(error.kind)) this.cancel()
    if (!this.#isOver) this.#leaveSlots(null)
    this.#isOver = true
    Object.assign(error.headers, this.#toHeaders(monotonicMs))
  }

  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null> {
    const { tokens, counting = null } = ask
    const decided = this.#raise(tokens, toWorst(ask), counting)
    if (decided === null) return null
    return this.#refuseOrCount(decided, ask, (cost) => this.#raise(tokens, cost, counting))
  }

  #raise(tokens: number, cost: Cost, counting: Counting | null): BudgetRefusal | null {
    if (this.#isOver) return null
    const full = this.#budget?.raise(cost, counting) ?? null
    if (full === null) {
      this.#keySlot?.raise(tokens)
      this.#teamSlot?.raise(tokens)
    }
    return full
  }

  room(now?: Moment): number {
    if (this.#budget) return this.#budget.room()
    return now ? this.budgets.room(this.key, this.team, now.wallMs) : Number.POSITIVE_INFINITY
  }

  releaseSlot(): void {
    this.#keySlot?.release()
    this.#teamSlot?.release()
  }

  settle({ tokens, nanoUsd }: Amount): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#leaveSlots(tokens)
    this.#budget?.settle(nanoUsd)
  }

  cancel(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#keySlot?.cancel()
    this.#teamSlot?.cancel()
    this.#budget?.settle(0)
  }

  #leaveSlots(tokens: number | null): void {
    this.#keySlot?.leave(tokens)
    this.#teamSlot?.leave(tokens)
  }

  /** The refusal of whoever has no room. Of both, the one that is to be waited out longer: after it there is room with both. */
  #toRateError(byKey: RateRefusal | null, byTeam: RateRefusal | null, nowMs: number): GatewayError | null {
    if (byTeam !== null && (byKey === null || toWait(byTeam) > toWait(byKey)))
      return toRateError('team', this.team?.name ?? '', byTeam, this.#toHeaders(nowMs))
    return byKey && toRateError('key', this.key.name, byKey, this.#toHeaders(nowMs))
  }

  /** The rates as they stand now; of key and team, what leaves less. */
  #toHeaders(nowMs: number): Headers {
    const headers: Record<string, string> = {}
    if (this.#keyRates) addRateHeaders(headers, this.key.limits, this.#keyRates, nowMs)
    if (this.teamRates) addRateHeaders(headers, this.#teamLimits, this.teamRates, nowMs)
    return headers
  }
}
