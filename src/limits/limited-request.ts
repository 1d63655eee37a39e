/**
 * One request of a key with limits, from its entry to its end: rates, slot and budgets, checked together and taken together.
 * `limiter.ts` makes them. Pure.
 */
import type { Decision, ErrorKind, GatewayError } from '../domain/error.ts'
import type { Limits } from '../domain/settings.ts'
import type { Key, Team } from '../domain/snapshot.ts'
import type { Budgets } from './budget.ts'
import { type BudgetRefusal, BudgetReservation, type Cost, type Counting } from './budget-reservation.ts'
import type { Amount, Ask, Entry, Moment, Reservation } from './limiter.ts'
import { type Headers, toBudgetError, toRateError } from './messages.ts'
import { type RateLimiter, type Slot, toDuration } from './rates.ts'

/** Whoever is refused for one of these and comes again should not have used up its rate by waiting. */
const GIVES_BACK: ReadonlySet<ErrorKind> = new Set(['token_limit', 'insufficient_quota', 'overloaded', 'over_share'])

/** Tells the rates that a key has, as they stand now: what is left, and when all of it is free again. */
export function toRateHeaders(
  { requestsPerMinute, tokensPerMinute }: Limits,
  rates: RateLimiter | null,
  nowMs: number,
): Headers {
  const headers: Record<string, string> = {}
  if (rates === null) return headers
  const { window } = rates
  if (requestsPerMinute !== null) {
    headers['x-ratelimit-limit-requests'] = String(requestsPerMinute)
    headers['x-ratelimit-remaining-requests'] = toLeft(requestsPerMinute, window.used('requests', nowMs))
    headers['x-ratelimit-reset-requests'] = toDuration(window.emptyMs('requests', nowMs))
  }
  if (tokensPerMinute !== null) {
    headers['x-ratelimit-limit-tokens'] = String(tokensPerMinute)
    headers['x-ratelimit-remaining-tokens'] = toLeft(tokensPerMinute, window.used('tokens', nowMs))
    headers['x-ratelimit-reset-tokens'] = toDuration(window.emptyMs('tokens', nowMs))
  }
  return headers
}

const toLeft = (limit: number, used: number) => String(Math.max(0, limit - used))

const toWorst = ({ nanoUsd }: Ask): Cost => ({ likelyNanoUsd: nanoUsd, mostNanoUsd: nanoUsd })

const isBudgetRefusal = (decided: unknown): decided is BudgetRefusal =>
  decided !== null && typeof decided === 'object' && 'askedNanoUsd' in decided

/** Whether a count could help: what is spent already stays spent. */
const mayFit = ({ spentNanoUsd, budget }: BudgetRefusal, counting: Counting) =>
  spentNanoUsd + counting.leastNanoUsd() <= budget.nanoUsd

/** A request of a key with limits, from its entry to its end: first an entry, then its reservation. */
export class LimitedRequest implements Entry, Reservation {
  headers: Headers = {}
  readonly #budgets: Budgets
  readonly #key: Key
  readonly #team: Team | null
  readonly #rates: RateLimiter | null
  readonly #slot: Slot | null
  #budget: BudgetReservation | null = null
  #isOver = false

  constructor(budgets: Budgets, key: Key, team: Team | null, rates: RateLimiter | null, slot: Slot | null) {
    this.#budgets = budgets
    this.#key = key
    this.#team = team
    this.#rates = rates
    this.#slot = slot
  }

  get hasBudget(): boolean {
    return this.#budget?.isNeeded ?? false
  }

  admit(ask: Ask, now: Moment): Decision<Reservation> | Promise<Decision<Reservation>> {
    const { tokens, counting = null } = ask
    const decided = this.#admit(tokens, toWorst(ask), counting, now)
    if (!isBudgetRefusal(decided)) return decided
    return this.#refuseOrCount(decided, counting, (cost) => this.#admit(tokens, cost, null, now))
  }

  /** What does not fit by the worst case is tried by a count, and then by counts of all that is under way. */
  #refuseOrCount<T>(
    refusal: BudgetRefusal,
    counting: Counting | null,
    attempt: (cost: Cost) => T | BudgetRefusal,
  ): GatewayError | Promise<T | GatewayError> {
    if (!counting || !mayFit(refusal, counting)) return toBudgetError(refusal, this.headers)
    return this.#untilCounted(counting, refusal, attempt)
  }

  async #untilCounted<T>(
    counting: Counting,
    refusal: BudgetRefusal,
    attempt: (cost: Cost) => T | BudgetRefusal,
  ): Promise<T | GatewayError> {
    const cost = await counting.count()
    if (cost === null) return toBudgetError(refusal, this.headers)
    let decided = attempt(cost)
    if (isBudgetRefusal(decided)) {
      await this.#budgets.countOthers(this.#key, this.#team)
      decided = attempt(cost)
    }
    return isBudgetRefusal(decided) ? toBudgetError(decided, this.headers) : decided
  }

  #admit(
    tokens: number,
    cost: Cost,
    counting: Counting | null,
    { monotonicMs, wallMs }: Moment,
  ): Decision<Reservation> | BudgetRefusal {
    const { limits, name } = this.#key
    // Check all of it, and only then take.
    const full = this.#rates?.tokenRefusal(limits, tokens, monotonicMs)
    if (full) return toRateError(name, full, this.headers)
    const budget = this.#budgets.reserve(this.#key, this.#team, cost, counting, wallMs)
    if (!(budget instanceof BudgetReservation)) return budget
    this.#budget = budget
    this.#slot?.spend(tokens, monotonicMs)
    this.headers = toRateHeaders(limits, this.#rates, monotonicMs)
    return this
  }

  refuse(error: GatewayError, monotonicMs: number): void {
    if (GIVES_BACK.has(error.kind)) this.cancel()
    if (!this.#isOver) this.#slot?.leave(null)
    this.#isOver = true
    Object.assign(error.headers, toRateHeaders(this.#key.limits, this.#rates, monotonicMs))
  }

  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null> {
    const { tokens, counting = null } = ask
    const decided = this.#raise(tokens, toWorst(ask))
    if (decided === null) return null
    return this.#refuseOrCount(decided, counting, (cost) => this.#raise(tokens, cost))
  }

  #raise(tokens: number, cost: Cost): BudgetRefusal | null {
    if (this.#isOver) return null
    const full = this.#budget?.raise(cost) ?? null
    if (full === null) this.#slot?.raise(tokens)
    return full
  }

  releaseSlot(): void {
    this.#slot?.release()
  }

  settle({ tokens, nanoUsd }: Amount): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#slot?.leave(tokens)
    this.#budget?.settle(nanoUsd)
  }

  cancel(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#slot?.cancel()
    this.#budget?.settle(0)
  }
}
