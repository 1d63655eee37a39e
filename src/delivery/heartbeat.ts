/** Notices silence, for streams that say then that they live. */

/** Looks this often, in parts of the silence: a chunk then costs an assignment instead of a look at the clock. */
const LOOKS = 10

/** All hearts of one pace share a timer: a thousand streams would otherwise have a thousand. */
const paces = new Map<number, { hearts: Set<Heartbeat>; timer: Timer }>()

/** Calls `beat` after every `ms` of silence, and up to a tenth more, until it is stopped. 0 never does. */
export class Heartbeat {
  readonly #ms: number
  readonly #beat: () => void
  #silentLooks = 0

  constructor(ms: number, beat: () => void) {
    this.#ms = ms
    this.#beat = beat
    if (ms === 0) return
    let pace = paces.get(ms)
    if (!pace) {
      const hearts = new Set<Heartbeat>()
      pace = { hearts, timer: setInterval(lookAt, ms / LOOKS, hearts) }
      paces.set(ms, pace)
    }
    pace.hearts.add(this)
  }

  /** Something was written: the silence begins anew. */
  touch(): void {
    this.#silentLooks = 0
  }

  /** Idempotent. */
  stopBeating(): void {
    const pace = paces.get(this.#ms)
    if (!pace?.hearts.delete(this) || pace.hearts.size > 0) return
    clearInterval(pace.timer)
    paces.delete(this.#ms)
  }

  /** Called by the timer. */
  look(): void {
    if (++this.#silentLooks <= LOOKS) return
    this.#silentLooks = 1
    this.#beat()
  }
}

function lookAt(hearts: ReadonlySet<Heartbeat>): void {
  for (const heart of hearts) heart.look()
}
