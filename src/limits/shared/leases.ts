/**
 * Leases: parts of the limits of keys, teams, and upstreams that a node takes in advance. The node admits requests from
 * leases without asking, and reports the use to the engine later. Leased amounts count as used, so no limit is exceeded.
 *
 * - Requests and tokens: about as many as in the last 200 ms. Their minute starts when they lapse; the rest is returned
 *   then.
 * - Slots: some more than are in use.
 * - Dollars: the node may also spend them while the engine can't be reached.
 *
 * All nodes together lease an eighth of the rest, as of each node's last reply, and nothing if little is left.
 */
import type { Headers } from '../messages.ts'
import { type ScopeAsk, type ScopeFigures, type ScopeName, type Told, toAmount, type Usage } from './engine.ts'
import { type Amounts, type Claim, type Credit, Lease, type LeasesDeps } from './lease.ts'

/** Interval of reports to the engine. */
const TICK_MS = 100
const IDLE_MS = 60_000

/** The part of one request in its leases. */
export class Grant {
  #isOver = false
  #hasSlot = true
  /** True if its slot and dollars are in leases, not in a separate hold. */
  #isLeased = true

  constructor(
    private readonly leases: readonly { lease: Lease; credit: Credit | null }[],
    readonly amounts: Amounts,
  ) {}

  get scopes(): ScopeAsk[] {
    return this.leases.map(({ lease }) => lease.scope)
  }

  get headers(): Headers {
    const headers: Record<string, string> = {}
    for (const { lease } of this.leases) lease.addHeaders(headers)
    return headers
  }

  get leftNanoUsd(): number {
    return Math.min(...this.leases.map(({ lease }) => lease.leftNanoUsd))
  }

  /** True if the leases cover the difference, or less is needed. */
  setDollars(nanoUsd: number): boolean {
    const more = nanoUsd - this.amounts.nanoUsd
    if (!this.#isLeased) return false
    const budgeted = this.leases.filter(({ lease }) => lease.claim.budget !== null)
    if (more > 0 && budgeted.some(({ lease }) => lease.nanoUsd < more)) return false
    for (const { lease } of budgeted) lease.use(more)
    this.amounts.nanoUsd = nanoUsd
    return true
  }

  setTokens(tokens: number): void {
    for (const { lease, credit } of this.leases) if (credit) lease.count(credit, tokens - this.amounts.tokens)
    this.amounts.tokens = tokens
  }

  releaseSlot(): void {
    if (this.#isLeased && this.#hasSlot)
      for (const { lease } of this.leases) if (lease.claim.limits.concurrency !== null) lease.freeSlot()
    this.#hasSlot = false
  }

  /** Moves its slot and dollars to the hold that `hold` reports. */
  leave(hold: () => void): void {
    if (!this.#isLeased) return
    hold()
    for (const { lease } of this.leases) {
      const { limits, budget } = lease.claim
      const slots = this.#hasSlot && limits.concurrency !== null ? 1 : 0
      lease.giveUp(slots, budget === null ? 0 : this.amounts.nanoUsd)
      lease.tell()
    }
    this.#isLeased = false
  }

  /** Moves its dollars elsewhere. Returns the amount. */
  moveDollars(): number {
    const { nanoUsd } = this.amounts
    for (const { lease } of this.leases) {
      if (lease.claim.budget === null) continue
      lease.giveUp(0, nanoUsd)
      lease.tell()
    }
    this.amounts.nanoUsd = 0
    return nanoUsd
  }

  /** @param tokens null keeps the estimate. */
  end(isCanceled: boolean, tokens: number | null, nanoUsd: number): void {
    if (this.#isOver) return
    this.#isOver = true
    if (isCanceled || tokens !== null) this.setTokens(isCanceled ? 0 : toAmount(tokens ?? 0))
    this.releaseSlot()
    for (const { lease, credit } of this.leases) {
      if (isCanceled && credit) lease.cancel(credit)
      if (this.#isLeased && lease.claim.budget !== null) lease.spend(this.amounts.nanoUsd, toAmount(nanoUsd))
    }
  }
}

/** Drops the spend, which would be outdated. */
const withoutSpent = ({ budget, ...scope }: ScopeAsk): ScopeAsk => {
  if (budget === undefined) return scope
  const { spentNanoUsd: _, ...rest } = budget
  return { ...scope, budget: rest }
}

export class Leases {
  readonly #leases = new Map<ScopeName, Lease>()
  /** All leases, including retired ones of running requests. */
  readonly #all = new Set<Lease>()
  #isApart = false
  #lastId = 0
  readonly #timer: Timer

  constructor(private readonly deps: LeasesDeps) {
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
    this.#timer.unref()
  }

  /** Null if the leases don't cover everything. */
  covering(claims: readonly Claim[], amounts: Amounts, nowMs: number, wallMs: number): Lease[] | null {
    if (this.#isApart) return null
    const leases: Lease[] = []
    for (const claim of claims) {
      const lease = this.#of(claim, wallMs)
      if (!lease?.covers(amounts, nowMs)) return null
      leases.push(lease)
    }
    return leases
  }

  /** Null if the leases don't cover everything. */
  take(claims: readonly Claim[], amounts: Amounts, nowMs: number, wallMs: number): Grant | null {
    const leases = this.covering(claims, amounts, nowMs, wallMs)
    if (leases === null) return null
    const taken = leases.map((lease) => ({ lease, credit: lease.take(amounts, nowMs) }))
    for (const lease of leases) lease.adjust(amounts, true)
    return new Grant(taken, { ...amounts })
  }

  #of(claim: Claim, wallMs: number): Lease | undefined {
    const lease = this.#leases.get(claim.name)
    if (lease === undefined || lease.isFor(claim, wallMs)) return lease
    this.#leases.delete(claim.name)
    lease.retire()
    return undefined
  }

  /**
   * Handles a decision of the engine.
   * @param isRequest whether the decision was about a new request.
   */
  decided(
    claim: Claim,
    scope: ScopeAsk,
    reply: ScopeFigures,
    amounts: Amounts,
    isRequest: boolean,
    wallMs: number,
  ): void {
    let lease = this.#of(claim, wallMs)
    if (lease === undefined) {
      lease = new Lease(claim, withoutSpent(scope), this.deps, () => `slice:${++this.#lastId}`)
      this.#leases.set(claim.name, lease)
      this.#all.add(lease)
    }
    lease.usedMs = this.deps.monotonicMs()
    lease.note(reply)
    lease.adjust(amounts, isRequest)
  }

  /** Free nano-dollars; 0 for none. */
  of(name: ScopeName, usage: Usage): number {
    const lease = this.#leases.get(name)
    return lease?.scope.budget?.usage === usage ? lease.nanoUsd : 0
  }

  /** Excludes free amounts from `restore`. */
  forget(name: ScopeName): void {
    const lease = this.#leases.get(name)
    if (lease) lease.nanoUsd = 0
  }

  /** True if something was free. */
  release(name: ScopeName): boolean {
    return this.#leases.get(name)?.release() ?? false
  }

  #tick(): void {
    if (this.#isApart) return
    const nowMs = this.deps.monotonicMs()
    for (const lease of this.#all) {
      if (lease.isRetired || nowMs - lease.usedMs > IDLE_MS) lease.release()
      lease.tick(nowMs)
      if (!lease.isIdle || (!lease.isRetired && nowMs - lease.usedMs <= IDLE_MS)) continue
      this.#all.delete(lease)
      if (this.#leases.get(lease.claim.name) === lease) this.#leases.delete(lease.claim.name)
    }
  }

  setApart(isApart: boolean): void {
    this.#isApart = isApart
    if (isApart) for (const lease of this.#all) lease.dropCredits()
  }

  /** Reports of everything that the engine may have lost or not know. */
  *restore(): Iterable<Told> {
    for (const lease of this.#all) yield* lease.restore()
  }

  close(): void {
    clearInterval(this.#timer)
    for (const lease of this.#all) lease.release()
  }
}
