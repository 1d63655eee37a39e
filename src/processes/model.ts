/**
 * One upstream whose server runs here: who waits for it, how many it answers, how long that takes. `arrange.ts` decides when its
 * server runs.
 */

import { UpstreamError } from '../domain/error.ts'
import type { ProcessSpec } from '../domain/model-server.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { FairQueue, type QueueEntry } from '../threads/fair-queue.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import type { Resident } from './arrange.ts'
import type { Launched } from './child.ts'
import { Silence, type StartFailure, type Supervisor } from './supervisor.ts'

/** A request that waits. */
export interface Ticket extends QueueEntry {
  /** As its call has it, for the settings that hold for it. */
  upstream: Upstream
  resolve(lease: Lease): void
  reject(error: Error): void
}

/** What became of a call: `lost` = the server could not be reached, or was not any more; `none` = nothing that says anything of it. */
export type Outcome = 'ok' | 'failed' | 'lost' | 'none'

/** A place at a server that is ready. */
export interface Lease {
  /** As calls go by it: with the server's address and key. */
  upstream: Upstream
  /** Some of an answer has come. */
  heard(): void
  /** Gives the place back. Idempotent. */
  over(outcome: Outcome): void
}

/** More do not wait for one model: by then another one would have answered. */
const MAX_WAITING = 256
/** Where neither the catalogue says how many a server answers at a time. */
const SLOTS = 4
/** So many failures in a row are the server's own; one owner's, only where nobody else has had an answer of it. */
const SICK = 3
/** It stays at least for as long as loading it took, within these. */
const MIN_KEPT_MS = 1_000
const MAX_KEPT_MS = 30_000
/** How long an answer takes where none was measured. */
const ANSWER_MS = 5_000

export class ManagedModel {
  readonly line = new FairQueue<Ticket>(MAX_WAITING)
  answering = 0
  lastUsedMs = 0
  /** Somebody wants it to run though nobody waits: `preload` only where there is room. */
  wanted: 'preload' | 'ordered' | null = null
  wantedSinceMs = 0
  /** When it had to go for another one: whoever waits for that goes first then. */
  evictedMs = 0
  /** Runs by another command from its next start on. */
  next: Supervisor | null = null
  /** Takes nobody any more: for those that wait for another model, or because it is to be stopped. */
  isHeld = false
  isLeaving = false
  /** Nobody leads to it any more. */
  isGone = false
  readonly silence = new Silence()
  #failures = 0
  /** Whose failures they are. */
  readonly #failing = new Set<string>()
  /** Who has had an answer of this server; two are enough to know of another one. */
  readonly #answered = new Set<string>()
  #answerMs: number | null = null
  readonly #leased = new WeakMap<Upstream, { server: Launched; upstream: Upstream }>()

  constructor(
    public upstream: Upstream,
    /** Of the first model that leads to it. */
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

  /** Whether its server has failed too often in a row to be asked again. */
  get isSick(): boolean {
    if (this.#failures < SICK) return false
    return this.#failing.size > 1 || this.#answered.isSubsetOf(this.#failing)
  }

  /** Since when it has waited for its turn to be loaded. */
  sinceMs = (): number => Math.max(this.line.sinceMs() ?? this.wantedSinceMs, this.evictedMs)

  /** Until when it stays, whoever waits for another one. */
  keptUntilMs(): number {
    const { readyMs, loadMs } = this.supervisor
    return readyMs + Math.min(MAX_KEPT_MS, Math.max(MIN_KEPT_MS, loadMs ?? 0))
  }

  /** As the plan of memory sees it; null where it takes none. */
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

  /** Has those whose turn it is asked, as far as there are places. */
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
        // What a server before it has failed at says nothing of this one.
        if (this.supervisor.server === server) this.#take(outcome, ticket.owner)
        onOver(outcome)
      }
      const heard = () => this.silence.end()
      ticket.resolve({ upstream: this.toLeased(ticket.upstream, server), heard, over })
    }
  }

  /** What was held against a server that has ended. */
  forget(): void {
    this.silence.end()
    this.#recover()
    this.#answered.clear()
    this.isLeaving = false
  }

  /** How long somebody who comes now would wait about, ms. */
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

  /** Turns away all who wait. */
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

  /** The last few count most. */
  #measure(ms: number): void {
    this.#answerMs = this.#answerMs === null ? ms : this.#answerMs * 0.8 + ms * 0.2
  }

  /** The upstream with the address and the key of its server. */
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

// What whoever waits is told where there is no server to be had. Clients read it: it names no path and no program.

/**
 * It could not be started, or is left alone after that for so long. No call was made, and no breaker counts it: when a server may be
 * tried again is decided here.
 */
function toStartError({ kind }: StartFailure, startMs: number, retryAfterMs: number): UpstreamError {
  if (kind === 'start')
    return new UpstreamError('deadline', `its model server was not ready within ${startMs / 1_000} s`, {
      ...{ deadline: 'start', isOwnLimit: true },
    })
  const retryable = kind === 'ended' || kind === 'crashed'
  return new UpstreamError('connection', 'could not start its model server', {
    retryable,
    retryAfterMs,
    isOwnLimit: true,
  })
}

/** A server that has ended by itself, and for the first time, is waited for. */
const SHORT_RETRY_MS = 1_000

/** What those who wait for a server that has failed are told; null where it is tried again so soon that they may go on. */
export function toFailed(
  failure: StartFailure,
  { supervisor, spec }: Pick<ManagedModel, 'supervisor' | 'spec'>,
  { nowMs, isDraining }: { nowMs: number; isDraining: boolean },
): UpstreamError | null {
  const retryAfterMs = supervisor.retryAtMs - nowMs
  if (failure.kind === 'crashed' && !isDraining && retryAfterMs <= SHORT_RETRY_MS) return null
  return toStartError(failure, spec.startMs, Math.max(0, retryAfterMs))
}

/** It stays so until the catalogue says otherwise. */
export const TOO_LARGE = 'needs more memory than there is for models here'

export const toTooLarge = () =>
  new UpstreamError('connection', TOO_LARGE, {
    retryable: false,
    isOwnLimit: true,
  })

export const toStopping = () =>
  new UpstreamError('connection', 'is not loaded any more, because this server stops', {
    retryable: false,
    isOwnLimit: true,
  })

/** Nobody has said before that it is gone: the request came first. */
export const toGone = () =>
  new UpstreamError('connection', 'is not set up any more', { retryable: false, isOwnLimit: true })

/** @param retryAfterMs as was measured. */
export const toFull = (waiting: number, retryAfterMs: number) =>
  new UpstreamError('status', `${waiting} requests wait for its model server already`, {
    ...{ status: 429, isOwnLimit: true, retryable: true, retryAfterMs },
  })

/** How one that has failed stands for whoever probes. */
export const toFailedReadiness = ({ kind }: StartFailure): Readiness => ({
  state: 'down',
  reason: kind === 'crashed' ? 'its model server has ended by itself' : 'its model server could not be started',
})

/** @param what it waits for, such as `loading`; '' = its turn alone. */
export const toNote = (position: number, length: number, what: '' | 'loading' | 'for memory'): string =>
  `waiting, ${toOrdinal(position)} of ${length}${what === '' ? '' : `, ${what}`}`

function toOrdinal(n: number): string {
  const isTeen = Math.floor(n / 10) % 10 === 1
  const ending = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')
  return `${n}${ending}`
}
