/** A request in a cluster. If leases don't cover the request, it asks the engine once, and reports its end. */
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { Limits } from '../../domain/limits.ts'
import type { BudgetRefusal, Cost, Counting } from '../budget.ts'
import { toHeld } from '../budget.ts'
import {
  type Ask,
  GIVES_BACK,
  isBudgetRefusal,
  type Limited,
  type Limiter,
  type LocalRequest,
  type LocalReservation,
  refuseOrCount,
  toLongerError,
  toWorst,
  type Used,
} from '../limiter.ts'
import { addRateHeaders, type Headers } from '../messages.ts'
import { hasLimits, type RateRefusal, type Unit } from '../rates.ts'
import { isGranted, type ScopeAsk, type ScopeReply, type Told, toAmount, toScope, type Want } from './engine.ts'
import type { Claim } from './lease.ts'
import type { Grant } from './leases.ts'
import type { Held, Shared } from './state.ts'

/** The node enforces its own share of the limits. */
export const OUTAGE_HEADER = 'x-tollgate-limits'

/** A key or team with limits, in the order of its scopes. */
interface Owner extends Claim {
  kind: 'key' | 'team'
  owner: Limited
}

const toOwner = (kind: Owner['kind'], owner: Limited): Owner => {
  const { id, limits, budget } = owner
  return { kind, owner, name: `${kind}:${id}`, limits, budget }
}

const NOTHING: Want = { requests: 0, slots: 0, heldNanoUsd: 0 }
const ONE = { requests: 1, slots: 1 } as const

export class SharedRequest implements LocalRequest, LocalReservation, Held {
  headers: Headers = {}
  readonly hasBudget: boolean
  readonly #owners: Owner[]
  /** Scopes at admission: the budgets' periods stay. */
  #scopes: readonly ScopeAsk[] = []
  #want = NOTHING
  /** Nano-dollars left in its budgets at the last reply. */
  #left = Number.POSITIVE_INFINITY
  /** Its part of this node's leases; null if the engine was asked. */
  #grant: Grant | null = null
  /** Admission in an outage. `isAll`: the engine doesn't know the request. */
  #alone: { local: Limiter; reservation: LocalReservation; isAll: boolean } | null = null
  #countings: Counting[] = []
  #settledNanoUsd: number | null = null
  /** True if the engine may know the request. */
  #isKnown = false
  #isOver = false
  #freeLocal = () => {}

  constructor(
    private readonly shared: Shared,
    readonly id: string,
    readonly key: Limited,
    readonly team: Limited | null,
  ) {
    const all = [toOwner('key', key)]
    if (team !== null) all.push(toOwner('team', team))
    this.#owners = all.filter(({ owner }) => hasLimits(owner.limits) || owner.budget !== null)
    this.hasBudget = this.#owners.some(({ owner }) => owner.budget !== null)
  }

  admit(ask: Ask): LocalReservation | Promise<Decision<LocalReservation>> {
    const grant = this.shared.take(this.#owners, ask.tokens, this.hasBudget ? ask.nanoUsd : 0)
    if (grant === null) return this.#ask(ask)
    this.#grant = grant
    this.#scopes = grant.scopes
    this.headers = grant.headers
    this.#want = { ...ONE, tokens: toAmount(ask.tokens), heldNanoUsd: toAmount(ask.nanoUsd) }
    this.shared.inFlight.add(this)
    this.#countings = ask.counting && this.hasBudget ? [ask.counting] : []
    return this
  }

  async #ask(ask: Ask): Promise<Decision<LocalReservation>> {
    const { tokens, counting } = ask
    const decided = await this.#take(tokens, toWorst(ask), counting)
    if (decided === null) return this.#admitAlone(ask)
    if (!isBudgetRefusal(decided)) return decided
    return refuseOrCount<Decision<LocalReservation>>(decided, ask, {
      headers: this.headers,
      isOver: () => this.#isOver,
      countOthers: () => this.#countOthers(),
      attempt: async (cost) => (await this.#take(tokens, cost)) ?? this.#toOutageError(),
    })
  }

  /** Null if the engine can't be reached. */
  async #take(tokens: number, cost: Cost, counting?: Counting): Promise<Decision<this> | BudgetRefusal | null> {
    const want = { ...ONE, tokens: toAmount(tokens), heldNanoUsd: toAmount(cost.mostNanoUsd) }
    const replies = await this.#askEngine('take', want, toAmount(cost.likelyNanoUsd))
    if (replies === null) return null
    this.#noteReplies(replies)
    if (isGranted(replies)) {
      if (!this.#isOver) this.#hold(want, counting)
      return this
    }
    return this.#toRateError(replies, tokens) ?? this.#toBudgetRefusal(replies, cost.likelyNanoUsd)
  }

  #hold(want: Want, counting: Counting | undefined): void {
    this.#want = want
    this.shared.holds.set(this.id, { scopes: this.#scopes, want })
    this.shared.inFlight.add(this)
    this.#countings = counting && this.hasBudget ? [counting] : []
  }

  async #askEngine(op: 'take' | 'raise', want: Want, likelyNanoUsd: number): Promise<ScopeReply[] | null> {
    const isAdmitted = this.#want !== NOTHING
    this.#isKnown ||= this.shared.outage === null
    const toScopes = (nowMs: number) => {
      if (isAdmitted) return [...this.#scopes]
      const scopes = this.#owners.map(({ name, limits, budget }) => toScope(name, limits, budget, nowMs))
      this.#scopes = scopes
      return scopes
    }
    const replies = await this.shared.ask(this.id, op, this.#owners, toScopes, want, likelyNanoUsd)
    // The end may have overtaken this ask, which then has created a new hold.
    if (this.#isOver) this.#tellEnd(true, null, 0)
    return replies
  }

  async #admitAlone(ask: Ask): Promise<Decision<LocalReservation>> {
    const local = this.shared.alone()
    if (local === null || this.#isOver) {
      this.#tellEnd(true, null, 0)
      return this.#toOutageError()
    }
    const decided = await this.#reserveAlone(local, ask, true)
    if (decided instanceof GatewayError) this.#tellEnd(true, null, 0)
    else this.#hold({ ...ONE, tokens: toAmount(ask.tokens), heldNanoUsd: toAmount(ask.nanoUsd) }, undefined)
    return decided
  }

  async #reserveAlone(local: Limiter, ask: Ask, isAll: boolean): Promise<Decision<this>> {
    const moment = { monotonicMs: this.shared.monotonicMs, wallMs: this.shared.wallMs }
    const { shared, team } = this
    if (ask.nanoUsd > 0 && !shared.hasLeases(this.#scopes)) return this.#toOutageError()
    const own = shared.toOwn('key', this.key, isAll)
    const entered = local.enter(this.id, own, team && shared.toOwn('team', team, isAll), moment.monotonicMs)
    if (entered instanceof GatewayError) return this.#said(entered)
    const reservation = await entered.admit(ask, moment)
    if (reservation instanceof GatewayError) {
      this.#left = entered.room(moment)
      void entered.refuse(reservation, moment.monotonicMs)
      return reservation.kind === 'insufficient_quota' ? this.#toOutageError() : this.#said(reservation)
    }
    this.#alone = { local, reservation, isAll }
    this.headers = { ...reservation.headers, [OUTAGE_HEADER]: 'share' }
    return this
  }

  #said(error: GatewayError): GatewayError {
    error.headers[OUTAGE_HEADER] = 'share'
    return error
  }

  #toOutageError(): GatewayError {
    const text = `Tollgate can't admit this request: ${this.shared.outageText()}. Try again in a few seconds.`
    return new GatewayError('overloaded', text)
  }

  /** Set only during the outage in which it was admitted or raised. After the outage, the engine knows the request. */
  #aloneNow() {
    if (this.#alone !== null && this.#alone.local !== this.shared.local) {
      this.#alone = null
      this.#isKnown = true
    }
    return this.#alone
  }

  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null> {
    if (this.#isOver) return null
    const { tokens, nanoUsd, counting } = ask
    if (nanoUsd <= this.#want.heldNanoUsd) {
      if (counting && this.#countings.length > 0) this.#countings.push(counting)
      this.#raiseTokens(tokens)
      return null
    }
    return this.hasBudget ? this.#raise(ask) : this.#raiseTokens(tokens)
  }

  #raiseTokens(tokens: number): null {
    if (tokens <= (this.#want.tokens ?? 0)) return null
    this.#setWant({ ...this.#want, tokens: toAmount(tokens) })
    if (this.#grant) this.#grant.setTokens(toAmount(tokens))
    else this.#tell({ op: 'hold', id: this.id, scopes: this.#scopes, ...this.#want })
    return null
  }

  async #raise(ask: Ask): Promise<GatewayError | null> {
    const decided = await this.#raiseTo(ask.tokens, toWorst(ask), ask.counting)
    if (decided === undefined) return this.#raiseAlone(ask)
    if (decided === null) return null
    return refuseOrCount<GatewayError | null>(decided, ask, {
      headers: this.headers,
      isOver: () => this.#isOver,
      countOthers: () => this.#countOthers(),
      attempt: async (cost) => {
        const again = await this.#raiseTo(ask.tokens, cost, ask.counting)
        return again === undefined ? this.#toOutageError() : again
      },
    })
  }

  /** Undefined if the engine can't be reached. */
  async #raiseTo(tokens: number, cost: Cost, counting?: Counting): Promise<BudgetRefusal | null | undefined> {
    if (this.#grant && this.shared.outage === null) {
      const heldNanoUsd = Math.max(toAmount(toHeld(cost)), this.#want.heldNanoUsd)
      if (this.#grant.setDollars(heldNanoUsd)) {
        this.#setWant({ ...this.#want, heldNanoUsd })
        this.#raiseTokens(tokens)
        this.#countings = counting ? [counting] : []
        return null
      }
      this.#leaveLease(this.#grant)
    }
    const want = {
      ...this.#want,
      tokens: Math.max(toAmount(tokens), this.#want.tokens ?? 0),
      heldNanoUsd: Math.max(toAmount(toHeld(cost)), this.#want.heldNanoUsd),
    }
    const replies = await this.#askEngine('raise', want, toAmount(cost.likelyNanoUsd))
    if (this.#isOver) return null
    if (replies === null) return undefined
    this.#noteReplies(replies)
    if (!isGranted(replies)) return this.#toBudgetRefusal(replies, cost.likelyNanoUsd)
    this.#setWant(want)
    this.#countings = counting ? [counting] : []
    return null
  }

  /** From now on, the engine holds its slot and dollars, like those of other requests. */
  #leaveLease(grant: Grant): void {
    const { requests: _, tokens: __, ...want } = this.#want
    grant.leave(() => {
      this.#isKnown = true
      this.shared.holds.set(this.id, { scopes: this.#scopes, want: this.#want })
      this.shared.queue.tell({ op: 'hold', id: this.id, scopes: this.#scopes, requests: 0, ...want })
    })
  }

  /** Raises from this node's leases. */
  async #raiseAlone(ask: Ask): Promise<GatewayError | null> {
    const alone = this.#aloneNow()
    const local = this.shared.alone()
    if (local === null || !this.shared.hasLeases(this.#scopes)) return this.#toOutageError()
    const more = ask.nanoUsd - this.#want.heldNanoUsd
    const refusal = alone
      ? await alone.reservation.raise({ ...ask, nanoUsd: alone.isAll ? ask.nanoUsd : ask.nanoUsd - more })
      : await this.#reserveAlone(local, { ...ask, tokens: 0, nanoUsd: more }, false)
    if (refusal instanceof GatewayError) return this.#toOutageError()
    this.#setWant({ ...this.#want, tokens: toAmount(ask.tokens), heldNanoUsd: toAmount(ask.nanoUsd) })
    return null
  }

  #setWant(want: Want): void {
    this.#want = want
    if (this.shared.holds.has(this.id)) this.shared.holds.set(this.id, { scopes: this.#scopes, want })
  }

  room(): number {
    return this.#want.heldNanoUsd + (this.#grant?.leftNanoUsd ?? this.#left)
  }

  releaseSlot(): void {
    if (this.#want.slots === 0 || !this.#owners.some(({ owner }) => owner.limits.concurrency !== null)) return
    // Deferred: most requests are settled at once.
    queueMicrotask(() => {
      if (this.#isOver) return
      this.#setWant({ ...this.#want, slots: 0 })
      this.#aloneNow()?.reservation.releaseSlot()
      this.#freeLocal()
      this.#grant?.releaseSlot()
      this.#tell({ op: 'free', id: this.id })
    })
  }

  settle({ tokens, nanoUsd }: Used): void {
    if (this.#isOver) return
    this.#settledNanoUsd = nanoUsd
    this.#end(false, tokens, nanoUsd)
  }

  cancel(): void {
    if (!this.#isOver) this.#end(true, null, 0)
  }

  correct(nanoUsd: number): void {
    const more = nanoUsd - (this.#settledNanoUsd ?? nanoUsd)
    this.#settledNanoUsd = nanoUsd
    if (more === 0) return
    for (const { name, budget } of this.#scopes)
      if (budget) this.shared.queue.tell({ op: 'spend', name, usage: budget.usage, nanoUsd: more })
  }

  async refuse(error: GatewayError): Promise<void> {
    // The request was part of the refused ask.
    if (GIVES_BACK.has(error.kind) || error.kind === 'request_limit') this.cancel()
    const hasRates = this.#owners.some(({ owner }) => owner.limits.rpm !== null || owner.limits.tpm !== null)
    const isCounted = this.#want !== NOTHING
    if (!this.#isOver && !isCounted && hasRates) {
      const replies = await this.#askEngine('take', { ...NOTHING, requests: 1 }, 0)
      if (replies) this.#noteReplies(replies)
    }
    if (!this.#isOver) this.#end(false, null, 0)
    Object.assign(error.headers, this.headers)
  }

  holdIn(local: Limiter): void {
    if (this.#want.slots === 0) return
    const limits = { keyId: this.key.id, teamId: this.team?.id ?? null, upstream: '' }
    const free = local.hold(limits, this.shared.monotonicMs)
    this.#freeLocal = () => {
      free()
      this.#freeLocal = () => {}
    }
  }

  /** Counts, and lowers its reservation. */
  async count(): Promise<void> {
    const countings = this.#countings
    if (countings.length === 0) return
    const costs = await Promise.all(countings.map((counting) => counting.count()))
    if (this.#isOver || this.#countings !== countings || countings.length !== costs.length) return
    this.#countings = []
    const held = Math.max(...costs.map((cost) => (cost === null ? Number.POSITIVE_INFINITY : toHeld(cost))))
    if (held >= this.#want.heldNanoUsd) return
    this.#setWant({ ...this.#want, heldNanoUsd: held })
    if (this.#grant?.setDollars(held)) return
    this.shared.queue.tell({ op: 'lower', id: this.id, heldNanoUsd: held })
  }

  /** Counts other requests of this node. */
  async #countOthers(): Promise<void> {
    const counted: Promise<void>[] = []
    for (const one of this.shared.inFlight) {
      if (!(one instanceof SharedRequest)) continue
      const { key, team } = one
      if (key.id === this.key.id || (team !== null && team.id === this.team?.id)) counted.push(one.count())
    }
    await Promise.all(counted)
  }

  #end(isCanceled: boolean, tokens: number | null, nanoUsd: number): void {
    this.#isOver = true
    const alone = this.#aloneNow()
    if (isCanceled) alone?.reservation.cancel()
    else alone?.reservation.settle({ tokens, nanoUsd })
    this.#freeLocal()
    this.#grant?.end(isCanceled, tokens, nanoUsd)
    if (alone?.isAll) {
      this.shared.spendAlone(this.#scopes, nanoUsd)
      this.#tellEnd(true, null, 0)
    } else this.#tellEnd(isCanceled, tokens, nanoUsd)
    this.shared.holds.delete(this.id)
    this.shared.inFlight.delete(this)
  }

  #tellEnd(isCanceled: boolean, tokens: number | null, nanoUsd: number): void {
    this.#tell({ op: 'end', id: this.id, isCanceled, ...(tokens !== null && { tokens }), nanoUsd })
  }

  /** Reports to the engine if it may know the request. After an outage, it knows the requests in flight. */
  #tell(told: Told): void {
    this.#aloneNow()
    if (this.#isKnown) this.shared.queue.tell(told)
  }

  #noteReplies(replies: readonly ScopeReply[]): void {
    const headers: Record<string, string> = {}
    this.#left = Number.POSITIVE_INFINITY
    for (const [at, { owner }] of this.#owners.entries()) {
      const reply = replies[at]
      if (reply === undefined) continue
      addRateHeaders(headers, owner.limits, { window: toWindow(reply) }, 0)
      const { spentNanoUsd, reservedNanoUsd } = reply
      if (owner.budget) this.#left = Math.min(this.#left, owner.budget.nanoUsd - spentNanoUsd - reservedNanoUsd)
    }
    this.headers = headers
  }

  #toRateError(replies: readonly ScopeReply[], tokens: number): GatewayError | null {
    const by = (kind: Owner['kind']): RateRefusal | null => {
      const at = this.#owners.findIndex((one) => one.kind === kind)
      const [reply, owner] = [replies[at], this.#owners[at]?.owner]
      return reply && owner ? toRateRefusal(reply, owner.limits, tokens) : null
    }
    return toLongerError(this.key, this.team, by('key'), by('team'), () => this.headers)
  }

  #toBudgetRefusal(replies: readonly ScopeReply[], likelyNanoUsd: number): BudgetRefusal {
    const at = replies.findIndex(({ budget }) => budget === 'full')
    const [reply, of, scope] = [replies[at], this.#owners[at], this.#scopes[at]]
    if (!reply || !of?.owner.budget || !scope?.budget) throw new Error('the engine refused without a reason')
    const { spentNanoUsd, reservedNanoUsd } = reply
    const { untilMs } = scope.budget
    return {
      ...{ kind: of.kind, name: of.owner.name, budget: of.owner.budget, spentNanoUsd, reservedNanoUsd },
      askedNanoUsd: Math.max(0, likelyNanoUsd - this.#want.heldNanoUsd),
      resetMs: untilMs === Number.MAX_SAFE_INTEGER ? null : untilMs,
    }
  }
}

const toWindow = (reply: ScopeReply) => ({
  used: (unit: Unit) => reply[unit],
  emptyMs: (unit: Unit) => (unit === 'requests' ? reply.requestsEmptyMs : reply.tokensEmptyMs),
})

export function toRateRefusal(reply: ScopeReply, limits: Limits, tokens: number): RateRefusal | null {
  const { refusal, used, retryAfterMs } = reply
  if (refusal === 'none') return null
  return { on: refusal, limit: limits[refusal] ?? 0, used, requested: refusal === 'tpm' ? tokens : 1, retryAfterMs }
}
