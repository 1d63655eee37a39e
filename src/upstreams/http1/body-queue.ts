/**
 * Between where a body comes from and whoever takes it: its pieces, one at a time, and how it ended. What comes before anybody
 * wants it is kept. A piece that is taken at once costs no promise. Pure.
 */
import { Pieces } from '../pieces.ts'
import type { BodyTaker } from '../transport.ts'

/** Of what is kept, in bytes; then whoever brings it should wait. */
const MAX_KEPT = 256 * 1024

/** The end of what came whole. */
const WHOLE = { error: null }

/** Whoever brings the pieces is one: each object that a chunk looks at costs it some 0.2 us. */
export abstract class BodyQueue {
  /** What has come and was not taken; null where that is nothing. */
  #kept: Pieces | null = null
  /** How it ended: with an error, or with none. */
  #end: { error: unknown } | null = null
  #isDropped = false
  /** Who takes the pieces now; null while it is busy with one. */
  #taker: BodyTaker | null = null
  #pumped: PromiseWithResolvers<boolean> | null = null

  /** All that was kept is taken, and more is wanted. */
  protected abstract wanted(): void

  /** How much is kept. */
  get bytes(): number {
    return this.#kept?.bytes ?? 0
  }

  get isFull(): boolean {
    return this.#kept !== null && this.#kept.bytes > MAX_KEPT
  }

  /** Whether nobody wants any more of it. */
  get isDropped(): boolean {
    return this.#isDropped
  }

  get isEnded(): boolean {
    return this.#end !== null
  }

  /** Whether all of it has come. */
  get isWhole(): boolean {
    return this.#end === WHOLE
  }

  /** Takes what is kept, as one. */
  join(): Uint8Array {
    const kept = this.#kept ?? new Pieces()
    this.#kept = null
    return kept.join()
  }

  /** See `Incoming.pump`. */
  pump(taker: BodyTaker): Promise<boolean> {
    if (this.#pumped) throw new Error('it is read already')
    if (this.#isDropped && this.#end === null) return Promise.resolve(false)
    const pumped = Promise.withResolvers<boolean>()
    this.#pumped = pumped
    this.#taker = taker
    this.#flush()
    return pumped.promise
  }

  /** Whoever takes it is told that there is no more for now. */
  stop(): void {
    this.#letGo()?.resolve(false)
  }

  /** Nobody wants any more of it. */
  drop(): void {
    this.#isDropped = true
    this.#kept = null
  }

  /** Adds what stands in `bytes` from one place up to another. */
  add(bytes: Uint8Array, from: number, to: number): void {
    if (this.#isDropped) return
    if (this.#taker !== null && this.#kept === null) {
      this.#hand(this.#taker, bytes, from, to)
      return
    }
    this.#kept ??= new Pieces()
    this.#kept.push(bytes.subarray(from, to))
  }

  /** All of it has come. */
  finish(): void {
    this.#end ??= WHOLE
    this.#flush()
  }

  /** No more will come. */
  fail(error: unknown): void {
    if (this.#end !== null) return
    this.#end = { error }
    this.#flush()
  }

  /** Hands over what has come, as long as it is wanted; then the end. */
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
    else this.#wait(taker, went)
  }

  /** Goes on once a piece is taken. */
  #wait(taker: BodyTaker, went: Promise<boolean>): void {
    const pumped = this.#pumped
    this.#taker = null
    went.then(
      (isWanted) => {
        // Whoever takes it may have been told of its end meanwhile.
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

  /** Nobody takes it any more; returns how to tell whoever did. */
  #letGo(): PromiseWithResolvers<boolean> | null {
    const pumped = this.#pumped
    this.#taker = null
    this.#pumped = null
    return pumped
  }
}
