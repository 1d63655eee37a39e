/**
 * Fewer calls at a time to an upstream of our own that has said that it has no room: several clients may share one context there, and
 * all of them fail where their prompts do not fit in together. How many it takes is halved with each such word and grows again by good
 * answers, as TCP shares a line (RFC 5681, section 3.1), but slowly; a while after the last such word nobody is held back any more.
 * Who waits is let in by turns of keys.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { clientLeft, UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { Turns } from '../threads/turns.ts'

/** What one call holds until it ends. */
export interface CrowdPlace {
  /** Idempotent. */
  leave(how: 'ok' | 'busy' | 'other'): void
}

type CrowdedUpstream = Pick<Upstream, 'id' | 'deadlines'>

const CALM_MS = 60_000
/** One more may come when as many as are let in have had so many good answers each. */
const ANSWERS = 8

interface Crowd {
  under: number
  /** How many may be under way. */
  width: number
  calmMs: number
  waiting: Turns<() => void>
}

export class Crowding {
  readonly #crowds = new Map<string, Crowd>()

  /** @param monotonicMs a clock that never steps. */
  constructor(readonly monotonicMs: () => number) {}

  /**
   * A place of one call: at once where the upstream has said nothing.
   * Rejects with an UpstreamError where the client leaves meanwhile, or where no place has become free for as long as a first word may take.
   */
  enter({ id, deadlines }: CrowdedUpstream, shareId: string, signal: EndSignal): CrowdPlace | Promise<CrowdPlace> {
    const crowd = this.#crowds.getOrInsertComputed(id, () => ({
      ...{ under: 0, width: Number.POSITIVE_INFINITY, calmMs: 0 },
      waiting: new Turns<() => void>(),
    }))
    if (this.monotonicMs() >= crowd.calmMs) crowd.width = Number.POSITIVE_INFINITY
    this.#letIn(crowd)
    if (crowd.under < Math.floor(crowd.width)) return this.#take(id, crowd)
    return this.#wait(id, crowd, shareId, signal, deadlines.firstToken)
  }

  async #wait(id: string, crowd: Crowd, shareId: string, signal: EndSignal, mostMs: number): Promise<CrowdPlace> {
    if (signal.aborted) throw clientLeft()
    const place = Promise.withResolvers<CrowdPlace>()
    const turn = () => place.resolve(this.#take(id, crowd))
    const give = (error: UpstreamError) => {
      if (crowd.waiting.delete(shareId, turn)) place.reject(error)
    }
    const leave = () => give(clientLeft())
    const timer = setTimeout(() => give(noRoom()), mostMs)
    signal.addEventListener('abort', leave, { once: true })
    crowd.waiting.add(shareId, turn)
    try {
      return await place.promise
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
    }
  }

  #take(id: string, crowd: Crowd): CrowdPlace {
    crowd.under++
    let isLeft = false
    return {
      leave: (how) => {
        if (isLeft) return
        isLeft = true
        const nowMs = this.monotonicMs()
        if (how === 'busy') {
          crowd.width = Math.max(1, Math.floor(Math.min(crowd.width, crowd.under) / 2))
          crowd.calmMs = nowMs + CALM_MS
        } else if (how === 'ok') crowd.width += 1 / (ANSWERS * crowd.width)
        crowd.under--
        this.#letIn(crowd)
        if (crowd.under === 0 && nowMs >= crowd.calmMs) this.#crowds.delete(id)
      },
    }
  }

  #letIn(crowd: Crowd): void {
    while (crowd.under < Math.floor(crowd.width)) {
      const turn = crowd.waiting.next()
      if (turn === undefined) return
      turn()
    }
  }
}

const noRoom = (): UpstreamError =>
  new UpstreamError('status', 'it had no room for one more in all that time', {
    ...{ status: 503, isBusy: true, retryable: false },
  })
