/**
 * Less at a time to an upstream of our own that has said that it has no room: several clients may share one context there, and all of
 * them fail where their prompts do not fit in together. How many tokens it takes is halved with each such word and grows again by good
 * answers, as TCP shares a link (RFC 5681, section 3.1), but slowly; a while after the last such word nobody is held back any more.
 * Who waits is let in by turns of keys, in a queue that is bounded: what is large waits until it is alone, and what is small goes together
 * before it and after it.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { endOf, queuedTooLong, UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { FairQueue, type QueueEntry } from '../threads/fair-queue.ts'

/** What one call holds until it ends. */
export interface ConcurrencySlot {
  /** Idempotent. */
  leave(how: 'ok' | 'busy' | 'other'): void
}

type LimitedUpstream = Pick<Upstream, 'id'> & { deadlines: Pick<Upstream['deadlines'], 'firstToken'> }

export interface LimitedCall {
  owner: string
  /** That it may read and write. */
  tokens: number
}

const CALM_MS = 60_000
/** One more may come when as many as are let in have had so many good answers each. */
const ANSWERS = 8
/** More do not wait: by then another upstream would have answered. */
const MAX_WAITING = 256
/** How long an answer takes where none was measured. */
const ANSWER_MS = 5_000

interface UpstreamLoad {
  /** Under way, and their tokens. */
  calls: number
  tokens: number
  /** How many tokens may be under way; one call always may. */
  width: number
  calmMs: number
  /** How long an answer takes about, the last few above all. */
  answerMs: number
  queue: FairQueue<Waiter>
}

interface Waiter extends LimitedCall, QueueEntry {
  resolve(place: ConcurrencySlot): void
  reject(error: UpstreamError): void
}

export class AdaptiveConcurrency {
  readonly #loads = new Map<string, UpstreamLoad>()

  /** @param monotonicMs a clock that never steps. */
  constructor(readonly monotonicMs: () => number) {}

  /**
   * A place of one call: at once where the upstream has said nothing. Rejects with an UpstreamError where the client leaves meanwhile,
   * where too many wait, or where no place has become free for as long as a first word may take.
   */
  enter(
    { id, deadlines }: LimitedUpstream,
    call: LimitedCall,
    signal: EndSignal,
  ): ConcurrencySlot | Promise<ConcurrencySlot> {
    const load = this.#loads.getOrInsertComputed(id, () => ({
      ...{ calls: 0, tokens: 0, width: Number.POSITIVE_INFINITY, calmMs: 0, answerMs: ANSWER_MS },
      queue: new FairQueue<Waiter>(MAX_WAITING),
    }))
    this.#letIn(id, load)
    if (load.queue.length === 0 && fits(load, call)) return this.#take(id, load, call)
    return this.#wait(id, load, call, signal, deadlines.firstToken)
  }

  async #wait(
    id: string,
    load: UpstreamLoad,
    call: LimitedCall,
    signal: EndSignal,
    mostMs: number,
  ): Promise<ConcurrencySlot> {
    const { queue } = load
    if (signal.aborted) throw endOf(signal)
    const { promise, resolve, reject } = Promise.withResolvers<ConcurrencySlot>()
    const waiter: Waiter = { ...call, sinceMs: this.monotonicMs(), resolve, reject }
    queue.join(waiter)?.reject(tooMany(queue.length, toExpectedMs(load)))
    const give = (error: UpstreamError) => {
      if (!queue.leave(waiter)) return
      reject(error)
      // Those behind it may fit in.
      this.#letIn(id, load)
    }
    const leave = () => give(endOf(signal))
    const timer = setTimeout(() => give(queuedTooLong(mostMs, toExpectedMs(load))), mostMs)
    signal.addEventListener('abort', leave, { once: true })
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
    }
  }

  #take(id: string, load: UpstreamLoad, { tokens }: LimitedCall): ConcurrencySlot {
    load.calls++
    load.tokens += tokens
    let isLeft = false
    const beganMs = this.monotonicMs()
    return {
      leave: (how) => {
        if (isLeft) return
        isLeft = true
        const nowMs = this.monotonicMs()
        // With nobody beside it, it was not crowded: others need not wait for it.
        if (how === 'busy' && load.calls > 1) {
          load.width = Math.max(1, Math.floor(Math.min(load.width, load.tokens) / 2))
          load.calmMs = nowMs + CALM_MS
        } else if (how === 'ok') {
          load.width = toWider(load.width, tokens)
          load.answerMs = load.answerMs * 0.8 + (nowMs - beganMs) * 0.2
        }
        load.calls--
        load.tokens -= tokens
        this.#letIn(id, load)
        if (load.calls === 0 && nowMs >= load.calmMs) this.#loads.delete(id)
      },
    }
  }

  #letIn(id: string, load: UpstreamLoad): void {
    if (this.monotonicMs() >= load.calmMs) load.width = Number.POSITIVE_INFINITY
    const { queue } = load
    // Whoever is next is waited for, however large: else it would wait for ever behind small ones.
    for (let next = queue.first(); next !== undefined && fits(load, next); next = queue.first()) {
      queue.next()
      next.resolve(this.#take(id, load, next))
    }
  }
}

const fits = ({ calls, tokens, width }: UpstreamLoad, call: LimitedCall) => calls === 0 || tokens + call.tokens <= width

/** After a good answer: it has room for that one at least. */
const toWider = (width: number, tokens: number) =>
  Math.max(tokens, width + (tokens * Math.min(1, tokens / width)) / ANSWERS)

const toExpectedMs = ({ queue, calls, answerMs }: UpstreamLoad) =>
  Math.ceil((queue.length + 1) / Math.max(1, calls)) * answerMs

/** @param retryAfterMs as was measured. */
const tooMany = (waiting: number, retryAfterMs: number): UpstreamError =>
  new UpstreamError('status', `${waiting} requests wait for room in it already`, {
    ...{ status: 429, isOwnLimit: true, retryable: true, retryAfterMs },
  })
