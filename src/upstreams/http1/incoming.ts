/** An answer whose head has come over a connection of our own, and its body, unpacked where it is packed. */
import { DECODED_BYTES, readText } from '../read-text.ts'
import type { Incoming, TakeRoom } from '../transport.ts'
import { Handover } from './handover.ts'
import type { Head } from './head.ts'
import { Inflater, toFormat } from './inflate.ts'
import type { BodyListener } from './response-parser.ts'

/** Where the bytes come from. */
export interface Source {
  pause(): void
  resume(): void
  abort(): void
}

const whole = new TextDecoder()
/** So long after its last event a stream may take to end. */
const LEFT_MS = 1_000

export class Http1Incoming extends Handover implements Incoming, BodyListener {
  readonly status: number
  readonly #headers: Head['headers']
  /** Null once all bytes have come, or none will. */
  #source: Source | null
  /** In which its body is packed; null where it is not. */
  readonly #format: string | null
  #inflater: Inflater | null = null
  /** Of what is unpacked, whose reader waits. */
  #makeRoom: (() => void) | null = null

  constructor({ status, headers }: Head, source: Source) {
    super()
    this.status = status
    this.#headers = headers
    this.#source = source
    this.#format = toFormat(headers.get('content-encoding'))
  }

  header(name: string): string | null {
    return this.#headers.get(name) ?? null
  }

  async text(maxBytes: number, take: TakeRoom): Promise<string | null> {
    if (!this.isWhole || this.bytes > DECODED_BYTES) return readText(this, maxBytes, take)
    // All of it is there already, as nearly always: nobody has to be waited for.
    if (this.bytes > maxBytes) return null
    const refusal = take(this.bytes)
    if (refusal) throw refusal
    return whole.decode(this.join())
  }

  leave(): void {
    this.drop()
    this.#source?.resume()
    // Mostly the end has come in the same piece.
    queueMicrotask(() => {
      if (this.#source !== null) setTimeout(() => this.cancel(), LEFT_MS).unref()
    })
  }

  cancel(): void {
    this.drop()
    this.stop()
    this.#release()?.abort()
  }

  /** Ends it for a reason of ours. */
  abort(reason: unknown): void {
    if (this.isEnded) return
    this.drop()
    this.#release()?.abort()
    this.fail(reason)
  }

  // Called as the connection hears it.

  data(piece: Uint8Array, from: number, to: number): void {
    if (this.#format === null) {
      this.add(piece, from, to)
      if (this.isFull) this.#source?.pause()
      return
    }
    if (this.isDropped) return
    // With the first byte: what has no body is not packed either, whatever it says.
    this.#inflater ??= this.#inflate(this.#format)
    const room = this.#inflater.write(piece.subarray(from, to))
    if (room === null) return
    this.#source?.pause()
    void room.then(() => this.#source?.resume())
  }

  /** All bytes have come. */
  end(): void {
    this.#release()
    if (this.#inflater === null) this.finish()
    else this.#inflater.end()
  }

  /** No more will come. */
  broken(error: unknown): void {
    this.#release()
    this.fail(error)
  }

  // Called as its body is taken.

  override drop(): void {
    super.drop()
    this.#makeRoom?.()
  }

  protected override wanted(): void {
    // What is packed waits for whoever unpacks it.
    if (this.#inflater === null) this.#source?.resume()
    else this.#makeRoom?.()
  }

  #inflate(format: string): Inflater {
    return new Inflater(format, {
      data: (bytes) => this.add(bytes, 0, bytes.length),
      end: () => this.finish(),
      fail: (error) => this.abort(error),
      room: () => this.#room(),
    })
  }

  /** Where more was unpacked than somebody reads. */
  #room(): Promise<void> | null {
    if (!this.isFull) return null
    return new Promise((resolve) => {
      this.#makeRoom = resolve
    })
  }

  #release(): Source | null {
    const source = this.#source
    this.#source = null
    return source
  }
}
