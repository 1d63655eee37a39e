/** An answer whose head has come over a connection of our own, and its body, unpacked where it is packed. */
import { DECODED_BYTES, readText } from '../pieces.ts'
import type { Incoming, TakeRoom } from '../transport.ts'
import { BodyQueue } from './body-queue.ts'
import type { Head } from './head.ts'
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

export class Http1Incoming extends BodyQueue implements Incoming, BodyListener {
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

const FORMATS: Readonly<Record<string, string>> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'brotli',
  zstd: 'zstd',
}

/** How the runtime calls a content-encoding. Null for one that is not known: as likely it is none, and what is packed is no JSON. */
export const toFormat = (encoding: string | undefined): string | null =>
  encoding === undefined ? null : (FORMATS[encoding.toLowerCase()] ?? null)

/** What does not unpack. By its name it is told from a connection that broke. */
class ZlibError extends Error {
  override readonly name = 'ZlibError'
}

export interface Unpacked {
  data(bytes: Uint8Array): void
  /** Only once all that was packed has been written. */
  end(): void
  fail(error: Error): void
  /** Null where there is room for more; else resolves once there is. */
  room(): Promise<void> | null
}

class Inflater {
  readonly #writer: ReturnType<DecompressionStream['writable']['getWriter']>
  #isWritten = false

  constructor(format: string, to: Unpacked) {
    const stream = new DecompressionStream(format as ConstructorParameters<typeof DecompressionStream>[0])
    this.#writer = stream.writable.getWriter()
    void this.#read(stream.readable, to)
  }

  /** Returns a promise where no more should be written before it resolves. */
  write(bytes: Uint8Array): Promise<unknown> | null {
    this.#writer.write(bytes as Uint8Array<ArrayBuffer>).catch(() => {})
    return (this.#writer.desiredSize ?? 1) > 0 ? null : this.#writer.ready.catch(() => {})
  }

  end(): void {
    this.#isWritten = true
    this.#writer.close().catch(() => {})
  }

  async #read(readable: ReadableStream<Uint8Array>, to: Unpacked): Promise<void> {
    try {
      for await (const piece of readable) {
        to.data(piece)
        const room = to.room()
        if (room) await room
      }
    } catch (error) {
      to.fail(new ZlibError(error instanceof Error ? error.message : String(error)))
      return
    }
    if (this.#isWritten) to.end()
    else to.fail(new ZlibError('it ends before its body does'))
  }
}
