/** Limits of several processes, as a worker has them: it asks the keeper, which alone has the figures. */
import { type Decision, type ErrorKind, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Limits } from '../domain/limits.ts'
import { type Link, LinkLost } from '../domain/link.ts'
import type { AskSuccessor, Cost, Counting } from './budget.ts'
import {
  type Ask,
  type EnteredRequest,
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
  LEAVE,
  PERMIT,
  RAISE,
  RAISE_TOKENS,
  REFUSE,
  RELEASE,
  SETTLE,
  toError,
} from './remote-topics.ts'

export interface RemoteLimiter extends RequestLimiter {
  /** Before a request may cost more, asks another server than the keeper, which has ended. */
  askSuccessor(ask: AskSuccessor): void
}

export interface RemoteLimiterDeps {
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** How long a request waits for a keeper that doesn't respond. */
  patienceMs?: number
}

interface Shared {
  readonly link: Link
  readonly patienceMs: number
  /** Requests whose prompts the keeper may want counted. */
  readonly counted: Map<number, RemoteRequest>
  lastRequest: number
  successor: AskSuccessor | null
}

/** What the keeper last said of an upstream. Other workers' calls end meanwhile: it holds for a moment. */
interface FullUpstream {
  readonly limits: Limits
  readonly tokens: number
  readonly untilMs: number
}

const FULL_MS = 200

/** Beyond what counts of prompts take. */
const PATIENCE_MS = 10_000
/** A refusal has its headers by then, or does without. */
const HEADERS_MS = 1_000

/**
 * What has no limits asks nobody. Without a keeper, or with one that doesn't respond, new requests with limits are refused; admitted ones go on.
 */
export function createRemoteLimiter(
  link: Link,
  { monotonicMs, patienceMs = PATIENCE_MS }: RemoteLimiterDeps,
): RemoteLimiter {
  const shared: Shared = { link, patienceMs, counted: new Map(), lastRequest: 0, successor: null }
  const full = new Map<string, FullUpstream>()
  let lastPermit = 0
  link.on(COUNT, ({ request, number }) => shared.counted.get(request)?.count(number) ?? null)

  const note = ({ id, limits }: LimitedUpstream, tokens: number, isFull: boolean) => {
    if (isFull) full.set(id, { limits, tokens, untilMs: monotonicMs() + FULL_MS })
    else full.delete(id)
  }
  const askPermit = async ({ id, limits }: LimitedUpstream, tokens: number) => {
    const number = ++lastPermit
    const upstream = { id, limits }
    const permitted = await unlessLost(link.ask(PERMIT, { number, tokens, ...upstream }, patienceMs))
    // A keeper that is late may still give it.
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
      return hasLimits(key.limits) || (team && hasLimits(team.limits)) ? request.enter() : request
    },
    permit: (upstream, tokens) => (hasLimits(upstream.limits) ? askPermit(upstream, tokens) : UNLIMITED_PERMIT),
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

class RemoteRequest implements EnteredRequest, Reservation {
  headers: Headers = {}
  readonly hasBudget: boolean
  readonly #shared: Shared
  readonly #number: number
  readonly #id: string
  readonly #key: Limited
  readonly #team: Limited | null
  readonly #countings: Counting[] = []
  /** As of the keeper's last reply. */
  #room = Number.POSITIVE_INFINITY
  #isEntered = false
  #isOver = false
  /** `x-ratelimit-*` once it was refused or canceled. */
  #left: Promise<Headers> | null = null

  constructor(shared: Shared, id: string, key: Limited, team: Limited | null) {
    this.#shared = shared
    this.#number = ++shared.lastRequest
    this.#id = id
    this.#key = key
    this.#team = team
    this.hasBudget = key.budget !== null || (team !== null && team.budget !== null)
  }

  async enter(): Promise<Decision<EnteredRequest>> {
    const { link, patienceMs } = this.#shared
    this.#isEntered = true
    const refused = await unlessLost(link.ask(ENTER, this.#toEntering(), patienceMs))
    if (refused === null) return this
    const isLost = refused instanceof LinkLost
    // It may still enter.
    if (isLost) this.cancel()
    else this.#isEntered = false
    return isLost ? keeperLost() : toError(refused)
  }

  async admit(ask: Ask): Promise<Decision<Reservation>> {
    const entering = this.#isEntered ? {} : { entering: this.#toEntering() }
    this.#isEntered = true
    const { link, patienceMs } = this.#shared
    const asking = link.ask(ADMIT, { ...this.#toAsked(ask), ...entering }, patienceMs)
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
    if (this.hasBudget) return this.#raise(ask)
    this.#raiseTokens(ask)
    return null
  }

  /** As of the last refusal: `admit` and `raise` are asked after it, and decide. */
  room(): number {
    return this.#room
  }

  async refuse(error: GatewayError): Promise<void> {
    this.#leave(error.kind)
    Object.assign(error.headers, (await this.#left) ?? this.headers)
  }

  releaseSlot(): void {
    const isHeld = this.#key.limits.concurrency !== null || (this.#team?.limits.concurrency ?? null) !== null
    // Most are settled at once.
    if (isHeld) queueMicrotask(() => !this.#isOver && this.#shared.link.tell(RELEASE, this.#number))
  }

  settle({ tokens, nanoUsd }: Used): void {
    if (this.#isOver) return
    this.#end()
    this.#shared.link.tell(SETTLE, { request: this.#number, tokens, nanoUsd })
  }

  cancel(): void {
    // A rejection that undoes all of it.
    this.#leave('overloaded')
  }

  count(number: number): Promise<Cost | null> | null {
    return this.#countings[number]?.count() ?? null
  }

  #leave(kind: ErrorKind): void {
    if (this.#isOver) return
    this.#end()
    const { link } = this.#shared
    if (this.#isEntered)
      this.#left = link.ask(REFUSE, { request: this.#number, kind }, HEADERS_MS).catch(() => this.headers)
  }

  #end(): void {
    this.#isOver = true
    this.#shared.counted.delete(this.#number)
  }

  #toEntering(): Entering {
    return { request: this.#number, id: this.#id, key: toSent(this.#key), team: this.#team && toSent(this.#team) }
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
    this.#shared.link.tell(RAISE_TOKENS, { request: this.#number, tokens })
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
    const raised = await unlessLost(link.ask(RAISE, this.#toAsked(ask), patienceMs))
    if (raised instanceof LinkLost) return this.#raiseAlone(ask)
    this.#room = raised.room ?? Number.POSITIVE_INFINITY
    return raised.refused && toError(raised.refused)
  }

  /** By the keeper's last figures. */
  async #raiseAlone({ nanoUsd, counting, isMore = false }: Ask): Promise<GatewayError | null> {
    if (nanoUsd <= this.#room) return null
    const counted = (await counting?.count()) ?? null
    if (counted !== null && counted.likelyNanoUsd <= this.#room) return null
    if (!isMore) return keeperLost()
    const sentence = `The response ends here: the ${KEEPER} doesn't respond, and its last figures allow no more output.`
    return new GatewayError('overloaded', sentence)
  }
}
