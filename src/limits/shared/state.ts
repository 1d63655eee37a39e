/** State shared by all requests of a node in a cluster: the engine, requests in flight, and limits in an outage. */
import { UpstreamError } from '../../domain/error.ts'
import { BUDGET_WARNING_PERCENT, type Limits, mapLimits, NO_LIMITS } from '../../domain/limits.ts'
import type { Spender } from '../../domain/snapshot.ts'
import type { BudgetWarning } from '../budget.ts'
import { createLimiter, type Limited, type Limiter, type PastRequest } from '../limiter.ts'
import {
  type Ask,
  type BudgetAsk,
  type LimitEngine,
  type ScopeAsk,
  type ScopeReply,
  type Told,
  toAmount,
  toUsage,
  type Want,
} from './engine.ts'
import type { Claim } from './lease.ts'
import { type Grant, Leases } from './leases.ts'
import { ENGINE_TIMES, EngineQueue, type EngineTimes } from './queue.ts'

/** Behavior of a node while the engine can't be reached. */
export type OnOutage = 'share' | 'refuse'

export interface SharedLimiterDeps {
  engine: LimitEngine
  /** ID of this run of the node. */
  epoch: string
  onOutage: OnOutage
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** Wall clock, ms. Used until the engine's clock is known. */
  now(): number
  /** Settled spend of all nodes, from `fromMs` to before `untilMs`. Rejects if the ledger can't be read. */
  spent(spender: Spender, span: { fromMs: number; untilMs: number }): Promise<number>
  /** Resolves once the ledger has all records that this node has made so far. */
  shipped(): Promise<unknown>
  /** Requests of this node in the last minute, oldest first. */
  recent(): PastRequest[]
  /** Nodes of the cluster, for a node that has never reached the engine; null if unknown. */
  nodes(): number | null
  onWarning(warning: BudgetWarning): void
  /** The engine rejected the content of a message. */
  onRefused(what: Ask | Told, why: string): void
  /** @param reason why the engine can't be reached; null once it is reachable again. */
  onOutageChange(reason: string | null): void
  times?: EngineTimes
}

/** A request or call, as reported when the state is restored. */
export interface Hold {
  scopes: readonly ScopeAsk[]
  want: Want
}

/** Figures of the engine's last reply. */
interface Figures {
  spender: Spender
  name: string
  budget: NonNullable<Limited['budget']>
  /** Null before the first reply. */
  spentNanoUsd: number | null
  reservedNanoUsd: number
}

/** A request or call in flight. */
export interface Held {
  /** Takes its slots in the local limits when an outage begins. */
  holdIn(local: Limiter): void
}

const MAX_ATTEMPTS = 5
/** How often, and how long, the ledger is read while the engine waits for nodes' records. */
const READ_AGAIN_MS = 50
const MAX_READING_MS = 3_000

const spenderOf = (name: string): Spender | null => {
  const [, kind, id = ''] = /^(key|team):(.*)$/.exec(name) ?? []
  return kind === 'key' || kind === 'team' ? { kind, id } : null
}

export class Shared {
  readonly queue: EngineQueue
  readonly leases: Leases
  /** Requests and calls in flight on this node, by ID. */
  readonly holds = new Map<string, Hold>()
  readonly inFlight = new Set<Held>()
  readonly figures = new Map<string, Figures>()
  /** This node's own limits, while the engine can't be reached. */
  local: Limiter | null = null
  outage: string | null = null
  #sinceMs = 0
  readonly #reading = new Map<string, Promise<number>>()
  /** Spend of requests that started and ended in an outage, by scope and usage. */
  readonly #spent = new Map<string, Extract<Told, { op: 'spend' }>>()
  /** Pending while the ledger may lack spend from before the engine lost its state. */
  #behind: Promise<void> | null = null
  /** Budgets whose leases may have been spent in an outage. */
  readonly #usedAlone = new Set<string>()
  readonly #deps: SharedLimiterDeps

  constructor(deps: SharedLimiterDeps) {
    this.#deps = deps
    const { engine, epoch, monotonicMs, times } = deps
    this.queue = new EngineQueue({
      ...{ engine, epoch, monotonicMs, ...(times && { times }) },
      restore: (isLost) => this.#restore(isLost),
      isBehind: () => this.#behind !== null,
      onChange: (reason) => this.#changed(reason),
      onRefused: deps.onRefused,
      onWarning: ({ name, spentNanoUsd, nanoUsd }) => {
        const known = this.figures.get(name)
        if (known === undefined) return
        const { spender, name: label } = known
        const budget = { ...known.budget, nanoUsd }
        const percent = spentNanoUsd >= nanoUsd ? 100 : BUDGET_WARNING_PERCENT
        deps.onWarning({ spender, name: label, spentNanoUsd, budget, percent })
      },
    })
    this.leases = new Leases({
      ask: (ask, decided) =>
        void this.queue.ask(ask).then((replies) => {
          const [reply] = replies ?? []
          decided(reply === undefined ? null : { reply, ...this.queue.last })
        }),
      tell: (...told) => this.queue.tell(...told),
      nodes: () => this.#nodes() ?? 1,
      onFigures: (name, spentNanoUsd, reservedNanoUsd) =>
        void Object.assign(this.figures.get(name) ?? {}, { spentNanoUsd, reservedNanoUsd }),
      monotonicMs,
    })
  }

  get monotonicMs(): number {
    return this.#deps.monotonicMs()
  }

  get wallMs(): number {
    return this.queue.nowMs(this.#deps.now())
  }

  /**
   * Null if the engine can't be reached, or the spend can't be read.
   * @param toScopes returns scopes for the engine's time, which decides the current period.
   */
  async ask(
    id: string,
    op: 'take' | 'raise',
    claims: readonly Claim[],
    toScopes: (nowMs: number) => ScopeAsk[],
    want: Want,
    likelyNanoUsd: number,
  ): Promise<ScopeReply[] | null> {
    const spent = new Map<string, number>()
    const lastMs = this.monotonicMs + MAX_READING_MS
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const scopes = toScopes(this.wallMs).map((scope) => {
        const known = scope.budget && spent.get(scope.name + scope.budget.usage)
        return known === undefined ? scope : { ...scope, budget: { ...scope.budget, spentNanoUsd: known } as BudgetAsk }
      })
      const replies = await this.queue.ask({ id, op, scopes, ...want, likelyNanoUsd })
      if (replies === null) return null
      const unknown = scopes.filter((_, at) => replies[at]?.budget === 'unknown')
      if (unknown.length === 0 && !replies.some(({ budget }) => budget === 'over')) {
        const isFull = ({ refusal, budget }: ScopeReply) =>
          budget === 'full' || (refusal !== 'none' && want.requests > 0)
        const released = scopes.filter(({ name }, at) => {
          const reply = replies[at]
          return reply !== undefined && isFull(reply) && this.leases.release(name)
        })
        if (released.length === 0 || attempt === MAX_ATTEMPTS - 1) {
          this.#note(op === 'take', claims, scopes, replies, want, likelyNanoUsd)
          return replies
        }
      }
      if (unknown.some(({ budget }) => budget?.spentNanoUsd !== undefined)) {
        if (this.monotonicMs > lastMs) return null
        await Bun.sleep(READ_AGAIN_MS)
        attempt--
      }
      try {
        for (const { name, budget } of unknown) {
          const spender = spenderOf(name)
          if (budget && spender) spent.set(name + budget.usage, await this.#read(name + budget.usage, spender, budget))
        }
      } catch {
        return null
      }
    }
    return null
  }

  /** Reads once for all waiting requests. */
  #read(place: string, spender: Spender, span: { fromMs: number; untilMs: number }): Promise<number> {
    const known = this.#reading.get(place)
    if (known !== undefined) return known
    const reading = this.#deps.spent(spender, span).finally(() => this.#reading.delete(place))
    this.#reading.set(place, reading)
    return reading
  }

  /** For a request that can't ask the engine: this node's own limits, or null if the request must be rejected. */
  alone(): Limiter | null {
    return this.#nodes() === null ? null : this.local
  }

  toShare = (limits: Limits): Limits => {
    const nodes = this.#nodes() ?? Number.POSITIVE_INFINITY
    return mapLimits((name) => (limits[name] === null ? null : toPart(limits[name] ?? 0, nodes)))
  }

  #nodes(): number | null {
    return this.queue.nodes ?? this.#deps.nodes()
  }

  /** Takes from this node's leases; null if the engine must be asked. */
  take(claims: readonly Claim[], tokens: number, nanoUsd: number): Grant | null {
    if (this.queue.trouble !== null) return null
    return this.leases.take(
      claims,
      { tokens: toAmount(tokens), nanoUsd: toAmount(nanoUsd) },
      this.monotonicMs,
      this.wallMs,
    )
  }

  /** Limits reduced to this node's share and its budget leases. */
  toOwn(kind: Spender['kind'], owner: Limited, hasRates: boolean): Limited {
    const { budget } = owner
    const limits = hasRates ? this.toShare(owner.limits) : NO_LIMITS
    if (budget === null) return { ...owner, limits }
    const name = `${kind}:${owner.id}`
    this.#usedAlone.add(name)
    return { ...owner, limits, budget: { ...budget, nanoUsd: this.leases.of(name, toUsage(budget, this.wallMs)) } }
  }

  /** True if all budgets have leases, and the outage is too short for the engine to have freed them. */
  hasLeases(scopes: readonly ScopeAsk[]): boolean {
    const budgets = scopes.flatMap(({ name, budget }) => (budget ? { name, usage: budget.usage } : []))
    if (budgets.length === 0) return true
    const isLong = this.monotonicMs - this.#sinceMs > (this.#deps.times ?? ENGINE_TIMES).sliceMs
    return !isLong && budgets.every(({ name, usage }) => this.leases.of(name, usage) > 0)
  }

  toUpstreamError(upstream: string): UpstreamError {
    const why = `can't enforce the limits of upstream \`${upstream}\`: ${this.outageText()}`
    return new UpstreamError('status', why, { status: 429, isOwnLimit: true, retryable: true })
  }

  outageText(): string {
    return this.outage === null
      ? `${this.#deps.engine.name} is too slow, or this node can't read what its budgets have spent from PostgreSQL`
      : `this node can't reach ${this.#deps.engine.name}, which has the limits of all nodes`
  }

  /** For a request that is unknown to the engine. */
  spendAlone(scopes: readonly ScopeAsk[], nanoUsd: number): void {
    for (const { name, budget } of scopes) {
      if (budget === undefined) continue
      const key = name + budget.usage
      const before = this.#spent.get(key)?.nanoUsd ?? 0
      this.#spent.set(key, { op: 'spend', name, usage: budget.usage, nanoUsd: before + nanoUsd })
    }
  }

  #note(
    isRequest: boolean,
    claims: readonly Claim[],
    scopes: readonly ScopeAsk[],
    replies: readonly ScopeReply[],
    { tokens = 0, heldNanoUsd }: Want,
    likelyNanoUsd: number,
  ): void {
    const amounts = { tokens, nanoUsd: Math.max(likelyNanoUsd, heldNanoUsd) }
    for (const [at, scope] of scopes.entries()) {
      const reply = replies[at]
      if (reply === undefined) continue
      const { spentNanoUsd, reservedNanoUsd } = reply
      if (scope.budget) Object.assign(this.figures.get(scope.name) ?? {}, { spentNanoUsd, reservedNanoUsd })
      const claim = claims[at]
      if (claim) this.leases.decided(claim, scope, reply, amounts, isRequest, this.wallMs)
    }
  }

  #changed(reason: string | null): void {
    this.outage = reason
    this.leases.setApart(reason !== null)
    if (reason === null) this.local = null
    else this.#sinceMs = this.monotonicMs
    if (reason !== null && this.#deps.onOutage === 'share') this.local = this.#openLocal()
    this.#deps.onOutageChange(reason)
  }

  #openLocal(): Limiter {
    const local = createLimiter()
    const { monotonicMs } = this
    local.replay(this.#deps.recent(), monotonicMs)
    for (const one of this.inFlight) one.holdIn(local)
    return local
  }

  #restore(isLost: boolean): Told[] {
    if (isLost) this.#catchUp()
    const told: Told[] = []
    if (isLost || this.outage !== null) told.push(...this.#rates(isLost))
    for (const [id, { scopes, want }] of this.holds) {
      // Tokens are counted with the rates.
      const { tokens: _, ...held } = want
      told.push({ op: 'hold', id, scopes, ...held, requests: 0 })
    }
    // Another outage must not spend these leases again.
    for (const name of this.#usedAlone) this.leases.forget(name)
    told.push(...this.leases.restore(), ...this.#spent.values())
    this.#spent.clear()
    this.#usedAlone.clear()
    return told
  }

  #catchUp(): void {
    const { youngMs } = this.#deps.times ?? ENGINE_TIMES
    // Requests that have just ended may not be in the outbox yet.
    const behind = Bun.sleep(youngMs / 2)
      .then(() => this.#deps.shipped())
      .catch(() => {})
      .then(() => {
        if (this.#behind === behind) this.#behind = null
      })
    this.#behind = behind
  }

  /** Requests of the outage, or of the last minute if the engine lost its state. */
  #rates(isLost: boolean): Told[] {
    const sums = new Map<string, Extract<Told, { op: 'rate' }>>()
    const outageMs = this.monotonicMs - this.#sinceMs
    for (const { keyId, teamId, upstream, tokens, agoMs } of this.#deps.recent()) {
      if (!isLost && agoMs > outageMs) continue
      const names = [keyId && `key:${keyId}`, teamId && `team:${teamId}`, upstream && `upstream:${upstream}`]
      for (const name of names) {
        if (!name) continue
        const second = `${name} ${Math.floor(agoMs / 1000)}`
        const sum = sums.get(second)
        if (sum === undefined) sums.set(second, { op: 'rate', name, requests: 1, tokens, agoMs })
        else Object.assign(sum, { requests: sum.requests + 1, tokens: sum.tokens + tokens })
      }
    }
    return [...sums.values()]
  }
}

/** At least 1, so that small limits don't stop all nodes. */
const toPart = (limit: number, nodes: number) => Math.min(limit, Math.max(1, Math.floor(limit / nodes)))
