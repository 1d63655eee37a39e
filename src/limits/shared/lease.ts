/** One lease: a node's part of the limits of a key, team, or upstream. See `leases.ts`. */
import type { Limits } from '../../domain/limits.ts'
import type { Limited } from '../limiter.ts'
import { addRateHeaders } from '../messages.ts'
import { type Unit, WINDOW_MS } from '../rates.ts'
import {
  type Ask,
  isGranted,
  type ScopeAsk,
  type ScopeFigures,
  type ScopeName,
  type ScopeReply,
  type Told,
} from './engine.ts'

export interface Claim {
  name: ScopeName
  limits: Limits
  budget: Limited['budget']
}

/** A reply with the engine's clock and the start of its state. */
export interface LeaseDecision {
  reply: ScopeReply
  nowMs: number
  bornMs: number
}

export interface LeasesDeps {
  /** @param decided gets null if the engine couldn't decide. Called in the order of decisions, like `note`. */
  ask(ask: Ask, decided: (decision: LeaseDecision | null) => void): void
  tell(...told: Told[]): void
  nodes(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** Called with the latest known figures of a budget. */
  onFigures(name: ScopeName, spentNanoUsd: number, reservedNanoUsd: number): void
}

/** Lifetime of leased requests and tokens. */
const LIFE_MS = 500
export const PART = 8
/** Fewer requests than this aren't leased. */
const LEAST_REQUESTS = 4

/** Requests and tokens leased together. */
export interface Credit {
  /** Time at which the credit counts, by the engine's clock. */
  readonly atMs: number
  readonly bornMs: number
  /** Monotonic time, ms. */
  readonly untilMs: number
  requests: number
  tokens: number
}

/** Amounts that a request takes from each lease. */
export interface Amounts {
  tokens: number
  nanoUsd: number
}

export class Lease {
  id: string
  /** Free slots. */
  slots = 0
  nanoUsd = 0
  /** Amounts used by running requests. */
  readonly used = { slots: 0, nanoUsd: 0 }
  credits: Credit[] = []
  /** Lapsed credits whose rest must be returned. */
  readonly lapsed = new Set<Credit>()
  /** Changes not reported to the engine yet. */
  #less = { slots: 0, nanoUsd: 0, spentNanoUsd: 0 }
  #isChanged = false
  /** Use in this tick, and in the previous one. */
  #now = { requests: 0, tokens: 0 }
  #before = { requests: 0, tokens: 0 }
  #leastSlots = 0
  #isAsking = false
  /** True if the pending lease must be returned at once. */
  #isUnwanted = false
  isRetired = false
  /** The engine refused in this tick. */
  #isRefused = false
  /** Dollars that the last request needed. */
  #askedNanoUsd = 0
  usedMs = 0
  /** Figures of the engine's last reply. */
  #known = { requests: 0, tokens: 0, slots: 0, spentNanoUsd: 0, reservedNanoUsd: 0 }

  constructor(
    readonly claim: Claim,
    /** Scope, with its budget's period. */
    readonly scope: ScopeAsk,
    private readonly deps: LeasesDeps,
    private readonly newId: () => string,
  ) {
    this.id = newId()
  }

  isFor({ limits, budget }: Claim, wallMs: number): boolean {
    const of = this.scope.budget
    return (
      limits === this.claim.limits &&
      budget === this.claim.budget &&
      (of === undefined || (wallMs >= of.fromMs && wallMs < of.untilMs))
    )
  }

  get #hasRates(): boolean {
    return this.claim.limits.rpm !== null || this.claim.limits.tpm !== null
  }

  covers({ tokens, nanoUsd }: Amounts, nowMs: number): boolean {
    const { limits, budget } = this.claim
    if (budget !== null && nanoUsd > this.nanoUsd) return false
    if (limits.concurrency !== null && this.slots === 0) return false
    return !this.#hasRates || this.#creditFor(tokens, nowMs) !== undefined
  }

  #creditFor(tokens: number, nowMs: number): Credit | undefined {
    const wanted = this.claim.limits.tpm === null ? 0 : tokens
    return this.credits.find((one) => one.requests > 0 && one.tokens >= wanted && nowMs < one.untilMs)
  }

  take({ tokens, nanoUsd }: Amounts, nowMs: number): Credit | null {
    const { limits, budget } = this.claim
    if (budget !== null) this.use(nanoUsd)
    if (limits.concurrency !== null) {
      this.slots--
      this.used.slots++
      this.#leastSlots = Math.min(this.#leastSlots, this.slots)
    }
    const credit = this.#hasRates ? (this.#creditFor(tokens, nowMs) ?? null) : null
    if (credit) {
      credit.requests--
      this.count(credit, tokens)
    }
    this.usedMs = nowMs
    return credit
  }

  use(nanoUsd: number): void {
    this.nanoUsd -= nanoUsd
    this.used.nanoUsd += nanoUsd
    this.#isChanged = true
  }

  /** Tokens beyond the credit are reported to the engine. */
  count(credit: Credit, tokens: number): void {
    if (this.claim.limits.tpm === null) return
    credit.tokens -= tokens
    this.#returnTo(credit)
  }

  cancel(credit: Credit): void {
    credit.requests++
    this.#returnTo(credit)
  }

  #returnTo(credit: Credit): void {
    if (!this.credits.includes(credit)) this.lapsed.add(credit)
  }

  freeSlot(): void {
    this.used.slots--
    this.slots++
    this.#isChanged = true
  }

  spend(heldNanoUsd: number, spentNanoUsd: number): void {
    const { name, budget } = this.scope
    if (heldNanoUsd > 0) {
      this.use(-heldNanoUsd)
      // The cost may exceed everything that is held.
      const less = Math.min(spentNanoUsd, this.nanoUsd + this.used.nanoUsd)
      this.nanoUsd -= less
      this.#less.nanoUsd += less
      this.#less.spentNanoUsd += spentNanoUsd
      this.#known.reservedNanoUsd -= less
    } else if (spentNanoUsd > 0 && budget) {
      // The engine may no longer have the lease.
      this.deps.tell({ op: 'spend', name, usage: budget.usage, nanoUsd: spentNanoUsd })
    }
    this.#known.spentNanoUsd += spentNanoUsd
    this.#showFigures()
  }

  /** Moves amounts to a separate hold. */
  giveUp(slots: number, nanoUsd: number): void {
    this.used.slots -= slots
    this.used.nanoUsd -= nanoUsd
    this.#less.slots += slots
    this.#less.nanoUsd += nanoUsd
    this.#isChanged = true
  }

  /** Returns free amounts to the engine. False if nothing was free. */
  release(): boolean {
    this.#isUnwanted = this.#isAsking
    const had = this.slots > 0 || this.nanoUsd > 0 || this.credits.some(({ requests }) => requests > 0)
    this.#less.slots += this.slots
    this.#less.nanoUsd += this.nanoUsd
    this.#isChanged ||= had
    this.slots = 0
    this.nanoUsd = 0
    this.#lapse(Number.POSITIVE_INFINITY)
    this.tell()
    return had
  }

  #lapse(nowMs: number): void {
    for (const credit of this.credits) if (credit.untilMs <= nowMs) this.lapsed.add(credit)
    this.credits = this.credits.filter(({ untilMs }) => untilMs > nowMs)
  }

  tick(nowMs: number): void {
    this.#before = this.#now
    this.#now = { requests: 0, tokens: 0 }
    this.#isRefused = false
    // Slots that weren't needed.
    const spare = this.#before.requests === 0 ? this.slots : this.#leastSlots - (this.used.slots >> 2) - 2
    if (spare > 0) {
      const slots = Math.min(spare, this.slots)
      this.slots -= slots
      this.#less.slots += slots
      this.#isChanged = true
    }
    this.#leastSlots = this.slots
    this.#lapse(nowMs)
    // The budget may have shrunk before the requested dollars arrived.
    if (!this.#isAsking) this.#moreDollars(PART * this.deps.nodes(), this.#askedNanoUsd)
    this.tell()
  }

  tell(): void {
    const { name } = this.claim
    for (const credit of this.lapsed) {
      const { requests, tokens, atMs, bornMs } = credit
      credit.requests = 0
      credit.tokens = 0
      this.#known.requests -= requests
      this.#known.tokens -= tokens
      if (requests !== 0 || tokens !== 0) this.deps.tell({ op: 'return', name, bornMs, atMs, requests, tokens })
    }
    this.lapsed.clear()
    if (!this.#isChanged) return
    this.#isChanged = false
    const { slots, nanoUsd, spentNanoUsd } = this.#less
    this.#less = { slots: 0, nanoUsd: 0, spentNanoUsd: 0 }
    const { id, used } = this
    this.deps.tell({ op: 'draw', id, slots, heldNanoUsd: nanoUsd, nanoUsd: spentNanoUsd, usedNanoUsd: used.nanoUsd })
  }

  /** After an outage: reports that replace the lease in the engine. */
  restore(): Told[] {
    const { id: old, used, nanoUsd } = this
    const { spentNanoUsd } = this.#less
    this.#less = { slots: 0, nanoUsd: 0, spentNanoUsd: 0 }
    this.id = this.newId()
    const held = nanoUsd + used.nanoUsd
    const want = { requests: 0, slots: used.slots + this.slots, heldNanoUsd: held }
    return [
      { op: 'hold', id: this.id, scopes: [this.scope], ...want },
      { op: 'end', id: old, isCanceled: false, nanoUsd: spentNanoUsd },
    ]
  }

  /** Drops requests and tokens: in an outage, the node has its own limits. */
  dropCredits(): void {
    for (const credit of this.credits) this.lapsed.add(credit)
    this.credits = []
  }

  get isIdle(): boolean {
    return this.used.slots === 0 && this.used.nanoUsd === 0 && this.slots === 0 && this.nanoUsd === 0
  }

  note({ requests, tokens, spentNanoUsd, reservedNanoUsd }: ScopeFigures, slots = this.#known.slots): void {
    this.#known = { requests, tokens, slots, spentNanoUsd, reservedNanoUsd }
    this.#showFigures()
  }

  #showFigures(): void {
    const { spentNanoUsd, reservedNanoUsd } = this.#known
    if (this.claim.budget !== null) this.deps.onFigures(this.claim.name, spentNanoUsd, reservedNanoUsd)
  }

  /** Rest of the budget, without reserved amounts. */
  get #restNanoUsd(): number {
    const { spentNanoUsd, reservedNanoUsd } = this.#known
    return (this.claim.budget?.nanoUsd ?? 0) - spentNanoUsd - reservedNanoUsd
  }

  get leftNanoUsd(): number {
    return this.claim.budget === null ? Number.POSITIVE_INFINITY : this.nanoUsd + this.#restNanoUsd
  }

  addHeaders(headers: Record<string, string>): void {
    const free = (unit: Unit) => this.credits.reduce((sum, credit) => sum + credit[unit], 0)
    const window = {
      used: (unit: Unit) => this.#known[unit] - free(unit),
      emptyMs: (unit: Unit) => (this.#known[unit] > 0 ? WINDOW_MS : 0),
    }
    addRateHeaders(headers, this.claim.limits, { window }, 0)
  }

  /** Leases more if less is left than one tick uses. */
  adjust({ tokens, nanoUsd }: Amounts, isRequest: boolean): void {
    if (isRequest) {
      this.#now.requests++
      this.#now.tokens += tokens
    }
    if (this.#isAsking || this.#isRefused) return
    const nodes = PART * this.deps.nodes()
    const more = this.#moreDollars(nodes, nanoUsd)
    const counted = this.#moreRates(nodes)
    if (more === 0 && counted.requests === 0 && counted.slots === 0) return
    this.#ask(more, counted)
  }

  /** Returns excess dollars. */
  #moreDollars(nodes: number, askedNanoUsd: number): number {
    if (this.claim.budget === null || askedNanoUsd === 0) return 0
    this.#askedNanoUsd = askedNanoUsd
    const part = Math.floor((this.#restNanoUsd + this.nanoUsd) / nodes)
    const wanted = part < LEAST_REQUESTS * askedNanoUsd ? 0 : part
    if (wanted > 2 * this.nanoUsd) return wanted - this.nanoUsd
    if (wanted < this.nanoUsd / 2) {
      const less = this.nanoUsd - wanted
      this.nanoUsd = wanted
      this.#less.nanoUsd += less
      this.#isChanged = true
    }
    return 0
  }

  #moreRates(nodes: number): { requests: number; tokens: number; slots: number } {
    const none = { requests: 0, tokens: 0, slots: 0 }
    const { rpm, tpm, concurrency } = this.claim.limits
    const { requests, tokens } = this.#before.requests > this.#now.requests ? this.#before : this.#now
    if (requests < LEAST_REQUESTS) return none
    const known = this.#known
    const of = (limit: number | null, used: number) =>
      limit === null ? Number.POSITIVE_INFINITY : Math.floor((limit - used) / nodes)
    const slots =
      this.slots === 0 ? Math.min(of(concurrency, known.slots), Math.max(LEAST_REQUESTS, this.used.slots)) : 0
    const more = { requests: 0, tokens: 0, slots: concurrency === null ? 0 : slots }
    if (concurrency !== null && this.slots === 0 && more.slots < 1) return none
    if (!this.#hasRates) return more
    const [partRequests, partTokens] = [of(rpm, known.requests), of(tpm, known.tokens)]
    const each = tokens / requests
    if (partRequests < LEAST_REQUESTS || partTokens < LEAST_REQUESTS * each) return none
    const free = { requests: 0, tokens: 0 }
    for (const credit of this.credits) {
      free.requests += credit.requests
      free.tokens += credit.tokens
    }
    if (free.requests >= requests && (tpm === null || free.tokens >= tokens)) return more
    more.requests = Math.min(2 * requests, partRequests)
    if (tpm !== null) {
      more.tokens = Math.min(Math.ceil(2 * tokens), partTokens)
      more.requests = Math.max(1, Math.min(more.requests, Math.ceil(more.tokens / Math.max(1, each))))
    }
    return more
  }

  #ask(nanoUsd: number, more: { requests: number; tokens: number; slots: number }): void {
    this.#isAsking = true
    this.#isUnwanted = false
    const { id, scope } = this
    const untilMs = this.deps.monotonicMs() + LIFE_MS
    const ask: Ask = {
      ...{ id, op: 'lease', scopes: [scope], ...more, aheadMs: LIFE_MS },
      ...{ heldNanoUsd: nanoUsd, likelyNanoUsd: nanoUsd },
    }
    this.deps.ask(ask, (decision) => {
      this.#isAsking = false
      // After an outage, `restore` has replaced the earlier lease.
      if (decision !== null && id === this.id) this.#decided(decision, nanoUsd, more, untilMs)
    })
  }

  #decided(
    { reply, nowMs, bornMs }: LeaseDecision,
    nanoUsd: number,
    { requests, tokens, slots }: { requests: number; tokens: number; slots: number },
    untilMs: number,
  ): void {
    this.note(reply, reply.used)
    if (!isGranted([reply])) {
      this.#isRefused = true
      return
    }
    this.slots += slots
    this.nanoUsd += nanoUsd
    if (requests > 0) this.credits.push({ atMs: nowMs + LIFE_MS, bornMs, untilMs, requests, tokens })
    if (this.isRetired || this.#isUnwanted) this.release()
  }

  /** Another lease has replaced this one; only running requests still use it. */
  retire(): void {
    this.isRetired = true
    this.release()
  }
}
