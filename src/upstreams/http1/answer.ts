/** An answer whose head has come over a connection of our own, and its body: kept until somebody reads it, up to a limit. */
import { Pieces } from '../pieces.ts'
import { DECODED_BYTES, readText } from '../read-text.ts'
import type { Incoming, TakeBytes, TakeRoom } from '../transport.ts'
import type { Head } from './head.ts'
import { Inflater, toFormat } from './inflate.ts'

/** Where the bytes come from. */
export interface Source {
  pause(): void
  resume(): void
  abort(): void
}

/** What comes before anybody takes it is kept up to this; then its sender waits. */
const MOST_KEPT = 256 * 1024
const whole = new TextDecoder()
/** So long after its last event a stream may take to end. */
const LEFT_MS = 1_000

export class Http1Answer implements Incoming {
  readonly status: number
  readonly #headers: Head['headers']
  /** Null once all bytes have come, or none will. */
  #source: Source | null
  /** In which its body is packed; null where it is not. */
  readonly #format: string | null
  #inflater: Inflater | null = null
  /** What has come and was not taken. */
  readonly #kept = new Pieces()
  /** How it ended: with an error, or with none. */
  #end: { error: unknown } | null = null
  /** Whether nobody wants any more of it. */
  #isLeft = false
  /** Who takes the pieces now; null while it is busy with one. */
  #take: TakeBytes | null = null
  #pumped: PromiseWithResolvers<boolean> | null = null
  /** Of what is unpacked, whose reader waits. */
  #makeRoom = () => {}

  constructor({ status, headers }: Head, source: Source) {
    this.status = status
    this.#headers = headers
    this.#source = source
    this.#format = toFormat(headers.get('content-encoding'))
  }

  header(name: string): string | null {
    return this.#headers.get(name) ?? null
  }

  async text(maxBytes: number, take: TakeRoom): Promise<string | null> {
    // All of it is there already, as nearly always: nobody has to be waited for.
    if (this.#end?.error === null && this.#kept.bytes <= DECODED_BYTES) return this.#wholeText(maxBytes, take)
    return readText(this, maxBytes, take)
  }

  #wholeText(maxBytes: number, take: TakeRoom): string | null {
    if (this.#kept.bytes > maxBytes) return null
    const refusal = take(this.#kept.bytes)
    if (refusal) throw refusal
    return whole.decode(this.#kept.join())
  }

  pump(take: TakeBytes): Promise<boolean> {
    if (this.#pumped) throw new Error('it is read already')
    if (this.#isLeft && this.#end === null) return Promise.resolve(false)
    const pumped = Promise.withResolvers<boolean>()
    this.#pumped = pumped
    this.#take = take
    this.#flush()
    return pumped.promise
  }

  leave(): void {
    this.#drop()
    this.#source?.resume()
    // Mostly the end has come in the same piece.
    queueMicrotask(() => {
      if (this.#source !== null) setTimeout(() => this.cancel(), LEFT_MS).unref()
    })
  }

  cancel(): void {
    this.#drop()
    this.#settle((pumped) => pumped.resolve(false))
    this.#release()?.abort()
  }

  /** Ends it for a reason of ours. */
  abort(reason: unknown): void {
    if (this.#end !== null) return
    this.#drop()
    this.#release()?.abort()
    this.#fail(reason)
  }

  // Called as the connection hears it.

  arrived(bytes: Uint8Array): void {
    if (this.#isLeft) return
    if (this.#format === null) {
      this.#arrive(bytes)
      if (this.#kept.bytes > MOST_KEPT) this.#source?.pause()
      return
    }
    // With the first byte: what has no body is not packed either, whatever it says.
    this.#inflater ??= this.#inflate(this.#format)
    const room = this.#inflater.write(bytes)
    if (room === null) return
    this.#source?.pause()
    void room.then(() => this.#source?.resume())
  }

  /** All bytes have come. */
  received(): void {
    this.#release()
    if (this.#inflater === null) this.#finish()
    else this.#inflater.end()
  }

  /** No more will come. */
  broken(error: unknown): void {
    this.#release()
    this.#fail(error)
  }

  #inflate(format: string): Inflater {
    return new Inflater(format, {
      data: (bytes) => this.#arrive(bytes),
      end: () => this.#finish(),
      fail: (error) => this.abort(error),
      room: () => this.#room(),
    })
  }

  /** Where more was unpacked than somebody reads. */
  #room(): Promise<void> | null {
    if (this.#kept.bytes <= MOST_KEPT || this.#isLeft) return null
    return new Promise((resolve) => {
      this.#makeRoom = resolve
    })
  }

  #arrive(bytes: Uint8Array): void {
    if (this.#isLeft) return
    if (this.#take !== null && this.#kept.bytes === 0) this.#hand(this.#take, bytes)
    else this.#kept.push(bytes)
  }

  #finish(): void {
    this.#end ??= { error: null }
    this.#flush()
  }

  #fail(error: unknown): void {
    if (this.#end !== null) return
    this.#end = { error }
    this.#flush()
  }

  /** Hands over what has come, as long as it is wanted; then the end. */
  #flush(): void {
    for (let take = this.#take; take !== null; take = this.#take) {
      const piece = this.#kept.shift()
      if (piece === undefined) break
      this.#hand(take, piece)
    }
    if (this.#kept.bytes <= MOST_KEPT) {
      this.#makeRoom()
      if (this.#take !== null) this.#source?.resume()
    }
    const end = this.#end
    if (this.#take === null || end === null) return
    this.#settle((pumped) => (end.error === null ? pumped.resolve(true) : pumped.reject(end.error)))
  }

  #hand(take: TakeBytes, bytes: Uint8Array): void {
    let went: boolean | Promise<boolean>
    try {
      went = take(bytes)
    } catch (error) {
      this.#settle((pumped) => pumped.reject(error))
      return
    }
    if (went === true) return
    if (went === false) {
      this.#settle((pumped) => pumped.resolve(false))
      return
    }
    const pumped = this.#pumped
    this.#take = null
    went.then(
      (isWanted) => {
        // Whoever read it may have been told of its end meanwhile.
        if (pumped === null || this.#pumped !== pumped) return
        if (!isWanted) {
          this.#settle(() => pumped.resolve(false))
          return
        }
        this.#take = take
        this.#flush()
      },
      (error) => {
        if (this.#pumped === pumped) this.#settle(() => pumped?.reject(error))
      },
    )
  }

  #settle(how: (pumped: PromiseWithResolvers<boolean>) => void): void {
    const pumped = this.#pumped
    this.#take = null
    this.#pumped = null
    if (pumped) how(pumped)
  }

  /** Nothing more of it is wanted. */
  #drop(): void {
    this.#isLeft = true
    this.#kept.clear()
    this.#makeRoom()
  }

  #release(): Source | null {
    const source = this.#source
    this.#source = null
    return source
  }
}
