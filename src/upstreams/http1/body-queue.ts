/**
 * Passes the pieces of a body to its reader one at a time, and keeps pieces that arrive early. A piece that is taken immediately needs no
 * promise.
 */
import { Pieces } from '../pieces.ts'
import type { BodyTaker } from '../transport.ts'

/** Maximum bytes kept, including the piece that the reader is processing. */
const MAX_KEPT = 32 * 1024

const WHOLE = { error: null }

/** Extended by the sender of the pieces, since each object that a chunk touches costs some 0.2 us. */
export abstract class BodyQueue {
  #kept: Pieces | null = null
  #held = 0
  /** How the body ended, with `error` null for success. */
  #end: { error: unknown } | null = null
  #isDropped = false
  /** The reader; null while it is busy with a piece. */
  #taker: BodyTaker | null = null
  #pumped: PromiseWithResolvers<boolean> | null = null

  protected abstract wanted(): void

  get bytes(): number {
    return this.#kept?.bytes ?? 0
  }

  get isFull(): boolean {
    return this.#held + this.bytes > MAX_KEPT
  }

  /** True if the rest isn't needed. */
  get isDropped(): boolean {
    return this.#isDropped
  }

  get isEnded(): boolean {
    return this.#end !== null
  }

  get isWhole(): boolean {
    return this.#end === WHOLE
  }

  join(): Uint8Array {
    const kept = this.#kept ?? new Pieces()
    this.#kept = null
    return kept.join()
  }

  /** See `Incoming.pump`. */
  pump(taker: BodyTaker): Promise<boolean> {
    if (this.#pumped) throw new Error('the body is being read already')
    if (this.#isDropped && this.#end === null) return Promise.resolve(false)
    const pumped = Promise.withResolvers<boolean>()
    this.#pumped = pumped
    this.#taker = taker
    this.#flush()
    return pumped.promise
  }

  stop(): void {
    this.#letGo()?.resolve(false)
  }

  drop(): void {
    this.#isDropped = true
    this.#held = 0
    this.#kept = null
  }

  add(bytes: Uint8Array, from: number, to: number): void {
    if (this.#isDropped) return
    if (this.#taker !== null && this.#kept === null) {
      this.#hand(this.#taker, bytes, from, to)
      return
    }
    this.#kept ??= new Pieces()
    this.#kept.push(bytes.subarray(from, to))
  }

  finish(): void {
    this.#end ??= WHOLE
    this.#flush()
  }

  fail(error: unknown): void {
    if (this.#end !== null) return
    this.#end = { error }
    this.#flush()
  }

  #flush(): void {
    for (let taker = this.#taker; taker !== null; taker = this.#taker) {
      const piece = this.#kept?.shift()
      if (piece === undefined) break
      if (this.#kept?.bytes === 0) this.#kept = null
      this.#hand(taker, piece, 0, piece.length)
    }
    if (this.#taker === null) return
    if (this.#end === null) this.wanted()
    else if (this.#end === WHOLE) this.#letGo()?.resolve(true)
    else this.#letGo()?.reject(this.#end.error)
  }

  #hand(taker: BodyTaker, bytes: Uint8Array, from: number, to: number): void {
    let went: boolean | Promise<boolean>
    try {
      went = taker.takeBytes(bytes, from, to)
    } catch (error) {
      this.#letGo()?.reject(error)
      return
    }
    if (went === true) return
    if (went === false) this.stop()
    else this.#wait(taker, went, to - from)
  }

  #wait(taker: BodyTaker, went: Promise<boolean>, bytes: number): void {
    const pumped = this.#pumped
    this.#taker = null
    this.#held = bytes
    went.then(
      (isWanted) => {
        this.#held = 0
        // The reader may have received the end since.
        if (this.#pumped !== pumped) return
        if (!isWanted) {
          this.stop()
          return
        }
        this.#taker = taker
        this.#flush()
      },
      (error) => {
        if (this.#pumped === pumped) this.#letGo()?.reject(error)
      },
    )
  }

  #letGo(): PromiseWithResolvers<boolean> | null {
    const pumped = this.#pumped
    this.#taker = null
    this.#pumped = null
    return pumped
  }
}
