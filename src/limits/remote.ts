/**
 * Limits of several processes, worker side. Only the keeper has the figures. A worker asks the keeper unless its leases
 * cover the request (`shared/leases.ts`, `lending.ts`).
 */
import { type Decision, type ErrorKind, GatewayError, UpstreamError } from '../domain/error.ts'
import { type Limits, NO_LIMITS } from '../domain/limits.ts'
import { type Link, LinkLost } from '../domain/link.ts'
import { type AskSuccessor, type Cost, type Counting, toHeld } from './budget.ts'
import {
  type Amount,
  type Ask,
  type EnteredRequest,
  GIVES_BACK,
  isLimited,
  type Limited,
  type LimitedUpstream,
  type Permit,
  type RequestLimiter,
  type Reservation,
  raiseThere,
  UNLIMITED_PERMIT,
  UNLIMITED_REQUEST,
  type Used,
} from './limiter.ts'
import { type Headers, toBudgetError } from './messages.ts'
import { hasLimits } from './rates.ts'
import {
  ADMIT,
  type Asked,
  COUNT,
  ENTER,
  type Entering,
  LEASE,
  LEAVE,
  PERMIT,
  RAISE,
  RAISE_TOKENS,
  RECALL,
  REFUSE,
  RELEASE,
  SETTLE,
  TOLD,
  toError,
} from './remote-topics.ts'
import { type ScopeFigures, toAmount, toScope } from './shared/engine.ts'
import type { Claim } from './shared/lease.ts'
import { type Grant, Leases } from './shared/leases.ts'

export interface RemoteLimiter extends RequestLimiter {
  /** Call when the keeper has ended. Before a request may cost more, another server is asked. */
  askSuccessor(ask: AskSuccessor): void
}

export interface RemoteLimiterDeps {
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** Wall clock, ms. */
  now(): number
  /** Number of workers that share the keeper's limits. */
  workers: number
  /** How long a request waits for a keeper that doesn't respond. */
  patienceMs?: number
}

/** State shared by all requests of this worker. */
class Shared {
  /** Requests whose prompts the keeper may want counted. */
  readonly counted = new Map<number, RemoteRequest>()
  /** Requests admitted by leases. */
  readonly leased = new Set<RemoteRequest>()
  readonly #leases: Leases
  lastRequest = 0
  successor: AskSuccessor | null = null

  constructor(
    readonly link: Link,
    readonly patienceMs: number,
    private readonly clock: Pick<RemoteLimiterDeps, 'monotonicMs' | 'now' | 'workers'>,
  ) {
    this.#leases = new Leases({
      // Without a timeout: even a late lease must be returned.
      ask: (ask, decided) => void link.ask(LEASE, ask).then(decided, () => decided(null)),
      tell: (...told) => link.tell(TOLD, told),
      nodes: () => clock.workers,
      monotonicMs: clock.monotonicMs,
      onFigures() {},
    })
    link.on(COUNT, ({ request, number }) => this.counted.get(request)?.count(number) ?? null)
    link.on(RECALL, async (name) => {
      const counted = [...this.leased].filter(({ claims }) => claims.some((claim) => claim.name === name))
      await Promise.all(counted.map((request) => request.countLeased()))
      this.#leases.release(name)
      return null
    })
    void link.ended.then(() => this.#leases.setApart(true))
  }

  covers(claims: readonly Claim[]): boolean {
    const { monotonicMs, now } = this.clock
    return this.#leases.covering(claims, { tokens: 0, nanoUsd: 0 }, monotonicMs(), now()) !== null
  }

  take(claims: readonly Claim[], { tokens, nanoUsd }: Amount): Grant | null {
    const { monotonicMs, now } = this.clock
    return this.#leases.take(claims, toAmounts(tokens, nanoUsd), monotonicMs(), now())
  }

  /** Handles the keeper's reply for each claim. Must run before the next reply is handled: leases need the order. */
  decided(claims: readonly Claim[], figures: readonly ScopeFigures[], { tokens, nanoUsd }: Amount, isNew: boolean) {
    const nowMs = this.clock.now()
    for (const [at, claim] of claims.entries()) {
      const reply = figures[at]
      if (reply === undefined) continue
      const { name, limits, budget } = claim
      const scope = toScope(name, limits, budget, nowMs)
      this.#leases.decided(claim, scope, reply, toAmounts(tokens, nanoUsd), isNew, nowMs)
    }
  }
}

const toAmounts = (tokens: number, nanoUsd: number) => ({ tokens: toAmount(tokens), nanoUsd: toAmount(nanoUsd) })

const claims = new WeakMap<object, Claim>()

/** Cached per version of a key, team, or upstream. */
function claimOf(kind: string, owner: LimitedUpstream & { budget?: Limited['budget'] }): Claim {
  const known = claims.get(owner)
  if (known) return known
  const claim = { name: `${kind}:${owner.id}`, limits: owner.limits, budget: owner.budget ?? null }
  claims.set(owner, claim)
  return claim
}

/** In the order of `namesOf`. */
const claimsOf = (key: Limited, team: Limited | null): Claim[] => [
  ...(isLimited(key, null) ? [claimOf('key', key)] : []),
  ...(team !== null && isLimited(team, null) ? [claimOf('team', team)] : []),
]

/** The keeper's last refusal for an upstream. Valid for a moment only, because calls of other workers end. */
interface FullUpstream {
  readonly limits: Limits
  readonly tokens: number
  readonly untilMs: number
}

const FULL_MS = 200

/** Longer than counts of prompts take. */
const PATIENCE_MS = 10_000
/** How long a rejection waits for its headers. After that, it is sent without. */
const HEADERS_MS = 1_000

/**
 * Requests without limits need no keeper. If the keeper has ended or doesn't respond, new requests with limits are
 * rejected, and admitted ones continue.
 */
export function createRemoteLimiter(
  link: Link,
  { patienceMs = PATIENCE_MS, ...clock }: RemoteLimiterDeps,
): RemoteLimiter {
  const { monotonicMs } = clock
  const shared = new Shared(link, patienceMs, clock)
  const full = new Map<string, FullUpstream>()
  let lastPermit = 0

  const note = ({ id, limits }: LimitedUpstream, tokens: number, isFull: boolean) => {
    if (isFull) full.set(id, { limits, tokens, untilMs: monotonicMs() + FULL_MS })
    else full.delete(id)
  }
  const permit = (upstream: LimitedUpstream, tokens: number) => {
    const grant = shared.take([claimOf('upstream', upstream)], { tokens, nanoUsd: 0 })
    return grant ? { leave: (actual: number | null) => grant.end(false, actual, 0) } : askPermit(upstream, tokens)
  }
  const askPermit = async (of: LimitedUpstream, tokens: number) => {
    const number = ++lastPermit
    const { id, limits } = of
    const upstream = { id, limits }
    const claims = [claimOf('upstream', of)]
    const asking = link.ask(PERMIT, { number, tokens, ...upstream }, patienceMs).then((reply) => {
      if (reply.figures) shared.decided(claims, [reply.figures], { tokens, nanoUsd: 0 }, true)
      return reply
    })
    const permitted = await unlessLost(asking)
    // A late keeper may still grant the permit.
    if (permitted instanceof LinkLost) return toPermit(number, () => {})
    note(upstream, tokens, permitted.isFull)
    if (permitted.refused === null) return toPermit(number, (isFull) => note(upstream, tokens, isFull))
    const { message, retryable, retryAfterMs } = permitted.refused
    const retry = retryAfterMs === null ? {} : { retryAfterMs }
    return new UpstreamError('status', message, { status: 429, isOwnLimit: true, retryable, ...retry })
  }
  const toPermit = (number: number, onLeft: (isFull: boolean) => void): Permit => {
    let isLeft = false
    return {
      leave(tokens) {
        if (isLeft) return
        isLeft = true
        onLeft(false)
        link.ask(LEAVE, { number, tokens }).then(onLeft, () => {})
      },
    }
  }
  return {
    enter(id, key, team) {
      if (!isLimited(key, team)) return UNLIMITED_REQUEST
      const request = new RemoteRequest(shared, id, key, team)
      return request.enter()
    },
    permit: (upstream, tokens) => (hasLimits(upstream.limits) ? permit(upstream, tokens) : UNLIMITED_PERMIT),
    isFull({ id, limits }, tokens, nowMs) {
      if (limits.tpm !== null && tokens > limits.tpm) return true
      const last = full.get(id)
      return last?.limits === limits && tokens >= last.tokens && nowMs < last.untilMs
    },
    askSuccessor(ask) {
      shared.successor = ask
    },
  }
}

const unlessLost = <T>(asking: Promise<T>): Promise<T | LinkLost> =>
  asking.catch((error: unknown) => {
    if (error instanceof LinkLost) return error
    throw error
  })

const KEEPER = 'Tollgate process that enforces limits'
const keeperLost = () =>
  new GatewayError('overloaded', `The ${KEEPER} doesn't respond or has ended. Try again in a few seconds.`)

const toSent = ({ id, name, limits, budget }: Limited): Limited => ({ id, name, limits, budget })
const withoutRates = (owner: Limited): Limited => ({ ...toSent(owner), limits: NO_LIMITS })

class RemoteRequest implements EnteredRequest, Reservation {
  headers: Headers = {}
  readonly hasBudget: boolean
  readonly #shared: Shared
  readonly #number: number
  readonly #id: string
  readonly #key: Limited
  readonly #team: Limited | null
  readonly #countings: Counting[] = []
  readonly claims: readonly Claim[]
  /** What the request takes from leases. Once it has entered at the keeper: rates and slots only. */
  #grant: Grant | null = null
  /** Countings of dollars reserved from leases. */
  #uncounted: Counting[] = []
  /** Nano-dollars left by the keeper's last reply. */
  #room = Number.POSITIVE_INFINITY
  /** True if the keeper knows the request. */
  #isEntered = false
  #isOver = false
  /** `x-ratelimit-*` after a rejection or cancellation. */
  #left: Promise<Headers> | null = null

  constructor(shared: Shared, id: string, key: Limited, team: Limited | null) {
    this.#shared = shared
    this.#number = ++shared.lastRequest
    this.#id = id
    this.#key = key
    this.#team = team
    this.claims = claimsOf(key, team)
    this.hasBudget = key.budget !== null || (team !== null && team.budget !== null)
  }

  enter(): EnteredRequest | Promise<Decision<EnteredRequest>> {
    return this.#hasRates && !this.#shared.covers(this.claims) ? this.#enter() : this
  }

  get #hasRates(): boolean {
    return this.claims.some(({ limits }) => hasLimits(limits))
  }

  async #enter(): Promise<Decision<EnteredRequest>> {
    const { link, patienceMs } = this.#shared
    this.#isEntered = true
    const refused = await unlessLost(link.ask(ENTER, this.#toEntering(), patienceMs))
    if (refused === null) return this
    const isLost = refused instanceof LinkLost
    // The request may still enter at the keeper.
    if (isLost) this.cancel()
    else this.#isEntered = false
    return isLost ? keeperLost() : toError(refused)
  }

  admit(ask: Ask): Reservation | Promise<Decision<Reservation>> {
    const { tokens, nanoUsd, counting } = ask
    const amount = { tokens, nanoUsd: this.hasBudget ? nanoUsd : 0 }
    const grant = this.#isEntered ? null : this.#shared.take(this.claims, amount)
    if (grant === null) return this.#admit(ask)
    this.#grant = grant
    this.headers = grant.headers
    this.#uncounted = counting && this.hasBudget ? [counting] : []
    this.#shared.leased.add(this)
    return this
  }

  async #admit(ask: Ask): Promise<Decision<Reservation>> {
    const entering = this.#isEntered ? {} : { entering: this.#toEntering() }
    this.#isEntered = true
    const { link, patienceMs } = this.#shared
    const asking = link.ask(ADMIT, { ...this.#toAsked(ask), ...entering }, patienceMs).then((reply) => {
      this.#shared.decided(this.claims, reply.figures, ask, true)
      return reply
    })
    const admitted = await unlessLost(asking)
    if (admitted instanceof LinkLost) {
      this.cancel()
      return keeperLost()
    }
    this.#room = admitted.room ?? Number.POSITIVE_INFINITY
    if (admitted.refused) return toError(admitted.refused)
    this.headers = admitted.headers
    return this
  }

  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null> {
    if (this.#isOver) return null
    if (this.hasBudget && !this.#raiseLeased(ask)) return this.#raise(ask)
    this.#raiseTokens(ask)
    return null
  }

  /** Raises within the leases; false if they don't cover it. */
  #raiseLeased({ nanoUsd, counting }: Ask): boolean {
    const grant = this.#isEntered ? null : this.#grant
    if (grant === null) return false
    const heldNanoUsd = grant.amounts.nanoUsd
    if (toAmount(nanoUsd) > heldNanoUsd) {
      if (this.#shared.successor || !grant.setDollars(toAmount(nanoUsd))) return false
      // From here on, earlier countings cover only a part of the request.
      this.#uncounted = []
    }
    if (counting) this.#uncounted.push(counting)
    return true
  }

  /** Counts, and lowers the dollars reserved from leases. */
  async countLeased(): Promise<void> {
    const countings = this.#uncounted
    if (countings.length === 0) return
    const costs = await Promise.all(countings.map((counting) => counting.count()))
    const grant = this.#isEntered || this.#isOver ? null : this.#grant
    if (grant === null || this.#uncounted !== countings || countings.length !== costs.length) return
    this.#uncounted = []
    const heldNanoUsd = Math.max(...costs.map((cost) => (cost === null ? Number.POSITIVE_INFINITY : toHeld(cost))))
    if (heldNanoUsd < grant.amounts.nanoUsd) grant.setDollars(toAmount(heldNanoUsd))
  }

  /** As of the last refusal. Only an estimate: `admit` and `raise` decide. */
  room(): number {
    return this.#grant && !this.#isEntered ? this.#grant.amounts.nanoUsd + this.#grant.leftNanoUsd : this.#room
  }

  async refuse(error: GatewayError): Promise<void> {
    this.#leave(error.kind)
    Object.assign(error.headers, (await this.#left) ?? this.headers)
  }

  releaseSlot(): void {
    const isHeld = this.#key.limits.concurrency !== null || (this.#team?.limits.concurrency ?? null) !== null
    // Deferred: most requests are settled at once.
    if (!isHeld) return
    queueMicrotask(() => {
      if (this.#isOver) return
      if (this.#grant) this.#grant.releaseSlot()
      else this.#shared.link.tell(RELEASE, this.#number)
    })
  }

  settle({ tokens, nanoUsd }: Used): void {
    if (this.#isOver) return
    this.#end()
    this.#grant?.end(false, tokens, this.#isEntered ? 0 : nanoUsd)
    if (this.#isEntered) this.#shared.link.tell(SETTLE, { request: this.#number, tokens, nanoUsd })
  }

  cancel(): void {
    // Undo everything: rejecting with this error gives back the request.
    this.#leave('overloaded')
  }

  count(number: number): Promise<Cost | null> | null {
    return this.#countings[number]?.count() ?? null
  }

  #leave(kind: ErrorKind): void {
    if (this.#isOver) return
    this.#end()
    const isUndone = GIVES_BACK.has(kind)
    this.#grant?.end(isUndone, null, 0)
    // Neither the keeper nor a lease has counted the request.
    const isUncounted = !this.#isEntered && this.#grant === null
    if (isUncounted ? isUndone || !this.#hasRates : !this.#isEntered) return
    const refusing = { request: this.#number, kind, ...(isUncounted && { entering: this.#toEntering() }) }
    this.#left = this.#shared.link.ask(REFUSE, refusing, HEADERS_MS).catch(() => this.headers)
  }

  #end(): void {
    this.#isOver = true
    this.#shared.counted.delete(this.#number)
    this.#shared.leased.delete(this)
  }

  #toEntering(toOwner = toSent): Entering {
    return { request: this.#number, id: this.#id, key: toOwner(this.#key), team: this.#team && toOwner(this.#team) }
  }

  #toAsked({ tokens, nanoUsd, counting, isMore = false }: Ask): Asked {
    const asked: Asked = { request: this.#number, tokens, nanoUsd }
    if (isMore) asked.isMore = true
    if (counting) {
      const number = this.#countings.push(counting) - 1
      asked.counting = { number, leastNanoUsd: counting.leastNanoUsd() }
      this.#shared.counted.set(this.#number, this)
    }
    return asked
  }

  #raiseTokens({ tokens }: Ask): void {
    if (this.#grant) this.#grant.setTokens(Math.max(toAmount(tokens), this.#grant.amounts.tokens))
    else this.#shared.link.tell(RAISE_TOKENS, { request: this.#number, tokens })
  }

  async #raise(ask: Ask): Promise<GatewayError | null> {
    const { link, patienceMs, successor } = this.#shared
    const request = { id: this.#id, keyId: this.#key.id, teamId: this.#team?.id ?? null }
    const refusal = successor ? await raiseThere(successor, request, ask) : undefined
    if (refusal) return toBudgetError(refusal, this.headers, ask.isMore ?? false)
    if (refusal === null) {
      this.#raiseTokens(ask)
      return null
    }
    const raised = await unlessLost(link.ask(RAISE, { ...this.#toAsked(ask), ...this.#leaveLease() }, patienceMs))
    if (raised instanceof LinkLost) return this.#raiseAlone(ask)
    this.#room = raised.room ?? Number.POSITIVE_INFINITY
    if (raised.refused) return toError(raised.refused)
    if (this.#grant) this.#raiseTokens(ask)
    return null
  }

  /** From now on, the keeper holds the request's dollars, like those of other requests. */
  #leaveLease(): { entering?: Entering; heldNanoUsd?: number } {
    if (this.#isEntered || this.#grant === null) return {}
    this.#room = this.room()
    this.#isEntered = true
    return { entering: this.#toEntering(withoutRates), heldNanoUsd: this.#grant.moveDollars() }
  }

  /** Decides by the keeper's last figures. */
  async #raiseAlone({ nanoUsd, counting, isMore = false }: Ask): Promise<GatewayError | null> {
    if (nanoUsd <= this.#room) return null
    const counted = (await counting?.count()) ?? null
    if (counted !== null && counted.likelyNanoUsd <= this.#room) return null
    if (!isMore) return keeperLost()
    const sentence = `The response ends here: the ${KEEPER} doesn't respond, and its last figures allow no more output.`
    return new GatewayError('overloaded', sentence)
  }
}
