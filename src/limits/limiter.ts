/**
 * What a key may do, and with it its team, in two steps: the rates of requests and the concurrency before a request's body is
 * read, tokens and budgets before it is dispatched, settled once with what it really used. The same rates keep an upstream under its
 * provider's own limits. `gateway/` asks for each request and each call. Pure: no clock, no disk.
 */
import type { Decision, ErrorKind, GatewayError, UpstreamError } from '../domain/error.ts'
import { type Limits, NO_LIMITS } from '../domain/limits.ts'
import type { Key, Team, Upstream } from '../domain/snapshot.ts'
import {
  type BudgetRefusal,
  BudgetReservation,
  Budgets,
  type BudgetWarning,
  type Cost,
  type Counting,
  type Ended,
  type SpentOf,
} from './budget.ts'
import { addRateHeaders, type Headers, toBudgetError, toOwnLimitError, toRateError } from './messages.ts'
import { hasLimits, type RateLimiter, RateLimiters, type RateRefusal, type Slot } from './rates.ts'

/** What a request may at most use and cost, or what it has. */
export interface Amount {
  tokens: number
  nanoUsd: number
}

/** What a request asks for: tokens by the estimate, money by the worst case. */
export interface Ask extends Amount {
  /** How it is found out what it may cost where a budget has no room for the worst; without it, the worst decides. */
  counting?: Counting
  /** Whether it is for more of an answer that has begun. */
  isMore?: boolean
}

export interface Moment {
  monotonicMs: number
  /** Wall clock: the periods of budgets go by the latest that it has shown. */
  wallMs: number
}

/** A request that may be read: it counts as one of its key's and its team's, and has a slot of both. Ended by `admit`, `cancel` or `refuse`. */
export interface EnteredRequest {
  /**
   * Reserves all of this, or refuses and has changed nothing: `token_limit` or `insufficient_quota`. May be asked again after
   * a refusal. A promise where a budget is nearly spent: prompts are counted then, and it is decided again by the counts.
   * Nothing comes between a check and its reservation.
   */
  admit(ask: Ask, now: Moment): Decision<Reservation> | Promise<Decision<Reservation>>
  /** How many nano-dollars the budgets of key and team have room for now; Infinity without any. */
  room(now: Moment): number
  /** Gives the request and its slot back: nothing of it was read. */
  cancel(): void
  /**
   * Ends it with the answer that it gets in place of being admitted, and puts `x-ratelimit-*` beside that. The request stays
   * counted, but where it would have been taken at another time.
   */
  refuse(error: GatewayError, monotonicMs: number): void
}

export interface Reservation {
  /** `x-ratelimit-*`, as they stood when it was admitted: of key and team, what leaves less; empty without rates. */
  readonly headers: Headers
  /** Whether it is under a budget: otherwise nobody asks what it may cost. */
  readonly hasBudget: boolean
  /**
   * Makes the reservation at least what is asked for, for an additional paid call of the same request, by the same rule as
   * `admit`. Returns `insufficient_quota` where a budget has no room for that; then nothing has changed.
   */
  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null>
  /** How many nano-dollars it may hold at most: what it holds, and what there is room for beside. Infinity without a budget. */
  room(): number
  /** Gives back the concurrency slots before it is known what was used. */
  releaseSlot(): void
  /** Turns it into what was used, and releases the slots. The first call counts, later ones do nothing. */
  settle(actual: Amount): void
  /** Gives all of it back, the request too: nothing was dispatched. */
  cancel(): void
}

/** A call's right to be at an upstream that has limits. */
export interface Permit {
  /** Ends it. `tokens` is what the call used; null leaves it at the estimate. Idempotent. */
  leave(tokens: number | null): void
}

/** Whether a key or its team has any limit. Of one that has none, `admit` reads no amount. */
export const isLimited = (key: Key, team: Team | null): boolean =>
  hasLimits(key.limits) || key.budget !== null || (team !== null && (hasLimits(team.limits) || team.budget !== null))

export interface LimiterOptions {
  /** Called when what a key or team has spent first reaches BUDGET_WARNING_PERCENT of its budget in a period, and 100. */
  onWarning?(warning: BudgetWarning): void
  /** The latest time that the ledger has a request of, before `MAX_STEP_MS` from now. */
  latestMs?: number
}

/** What a key without limits is given, always the same, so that it costs nothing. */
const UNLIMITED: Reservation = Object.freeze({
  headers: {},
  hasBudget: false,
  raise: () => null,
  room: () => Number.POSITIVE_INFINITY,
  releaseSlot() {},
  settle() {},
  cancel() {},
})
const UNLIMITED_REQUEST: EnteredRequest = Object.freeze({
  admit: () => UNLIMITED,
  room: () => Number.POSITIVE_INFINITY,
  cancel() {},
  refuse() {},
})
const UNLIMITED_PERMIT: Permit = Object.freeze({ leave() {} })

/** What was admitted before this process began. */
interface PastRequest {
  keyId: string | null
  teamId: string | null
  upstream: string | null
  tokens: number
  agoMs: number
}

export type Limiter = ReturnType<typeof createLimiter>

export function createLimiter({ onWarning = () => {}, latestMs = 0 }: LimiterOptions = {}) {
  const keys = new RateLimiters()
  const teams = new RateLimiters()
  const upstreams = new RateLimiters()
  const budgets = new Budgets(onWarning, latestMs)

  return {
    /** Lets a request in, before its body is read, or refuses it: `request_limit`. */
    enter(key: Key, team: Team | null, monotonicMs: number): Decision<EnteredRequest> {
      if (!isLimited(key, team)) return UNLIMITED_REQUEST
      const ofKey = hasLimits(key.limits) ? keys.of(key.id, monotonicMs) : null
      const ofTeam = team !== null && hasLimits(team.limits) ? teams.of(team.id, monotonicMs) : null
      return new LimitedRequest(budgets, key, team, ofKey, ofTeam).enter(monotonicMs)
    },

    /** Lets a call in at an upstream. Returns an UpstreamError with status 429 where its limits leave no room. */
    permit({ id, limits }: Upstream, tokens: number, monotonicMs: number): Permit | UpstreamError {
      if (!hasLimits(limits)) return UNLIMITED_PERMIT
      const rates = upstreams.of(id, monotonicMs)
      const full = rates.callRefusal(limits, tokens, monotonicMs)
      return full ? toOwnLimitError(id, full) : rates.take(tokens, monotonicMs)
    },

    /** Tells whether `permit` would refuse now. */
    isFull: ({ id, limits }: Upstream, tokens: number, monotonicMs: number): boolean =>
      hasLimits(limits) && upstreams.of(id, monotonicMs).callRefusal(limits, tokens, monotonicMs) !== null,

    /**
     * Takes over keys and teams as they are now. `spent` is asked once for each budget that was not there before: what was
     * spent from `fromMs` on and before `untilMs`, open reservations included. Where it throws, that is thrown on and nothing
     * has changed.
     */
    renew: (allKeys: Iterable<Key>, allTeams: Iterable<Team>, spent: SpentOf, { wallMs }: Moment): void =>
      budgets.renew(allKeys, allTeams, spent, wallMs),
    /** Has a request that `spent` has counted as under way count with what it has cost; of others, nothing changes. */
    ended: (request: Ended): void => budgets.ended(request),

    /** Counts requests of the last minute, oldest first. */
    replay(past: Iterable<PastRequest>, monotonicMs: number): void {
      for (const { keyId, teamId, upstream, tokens, agoMs } of past) {
        // By a wall clock that was set back meanwhile, the past may lie ahead.
        const atMs = monotonicMs - Math.max(0, agoMs)
        if (keyId !== null) keys.of(keyId, monotonicMs).window.add(1, tokens, atMs)
        if (teamId !== null) teams.of(teamId, monotonicMs).window.add(1, tokens, atMs)
        if (upstream !== null) upstreams.of(upstream, monotonicMs).window.add(1, tokens, atMs)
      }
    },
  }
}

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
class LimitedRequest implements EnteredRequest, Reservation {
  headers: Headers = {}
  readonly #teamLimits: Limits
  #keySlot: Slot | null = null
  #teamSlot: Slot | null = null
  #budget: BudgetReservation | null = null
  #isOver = false

  /** Rates are null where there is no limit of rate or concurrency; then there is no slot either. */
  constructor(
    private readonly budgets: Budgets,
    private readonly key: Key,
    private readonly team: Team | null,
    private readonly keyRates: RateLimiter | null,
    private readonly teamRates: RateLimiter | null,
  ) {
    this.#teamLimits = team?.limits ?? NO_LIMITS
  }

  /** Counts it in, and takes a slot, with its key and its team or with neither. */
  enter(nowMs: number): Decision<EnteredRequest> {
    const byKey = this.keyRates?.refusal('entry', this.key.limits, 0, nowMs) ?? null
    const byTeam = this.teamRates?.refusal('entry', this.#teamLimits, 0, nowMs) ?? null
    const full = this.#toRateError(byKey, byTeam, nowMs)
    if (full) return full
    this.#keySlot = this.keyRates?.take(0, nowMs) ?? null
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
    const byKey = this.keyRates?.refusal('admission', this.key.limits, tokens, monotonicMs) ?? null
    const byTeam = this.teamRates?.refusal('admission', this.#teamLimits, tokens, monotonicMs) ?? null
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
    if (this.keyRates) addRateHeaders(headers, this.key.limits, this.keyRates, nowMs)
    if (this.teamRates) addRateHeaders(headers, this.#teamLimits, this.teamRates, nowMs)
    return headers
  }
}
