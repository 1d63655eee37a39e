/**
 * Lends parts of a process's limits to its workers, so that they admit most requests without asking. The workers' side
 * is `shared/leases.ts`. Lent amounts count as used.
 *
 * A worker reports its spend ten times per second. If a worker is killed, its unreported spend is the costs in its
 * journal less all reports.
 */
import { timeOfId } from '../domain/id.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { BudgetCharge, Budgets, Ended } from './budget.ts'
import type { Grain, RateLimiter, RateLimiters, Window } from './rates.ts'
import {
  type Ask,
  type ScopeAsk,
  type ScopeFigures,
  type ScopeName,
  type ScopeReply,
  type Told,
  toUsage,
} from './shared/engine.ts'
import { PART } from './shared/lease.ts'

export interface Limiters {
  key: RateLimiters
  team: RateLimiters
  upstream: RateLimiters
}

export interface Borrower {
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** Wall clock, ms. */
  now(): number
  /** Makes the worker return unused amounts. */
  recall(name: ScopeName): Promise<unknown>
}

interface Deps extends Borrower {
  limiters: Limiters
  budgets: Budgets
  lenders: Set<Lender>
}

/** A worker's spend of a budget in one period. */
export interface Account extends BudgetCharge {
  /** Costs in its journal less reported spend; negative until the journal is read. */
  untoldNanoUsd: number
}

interface Lease {
  name: ScopeName
  slots: number
  heldNanoUsd: number
  /** The part of `heldNanoUsd` that no request uses, by the last report. */
  freeNanoUsd: number
  account: Account | null
}

/** Lends to one worker. */
export class Lender {
  readonly #deps: Deps
  readonly #leases = new Map<string, Lease>()
  readonly #grains = new Map<string, { window: Window; grain: Grain }>()
  /** When the last lent requests and tokens lapse, by scope, earliest first. */
  readonly #lapses = new Map<ScopeName, number>()
  readonly #accounts = new Map<ScopeName, Account[]>()
  /** Requests seen since the worker may have ended: from then on, its journal may be read twice. */
  #seen: Set<string> | null = null

  constructor(deps: Deps) {
    this.#deps = deps
    deps.lenders.add(this)
  }

  /** For a key or team whose budget a request of this worker has used; null without a budget. */
  accountOf(kind: Spender['kind'], id: string): Account | null {
    const charge = this.#deps.budgets.chargeOf({ kind, id }, this.#deps.now())
    if (charge === undefined) return null
    const name = `${kind}:${id}`
    const accounts = this.#accounts.get(name) ?? []
    const known = accounts.find(({ usage }) => usage === charge.usage)
    if (known) return known
    const account = { ...charge, untoldNanoUsd: 0 }
    // A worker's requests may still be in the previous period.
    this.#accounts.set(name, [...accounts.slice(-1), account])
    return account
  }

  figures(name: ScopeName): ScopeFigures {
    const { limiters, budgets, now } = this.#deps
    const nowMs = this.#deps.monotonicMs()
    const { kind, id } = toOwner(name)
    const { window } = limiters[kind].of(id, nowMs)
    const usage = kind === 'upstream' ? undefined : budgets.chargeOf({ kind, id }, now())?.usage
    return {
      ...{ requests: window.used('requests', nowMs), tokens: window.used('tokens', nowMs) },
      ...{ spentNanoUsd: usage?.spentNanoUsd ?? 0, reservedNanoUsd: usage?.reservedNanoUsd ?? 0 },
    }
  }

  /** Lends everything or nothing. */
  lease({ id, scopes, ...want }: Ask, nowMs: number): ScopeReply {
    const [scope] = scopes
    if (scope === undefined) throw new Error('a lease is of one scope')
    const rates = this.#ratesOf(scope.name, nowMs)
    const lease = this.#leases.get(id) ?? this.#toLease(scope)
    const refusal = toRefusal(rates, scope, want, nowMs)
    const budget = this.#refuses(lease, scope, want.heldNanoUsd) ? 'full' : 'fits'
    if (refusal === 'none' && budget === 'fits') this.#lend(id, lease, rates, want, nowMs)
    const empty = { retryAfterMs: null, requestsEmptyMs: 0, tokensEmptyMs: 0 }
    return { refusal, budget, used: rates.inFlight, ...empty, ...this.figures(scope.name) }
  }

  #lend(
    id: string,
    lease: Lease,
    rates: RateLimiter,
    { requests, tokens = 0, slots, heldNanoUsd, aheadMs = 0 }: Omit<Ask, 'id' | 'scopes'>,
    nowMs: number,
  ): void {
    if (slots > 0 || heldNanoUsd > 0) this.#leases.set(id, lease)
    rates.inFlight += slots
    lease.slots += slots
    this.#hold(lease, lease.heldNanoUsd + heldNanoUsd, lease.freeNanoUsd + heldNanoUsd)
    if (requests === 0) return
    for (const [name, atMs] of this.#lapses) {
      if (atMs > nowMs) break
      this.#lapses.delete(name)
    }
    this.#lapses.delete(lease.name)
    this.#lapses.set(lease.name, nowMs + aheadMs)
    const { window } = rates
    for (const [place, { grain }] of this.#grains) {
      if (!grain.gone) break
      this.#grains.delete(place)
    }
    this.#grains.set(`${lease.name} ${nowMs + aheadMs}`, {
      window,
      grain: window.add(requests, tokens, nowMs, aheadMs),
    })
  }

  #toLease({ name, budget }: ScopeAsk): Lease {
    const { kind, id } = toOwner(name)
    const account = budget === undefined || kind === 'upstream' ? null : this.accountOf(kind, id)
    return { name, slots: 0, heldNanoUsd: 0, freeNanoUsd: 0, account }
  }

  /** Also true once another period has begun, by the clock of either process. */
  #refuses({ account, name }: Lease, { budget }: ScopeAsk, heldNanoUsd: number): boolean {
    if (budget === undefined || heldNanoUsd === 0) return false
    const { kind, id } = toOwner(name)
    const charge = kind === 'upstream' ? undefined : this.#deps.budgets.chargeOf({ kind, id }, this.#deps.now())
    if (charge === undefined || charge.usage !== account?.usage || charge.usage.startMs !== budget.fromMs) return true
    const { spentNanoUsd, reservedNanoUsd } = charge.usage
    return spentNanoUsd + reservedNanoUsd + heldNanoUsd > charge.state.budget.nanoUsd
  }

  told(told: readonly Told[]): void {
    for (const one of told) {
      if (one.op === 'draw') this.#draw(one)
      if (one.op === 'spend') this.#spendUnheld(one)
      if (one.op !== 'return') continue
      const { window, grain } = this.#grains.get(`${one.name} ${one.atMs}`) ?? {}
      if (window && grain) window.correct(grain, -one.requests, -one.tokens)
    }
  }

  #draw({ id, slots, heldNanoUsd, nanoUsd, usedNanoUsd }: Extract<Told, { op: 'draw' }>): void {
    const lease = this.#leases.get(id)
    if (lease === undefined) return
    const rest = lease.heldNanoUsd - heldNanoUsd
    this.#free(lease, slots)
    this.#hold(lease, rest, Math.max(0, rest - usedNanoUsd))
    if (lease.account) this.#spend(lease.account, nanoUsd)
    if (lease.slots === 0 && lease.heldNanoUsd === 0 && usedNanoUsd === 0) this.#leases.delete(id)
  }

  #free(lease: Lease, slots: number): void {
    if (slots !== 0) this.#ratesOf(lease.name, this.#deps.monotonicMs()).inFlight -= slots
    lease.slots -= slots
  }

  #hold(lease: Lease, heldNanoUsd: number, freeNanoUsd: number): void {
    if (lease.account) {
      lease.account.usage.lentNanoUsd += freeNanoUsd - lease.freeNanoUsd
      this.#deps.budgets.add(lease.account, 0, heldNanoUsd - lease.heldNanoUsd)
    }
    lease.heldNanoUsd = heldNanoUsd
    lease.freeNanoUsd = freeNanoUsd
  }

  #spendUnheld({ name, usage, nanoUsd }: Extract<Told, { op: 'spend' }>): void {
    const { kind, id } = toOwner(name)
    if (kind !== 'upstream') this.accountOf(kind, id)
    const of = (account: Account) => toUsage(account.state.budget, account.usage.startMs) === usage
    const account = this.#accounts.get(name)?.findLast(of)
    if (account) this.#spend(account, nanoUsd)
  }

  #spend(account: Account, nanoUsd: number): void {
    this.#deps.budgets.add(account, nanoUsd, 0)
    account.untoldNanoUsd -= nanoUsd
  }

  /** For a request in this worker's journal. Call before `Budgets.ended`. */
  ended({ id, keyId, teamId, costNanoUsd }: Ended): void {
    if (this.#seen?.has(id)) return
    this.#seen?.add(id)
    const createdMs = timeOfId(id)
    for (const name of [`key:${keyId}`, `team:${teamId}`])
      for (const account of this.#accounts.get(name) ?? []) {
        const { startMs, endMs, inFlight } = account.usage
        const isIn = createdMs >= startMs && (endMs === null || createdMs < endMs)
        // `inFlight` counts requests from before the budget was known.
        if (isIn && !inFlight.has(id)) account.untoldNanoUsd += costNanoUsd
      }
  }

  /** True if the worker has part of this limit. */
  has(name: ScopeName): boolean {
    for (const lease of this.#leases.values())
      if (lease.name === name && (lease.slots > 0 || lease.heldNanoUsd > 0)) return true
    return (this.#lapses.get(name) ?? 0) > this.#deps.monotonicMs()
  }

  recall(name: ScopeName): Promise<unknown> {
    return this.#deps.recall(name)
  }

  mayHaveEnded(): void {
    this.#seen = new Set()
  }

  /** Call once all requests of the worker have ended. */
  end(): void {
    for (const lease of this.#leases.values()) {
      this.#free(lease, lease.slots)
      this.#hold(lease, 0, 0)
    }
    for (const account of [...this.#accounts.values()].flat()) this.#spend(account, account.untoldNanoUsd)
    this.#leases.clear()
    this.#accounts.clear()
    this.#deps.lenders.delete(this)
  }

  #ratesOf(name: ScopeName, nowMs: number): RateLimiter {
    const { kind, id } = toOwner(name)
    return this.#deps.limiters[kind].of(id, nowMs)
  }
}

function toOwner(name: ScopeName): { kind: keyof Limiters; id: string } {
  const at = name.indexOf(':')
  return { kind: name.slice(0, at) as keyof Limiters, id: name.slice(at + 1) }
}

function toRefusal(
  { window, inFlight }: RateLimiter,
  { rpm, tpm, concurrency }: ScopeAsk,
  { requests, tokens = 0, slots }: Pick<Ask, 'requests' | 'tokens' | 'slots'>,
  nowMs: number,
): ScopeReply['refusal'] {
  const isOver = (limit: number | undefined, used: number, more: number) =>
    limit !== undefined && more > 0 && used + more > limit
  if (isOver(concurrency && Math.floor((concurrency - inFlight) / PART), 0, slots)) return 'concurrency'
  if (isOver(rpm, window.used('requests', nowMs), requests)) return 'rpm'
  return isOver(tpm, window.used('tokens', nowMs), tokens) ? 'tpm' : 'none'
}
