/**
 * One upstream with a managed server: queue, requests in flight, measured durations. `arrange.ts` decides when it runs.
 */

import { UpstreamError } from '../domain/error.ts'
import type { ProcessSpec } from '../domain/model-server.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { count } from '../domain/text.ts'
import { FairQueue, type QueueEntry } from '../threads/fair-queue.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import type { Resident } from './arrange.ts'
import type { Launched } from './child.ts'
import { Silence, type StartFailure, type Supervisor } from './supervisor.ts'

export interface Ticket extends QueueEntry {
  /** As configured when the call began. */
  upstream: Upstream
  resolve(lease: Lease): void
  reject(error: Error): void
}

/** `lost`: the connection failed or broke. `none`: no information about the server. */
export type Outcome = 'ok' | 'failed' | 'lost' | 'none'

export interface Lease {
  /** With the server's URL and key. */
  upstream: Upstream
  heard(): void
  over(outcome: Outcome): void
}

const MAX_WAITING = 256
const SLOTS = 4
/** Failures in a row that make a server unhealthy. If all are of one owner, others must have had no success. */
const SICK = 3
/** A server stays loaded at least as long as loading took, within these limits. */
const MIN_KEPT_MS = 1_000
const MAX_KEPT_MS = 30_000
/** Assumed duration until measured. */
const ANSWER_MS = 5_000

export class ManagedModel {
  readonly line = new FairQueue<Ticket>(MAX_WAITING)
  answering = 0
  lastUsedMs = 0
  /** Should run without requests; `preload` only if memory is free. */
  wanted: 'preload' | 'ordered' | null = null
  wantedSinceMs = 0
  /** Time of the last eviction. Its requests count as waiting since then at the earliest. */
  evictedMs = 0
  /** Supervisor with the new command, used from the next start. */
  next: Supervisor | null = null
  /** True if another model waits for this model's memory. */
  isHeld = false
  isLeaving = false
  /** True if removed from the configuration. */
  isGone = false
  readonly silence = new Silence()
  #failures = 0
  /** Owners of those failures. */
  readonly #failing = new Set<string>()
  /** Owners with a success on this server; at most two are kept. */
  readonly #answered = new Set<string>()
  #answerMs: number | null = null
  readonly #leased = new WeakMap<Upstream, { server: Launched; upstream: Upstream }>()

  constructor(
    public upstream: Upstream,
    /** The first model routed to it. */
    public slug: string,
    public spec: ProcessSpec,
    public supervisor: Supervisor,
  ) {}

  get slots(): number {
    return this.upstream.options.concurrency ?? SLOTS
  }

  get isWanted(): boolean {
    return this.line.length > 0 || this.wanted !== null
  }

  get isSick(): boolean {
    if (this.#failures < SICK) return false
    return this.#failing.size > 1 || this.#answered.isSubsetOf(this.#failing)
  }

  sinceMs = (): number => Math.max(this.line.sinceMs() ?? this.wantedSinceMs, this.evictedMs)

  keptUntilMs(): number {
    const { readyMs, loadMs } = this.supervisor
    return readyMs + Math.min(MAX_KEPT_MS, Math.max(MIN_KEPT_MS, loadMs ?? 0))
  }

  /** Null if it takes no memory. */
  toResident(needBytes: number): Resident | null {
    const { phase } = this.supervisor
    if (phase === 'stopped' || phase === 'failed') return null
    const { answering, line, lastUsedMs, upstream } = this
    const isPinned = this.spec.pin && !this.isLeaving
    const kept = phase === 'ready' ? this.keptUntilMs() : 0
    return {
      ...{ id: upstream.id, needBytes, isPinned, phase, answering },
      ...{ waiting: line.length, lastUsedMs, keptUntilMs: kept },
    }
  }

  serve(nowMs: () => number, onOver: (outcome: Outcome) => void): void {
    const { server, phase, isDoubted } = this.supervisor
    if (phase !== 'ready' || server === null || isDoubted || this.isHeld || this.isLeaving) return
    while (this.answering < this.slots) {
      const ticket = this.line.next()
      if (ticket === undefined) return
      this.answering++
      const startedMs = nowMs()
      let isOver = false
      const over = (outcome: Outcome) => {
        if (isOver) return
        isOver = true
        this.answering--
        this.lastUsedMs = nowMs()
        if (outcome === 'ok') this.#measure(this.lastUsedMs - startedMs)
        if (this.supervisor.server === server) this.#take(outcome, ticket.owner)
        onOver(outcome)
      }
      const heard = () => this.silence.end()
      ticket.resolve({ upstream: this.toLeased(ticket.upstream, server), heard, over })
    }
  }

  /** Resets the failure counts of an ended server. */
  forget(): void {
    this.silence.end()
    this.#recover()
    this.#answered.clear()
    this.isLeaving = false
  }

  /** Estimated wait of a new request, ms. */
  expectedMs(nowMs: number): number {
    const answersMs = Math.ceil((this.line.length + 1) / this.slots) * (this.#answerMs ?? ANSWER_MS)
    return Math.max(0, this.#untilReadyMs(nowMs)) + answersMs
  }

  #untilReadyMs(nowMs: number): number {
    const { phase, loadMs, startedMs, retryAtMs } = this.supervisor
    const loadingMs = loadMs ?? ANSWER_MS
    if (phase === 'ready') return 0
    if (phase === 'loading') return startedMs + loadingMs - nowMs
    return loadingMs + (phase === 'failed' ? retryAtMs - nowMs : 0)
  }

  refuseAll(why: Error): void {
    for (const ticket of this.line.takeAll()) ticket.reject(why)
  }

  #take(outcome: Outcome, owner: string): void {
    if (outcome === 'failed' || outcome === 'lost') {
      this.#failures++
      this.#failing.add(owner)
    }
    if (outcome === 'lost') this.supervisor.doubt()
    if (outcome !== 'ok') return
    this.silence.end()
    this.#recover()
    if (this.#answered.size < 2) this.#answered.add(owner)
    this.supervisor.proved()
  }

  #recover(): void {
    this.#failures = 0
    this.#failing.clear()
  }

  /** Moving average. */
  #measure(ms: number): void {
    this.#answerMs = this.#answerMs === null ? ms : this.#answerMs * 0.8 + ms * 0.2
  }

  toLeased(upstream: Upstream, server: Launched): Upstream {
    const known = this.#leased.get(upstream)
    if (known?.server === server) return known.upstream
    const { port, key } = server
    const baseUrl = `http://127.0.0.1:${port}${dialectOf(upstream).localPath}`
    const leased = { ...upstream, baseUrl, credential: key, secrets: [key] }
    this.#leased.set(upstream, { server, upstream: leased })
    return leased
  }
}

// Clients see the following messages, so they contain no paths or programs.

/** Circuit breakers don't count this error, because no call was sent. The supervisor decides when to retry. */
function toStartError({ kind }: StartFailure, startMs: number, retryAfterMs: number): UpstreamError {
  if (kind === 'start')
    return new UpstreamError('deadline', `model server didn't start within ${startMs / 1_000} s`, {
      ...{ deadline: 'start', isOwnLimit: true },
    })
  const retryable = kind === 'ended' || kind === 'crashed'
  return new UpstreamError('connection', 'failed to start its model server', {
    retryable,
    retryAfterMs,
    isOwnLimit: true,
  })
}

/** Up to this retry time, such as after a first crash, requests wait. */
const SHORT_RETRY_MS = 1_000

/** The error for requests queued for a failed server; null if the server is retried soon. */
export function toFailed(
  failure: StartFailure,
  { supervisor, spec }: Pick<ManagedModel, 'supervisor' | 'spec'>,
  { nowMs, isDraining }: { nowMs: number; isDraining: boolean },
): UpstreamError | null {
  const retryAfterMs = supervisor.retryAtMs - nowMs
  if (failure.kind === 'crashed' && !isDraining && retryAfterMs <= SHORT_RETRY_MS) return null
  return toStartError(failure, spec.startMs, Math.max(0, retryAfterMs))
}

/** Permanent until the catalog changes. */
export const TOO_LARGE = 'needs more memory than is available for models'

export const toTooLarge = () =>
  new UpstreamError('connection', TOO_LARGE, {
    retryable: false,
    isOwnLimit: true,
  })

export const toStopping = () =>
  new UpstreamError('connection', 'is no longer loaded, because the server is shutting down', {
    retryable: false,
    isOwnLimit: true,
  })

export const toGone = () =>
  new UpstreamError('connection', 'is no longer configured', { retryable: false, isOwnLimit: true })

export const toFull = (waiting: number, retryAfterMs: number) =>
  new UpstreamError('status', `its model server's queue is full (${count(waiting, 'request')})`, {
    ...{ status: 429, isOwnLimit: true, retryable: true, retryAfterMs },
  })

export const toFailedReadiness = ({ kind }: StartFailure): Readiness => ({
  state: 'down',
  reason: kind === 'crashed' ? 'model server exited unexpectedly' : 'model server failed to start',
})

/** @param what additional reason, such as `loading`. */
export const toNote = (position: number, length: number, what: '' | 'loading' | 'for memory'): string =>
  `waiting, ${toOrdinal(position)} of ${length}${what === '' ? '' : `, ${what}`}`

function toOrdinal(n: number): string {
  const isTeen = Math.floor(n / 10) % 10 === 1
  const ending = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')
  return `${n}${ending}`
}
