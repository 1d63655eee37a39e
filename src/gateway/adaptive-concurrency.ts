/**
 * Lowers concurrency to a local upstream that reports it is full, since clients may share one context there. The limit,
 * in tokens, is halved by each such error and grows slowly, as in TCP (RFC 5681, section 3.1). Queued calls go
 * round-robin across keys.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { endOf, queuedTooLong, UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { FairQueue, type QueueEntry } from '../threads/fair-queue.ts'

export interface ConcurrencySlot {
  /** Idempotent. */
  leave(how: 'ok' | 'busy' | 'other'): void
}

type LimitedUpstream = Pick<Upstream, 'id'> & { deadlines: Pick<Upstream['deadlines'], 'firstToken'> }

export interface LimitedCall {
  owner: string
  tokens: number
}

const CALM_MS = 60_000
/** Capacity grows by one call after this many successes per running call. */
const ANSWERS = 8
/** Longer queues are pointless: by then another upstream would have responded. */
const MAX_WAITING = 256
const ANSWER_MS = 5_000

interface UpstreamLoad {
  calls: number
  tokens: number
  /** Limit of tokens in flight; a single call is always allowed. */
  width: number
  calmMs: number
  answerMs: number
  queue: FairQueue<Waiter>
}

interface Waiter extends LimitedCall, QueueEntry {
  resolve(slot: ConcurrencySlot): void
  reject(error: UpstreamError): void
}

export class AdaptiveConcurrency {
  readonly #loads = new Map<string, UpstreamLoad>()

  /** @param monotonicMs monotonic clock. */
  constructor(readonly monotonicMs: () => number) {}

  /**
   * At once unless limited. Rejects with an UpstreamError if the client disconnects, the queue is full, or the
   * first-token deadline passes.
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

  /** Queued calls, by upstream. */
  *waiting(): Iterable<readonly [upstream: string, calls: number]> {
    for (const [id, { queue }] of this.#loads) yield [id, queue.length]
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
        // If no other call was running, concurrency wasn't the problem.
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
    // The next call is never overtaken: otherwise a large one would wait forever behind small ones.
    for (let next = queue.first(); next !== undefined && fits(load, next); next = queue.first()) {
      queue.next()
      next.resolve(this.#take(id, load, next))
    }
  }
}

const fits = ({ calls, tokens, width }: UpstreamLoad, call: LimitedCall) => calls === 0 || tokens + call.tokens <= width

/** After a success, the limit is at least the size of that call. */
const toWider = (width: number, tokens: number) =>
  Math.max(tokens, width + (tokens * Math.min(1, tokens / width)) / ANSWERS)

const toExpectedMs = ({ queue, calls, answerMs }: UpstreamLoad) =>
  Math.ceil((queue.length + 1) / Math.max(1, calls)) * answerMs

const tooMany = (waiting: number, retryAfterMs: number): UpstreamError =>
  new UpstreamError('status', `${waiting} requests are already queued for it`, {
    ...{ status: 429, isOwnLimit: true, retryable: true, retryAfterMs },
  })
