/**
 * Limits in two steps: request rate and concurrency before the body is read, tokens and budgets before dispatch;
 * settled once with the actual use. Also keeps upstreams under their providers' limits.
 */
import type { Decision, ErrorKind, GatewayError, UpstreamError } from '../domain/error.ts'
import { type Limits, NO_LIMITS } from '../domain/limits.ts'
import type { Key, Spender, Team, Upstream } from '../domain/snapshot.ts'
import {
  type AskSuccessor,
  type BudgetRefusal,
  BudgetReservation,
  Budgets,
  type BudgetUse,
  type BudgetWarning,
  type Cost,
  type Counting,
  type Ended,
  type HeldRaise,
  type SpentOf,
  toHeld,
} from './budget.ts'
import { type Borrower, Lender } from './lending.ts'
import { addRateHeaders, type Headers, toBudgetError, toOwnLimitError, toRateError } from './messages.ts'
import { hasLimits, type RateLimiter, RateLimiters, type RateRefusal, type Slot } from './rates.ts'

export interface Amount {
  tokens: number
  nanoUsd: number
}

export interface Ask extends Amount {
  /** How to count the prompt if the budget can't cover the worst case; without it, the worst case decides. */
  counting?: Counting
  isMore?: boolean
}

/** Actual use of a request. */
export interface Used {
  /** Null keeps the estimate. */
  tokens: number | null
  nanoUsd: number
}

export interface Moment {
  monotonicMs: number
  /** Wall clock. Budget periods follow its latest time. */
  wallMs: number
}

/** Counts in the rates of its key and team and holds a slot of both, until `admit`, `cancel`, or `refuse`. */
export interface EnteredRequest {
  /**
   * Changes nothing if it returns `token_limit` or `insufficient_quota`; may be called again then. A promise if a
   * budget is nearly spent and prompts must be counted first. Check and reservation are atomic.
   */
  admit(ask: Ask, now: Moment): Decision<Reservation> | Promise<Decision<Reservation>>
  /** Nano-dollars that the budgets of key and team have left; Infinity without any. */
  room(now: Moment): number
  /** Undoes the request and frees its slot, for a request whose body was not read. */
  cancel(): void
  /** Adds `x-ratelimit-*` to the error. The request stays counted, unless it could have succeeded at another time. */
  refuse(error: GatewayError, monotonicMs: number): void | Promise<void>
}

export interface Reservation {
  /** `x-ratelimit-*` at admission, with the lower remaining value of key and team; empty without rates. */
  readonly headers: Headers
  /** False if no budget applies, so that costs need not be estimated. */
  readonly hasBudget: boolean
  /** Reserves for another paid call of the same request. Changes nothing if it returns `insufficient_quota`. */
  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null>
  /** Nano-dollars that it has reserved, plus those that its budgets have left. Infinity without a budget. */
  room(): number
  releaseSlot(): void
  /** Replaces the reservation by the actual use and frees the slots. Only the first call counts. */
  settle(actual: Used): void
  /** Undoes the reservation and the request, because nothing was dispatched. */
  cancel(): void
}

/** A request in the process that has the limits. */
export interface LocalRequest extends EnteredRequest {
  admit(ask: Ask, now: Moment): Decision<LocalReservation> | Promise<Decision<LocalReservation>>
}

export interface LocalReservation extends Reservation {
  /** After settlement: replaces the cost if the ledger has another. */
  correct(nanoUsd: number): void
}

export interface Permit {
  /** `tokens` is the actual use; null keeps the estimate. Idempotent. */
  leave(tokens: number | null): void
}

/** The gateway's interface to limits in this process or another one. */
export interface RequestLimiter {
  /** @param id ID of the request. */
  enter(
    id: string,
    key: Limited,
    team: Limited | null,
    monotonicMs: number,
  ): Decision<EnteredRequest> | Promise<Decision<EnteredRequest>>
  /** Returns an UpstreamError with status 429 if the upstream's limits are reached. */
  permit(
    upstream: LimitedUpstream,
    tokens: number,
    monotonicMs: number,
  ): Permit | UpstreamError | Promise<Permit | UpstreamError>
  isFull(upstream: LimitedUpstream, tokens: number, monotonicMs: number): boolean
}

/** A key or a team. */
export type Limited = Pick<Team, 'id' | 'name' | 'limits' | 'budget'>
export type LimitedUpstream = Pick<Upstream, 'id' | 'limits'>

/** Scope names for lending: those of key and team that have limits. */
export const namesOf = (key: Limited, team: Limited | null): string[] => [
  ...(isLimited(key, null) ? [`key:${key.id}`] : []),
  ...(team !== null && isLimited(team, null) ? [`team:${team.id}`] : []),
]

export const isLimited = (key: Limited, team: Limited | null): boolean =>
  hasLimits(key.limits) || key.budget !== null || (team !== null && (hasLimits(team.limits) || team.budget !== null))

export interface LimiterOptions {
  /** Called when spend first reaches BUDGET_WARNING_PERCENT of a budget in a period, and again at 100. */
  onWarning?(warning: BudgetWarning): void
  /** The latest time of a request in the ledger, before `MAX_STEP_MS` from now. */
  latestMs?: number
}

/** Shared, so that keys without limits cost nothing. */
const UNLIMITED: LocalReservation = Object.freeze({
  headers: {},
  hasBudget: false,
  raise: () => null,
  room: () => Number.POSITIVE_INFINITY,
  releaseSlot() {},
  settle() {},
  correct() {},
  cancel() {},
})
export const UNLIMITED_REQUEST: LocalRequest = Object.freeze({
  admit: () => UNLIMITED,
  room: () => Number.POSITIVE_INFINITY,
  cancel() {},
  refuse() {},
})
export const UNLIMITED_PERMIT: Permit = Object.freeze({ leave() {} })

export interface PastRequest {
  keyId: string | null
  teamId: string | null
  upstream: string | null
  tokens: number
  agoMs: number
}

interface HeldElsewhere {
  keyId: string
  teamId: string | null
  upstream: string
}

/** Limits of a node, its own or shared with other nodes. */
export interface NodeLimiter extends RequestLimiter {
  enter(id: string, key: Limited, team: Limited | null, monotonicMs: number): Decision<LocalRequest>
  renew(keys: Iterable<Key>, teams: Iterable<Team>, spent: SpentOf, now: Moment): void
  /** Ends a request that `spent` counted as in flight; ignores others. */
  ended(request: Ended): void
  /** Holds the slots of a request that another server admitted and finishes. Returns a function that frees them. */
  hold(request: HeldElsewhere, monotonicMs: number): () => void
  /** From now on, asks another server before a request may cost more. */
  askSuccessor(ask: AskSuccessor): void
  /** For a request that another server finishes. Undefined if the other server must decide. */
  raiseHeld?: (raise: HeldRaise) => BudgetRefusal | null
  /** Lends to a worker, so that it asks less often. */
  lend?(borrower: Borrower): Lender
  /** Makes workers return their parts of these limits; null if they have none. */
  recall?(names: readonly string[]): Promise<unknown> | null
  budgetUses(kind: Spender['kind'], wallMs: number): Iterable<BudgetUse>
}

export type Limiter = ReturnType<typeof createLimiter>

export function createLimiter({ onWarning = () => {}, latestMs = 0 }: LimiterOptions = {}) {
  const limiters = { key: new RateLimiters(), team: new RateLimiters(), upstream: new RateLimiters() }
  const { key: keys, team: teams, upstream: upstreams } = limiters
  const budgets = new Budgets(onWarning, latestMs)
  const lenders = new Set<Lender>()

  return {
    enter(id: string, key: Limited, team: Limited | null, monotonicMs: number): Decision<LocalRequest> {
      if (!isLimited(key, team)) return UNLIMITED_REQUEST
      const ofKey = hasLimits(key.limits) ? keys.of(key.id, monotonicMs) : null
      const ofTeam = team !== null && hasLimits(team.limits) ? teams.of(team.id, monotonicMs) : null
      return new LimitedRequest(budgets, id, key, team, ofKey, ofTeam).enter(monotonicMs)
    },

    permit({ id, limits }: LimitedUpstream, tokens: number, monotonicMs: number): Permit | UpstreamError {
      if (!hasLimits(limits)) return UNLIMITED_PERMIT
      const rates = upstreams.of(id, monotonicMs)
      const full = rates.callRefusal(limits, tokens, monotonicMs)
      return full ? toOwnLimitError(id, full) : rates.take(tokens, monotonicMs)
    },

    isFull: ({ id, limits }: LimitedUpstream, tokens: number, monotonicMs: number): boolean =>
      hasLimits(limits) && upstreams.of(id, monotonicMs).callRefusal(limits, tokens, monotonicMs) !== null,

    /**
     * `spent` is called once for each new budget: spend from `fromMs` to before `untilMs`, open reservations included.
     * If it throws, nothing changes.
     */
    renew: (allKeys: Iterable<Key>, allTeams: Iterable<Team>, spent: SpentOf, { wallMs }: Moment): void =>
      budgets.renew(allKeys, allTeams, spent, wallMs),
    ended: (request: Ended): void => budgets.ended(request),

    /** Holds slots only: its rates are read from the ledger. */
    hold({ keyId, teamId, upstream }: HeldElsewhere, monotonicMs: number): () => void {
      const held = [keys.of(keyId, monotonicMs), upstreams.of(upstream, monotonicMs)]
      if (teamId !== null) held.push(teams.of(teamId, monotonicMs))
      for (const one of held) one.inFlight++
      return () => {
        for (const one of held) one.inFlight--
      }
    },

    askSuccessor(ask: AskSuccessor): void {
      budgets.successor = ask
    },
    raiseHeld: (raise: HeldRaise): BudgetRefusal | null => budgets.raiseInFlight(raise),

    lend: (borrower: Borrower): Lender => new Lender({ ...borrower, limiters, budgets, lenders }),
    recall(names: readonly string[]): Promise<unknown> | null {
      const recalls = names.flatMap((name) => {
        const having = [...lenders].filter((lender) => lender.has(name))
        return having.map((lender) => lender.recall(name))
      })
      return recalls.length === 0 ? null : Promise.all(recalls)
    },

    budgetUses: (kind: Spender['kind'], wallMs: number): Iterable<BudgetUse> => budgets.uses(kind, wallMs),

    /** Counts requests of the last minute, oldest first. */
    replay(past: Iterable<PastRequest>, monotonicMs: number): void {
      for (const { keyId, teamId, upstream, tokens, agoMs } of past) {
        // If the wall clock was set back, a past request may have a future time.
        const atMs = monotonicMs - Math.max(0, agoMs)
        if (keyId !== null) keys.of(keyId, monotonicMs).window.add(1, tokens, atMs)
        if (teamId !== null) teams.of(teamId, monotonicMs).window.add(1, tokens, atMs)
        if (upstream !== null) upstreams.of(upstream, monotonicMs).window.add(1, tokens, atMs)
      }
    },
  } satisfies NodeLimiter & Record<string, unknown>
}

/** Requests rejected with these errors don't count in the request rate, so that clients can retry. */
export const GIVES_BACK: ReadonlySet<ErrorKind> = new Set([
  'token_limit',
  'insufficient_quota',
  'overloaded',
  'over_share',
])

export const toWorst = ({ nanoUsd }: Ask): Cost => ({
  likelyNanoUsd: nanoUsd,
  mostNanoUsd: nanoUsd,
  reservedNanoUsd: 0,
})

/** Asks the other server, which knows the spend since it took over. Undefined if it can't be reached. */
export async function raiseThere(
  successor: AskSuccessor,
  request: Pick<HeldRaise, 'id' | 'keyId' | 'teamId'>,
  { nanoUsd, counting }: Ask,
): Promise<BudgetRefusal | null | undefined> {
  const refusal = await successor({ ...request, likelyNanoUsd: nanoUsd, nanoUsd })
  const counted = refusal && counting ? await counting.count() : null
  if (counted === null) return refusal
  return (await successor({ ...request, likelyNanoUsd: counted.likelyNanoUsd, nanoUsd: toHeld(counted) })) ?? null
}

export const isBudgetRefusal = (decided: unknown): decided is BudgetRefusal =>
  decided !== null && typeof decided === 'object' && 'askedNanoUsd' in decided

/** True if a count could help. Past spend doesn't shrink. */
const mayFit = ({ spentNanoUsd, budget }: BudgetRefusal, counting: Counting) =>
  spentNanoUsd + counting.leastNanoUsd() <= budget.nanoUsd

interface Attempts<T> {
  headers: Headers
  /** True once a worker has given up the request. */
  isOver(): boolean
  countOthers(): Promise<void>
  attempt(cost: Cost): T | BudgetRefusal | Promise<T | BudgetRefusal>
}

/**
 * If the worst case doesn't fit, tries again with a count of the prompt, then with counts of all running requests.
 */
export function refuseOrCount<T>(
  refusal: BudgetRefusal,
  { counting, isMore = false }: Ask,
  attempts: Attempts<T>,
): GatewayError | Promise<T | GatewayError> {
  if (!counting || !mayFit(refusal, counting)) return toBudgetError(refusal, attempts.headers, isMore)
  return untilCounted(counting, refusal, isMore, attempts)
}

async function untilCounted<T>(
  counting: Counting,
  refusal: BudgetRefusal,
  isMore: boolean,
  { headers, isOver, countOthers, attempt }: Attempts<T>,
): Promise<T | GatewayError> {
  const cost = await counting.count()
  if (cost === null || isOver()) return toBudgetError(refusal, headers, isMore)
  let decided = await attempt(cost)
  if (isBudgetRefusal(decided)) {
    await countOthers()
    if (!isOver()) decided = await attempt(cost)
  }
  return isBudgetRefusal(decided) ? toBudgetError(decided, headers, isMore) : decided
}

/** Returns the error with the longer wait, after which both limits have capacity. */
export function toLongerError(
  key: Pick<Limited, 'name'>,
  team: Pick<Limited, 'name'> | null,
  byKey: RateRefusal | null,
  byTeam: RateRefusal | null,
  headers: () => Headers,
): GatewayError | null {
  if (byTeam !== null && (byKey === null || toWait(byTeam) > toWait(byKey)))
    return toRateError('team', team?.name ?? '', byTeam, headers())
  return byKey && toRateError('key', key.name, byKey, headers())
}

const toWait = ({ retryAfterMs }: RateRefusal) => retryAfterMs ?? Number.POSITIVE_INFINITY

class LimitedRequest implements LocalRequest, LocalReservation {
  headers: Headers = {}
  readonly #teamLimits: Limits
  #keySlot: Slot | null = null
  #teamSlot: Slot | null = null
  #budget: BudgetReservation | null = null
  #isOver = false

  /** Rates are null if there is no rate or concurrency limit; then there is no slot either. */
  constructor(
    private readonly budgets: Budgets,
    private readonly id: string,
    private readonly key: Limited,
    private readonly team: Limited | null,
    private readonly keyRates: RateLimiter | null,
    private readonly teamRates: RateLimiter | null,
  ) {
    this.#teamLimits = team?.limits ?? NO_LIMITS
  }

  /** Takes a slot of both key and team, or of neither. */
  enter(nowMs: number): Decision<LocalRequest> {
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

  admit(ask: Ask, now: Moment): Decision<LocalReservation> | Promise<Decision<LocalReservation>> {
    const { tokens, counting = null } = ask
    const decided = this.#admit(tokens, toWorst(ask), counting, now)
    if (!isBudgetRefusal(decided)) return decided
    return this.#refuseOrCount(decided, ask, (cost) => this.#admit(tokens, cost, null, now))
  }

  #refuseOrCount<T>(
    refusal: BudgetRefusal,
    ask: Ask,
    attempt: (cost: Cost) => T | BudgetRefusal,
  ): GatewayError | Promise<T | GatewayError> {
    return refuseOrCount(refusal, ask, {
      headers: this.headers,
      isOver: () => this.#isOver,
      countOthers: () => this.budgets.countOthers(this.key, this.team),
      attempt,
    })
  }

  #admit(
    tokens: number,
    cost: Cost,
    counting: Counting | null,
    { monotonicMs, wallMs }: Moment,
  ): Decision<LocalReservation> | BudgetRefusal {
    // Check everything before taking anything.
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
    const { successor } = this.budgets
    if (successor !== null && this.hasBudget && !this.#isOver) return this.#raiseThere(ask, successor)
    return this.#raiseHere(ask)
  }

  async #raiseThere(ask: Ask, successor: AskSuccessor): Promise<GatewayError | null> {
    const { tokens, isMore = false } = ask
    const refusal = await raiseThere(successor, { id: this.id, keyId: this.key.id, teamId: this.team?.id ?? null }, ask)
    if (refusal === undefined) return this.#raiseHere(ask)
    if (refusal !== null) return toBudgetError(refusal, this.headers, isMore)
    this.#keySlot?.raise(tokens)
    this.#teamSlot?.raise(tokens)
    return null
  }

  #raiseHere(ask: Ask): GatewayError | null | Promise<GatewayError | null> {
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

  settle({ tokens, nanoUsd }: Used): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#leaveSlots(tokens)
    this.#budget?.settle(nanoUsd)
  }

  correct(nanoUsd: number): void {
    this.#budget?.correct(nanoUsd)
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

  #toRateError(byKey: RateRefusal | null, byTeam: RateRefusal | null, nowMs: number): GatewayError | null {
    return toLongerError(this.key, this.team, byKey, byTeam, () => this.#toHeaders(nowMs))
  }

  /** Uses the lower remaining value of key and team. */
  #toHeaders(nowMs: number): Headers {
    const headers: Record<string, string> = {}
    if (this.keyRates) addRateHeaders(headers, this.key.limits, this.keyRates, nowMs)
    if (this.teamRates) addRateHeaders(headers, this.#teamLimits, this.teamRates, nowMs)
    return headers
  }
}
