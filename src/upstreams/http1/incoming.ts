/** A response on our own connection, with its body decompressed. */
import { DECODED_BYTES, readText } from '../pieces.ts'
import type { Incoming, TakeRoom } from '../transport.ts'
import { BodyQueue } from './body-queue.ts'
import type { Head } from './head.ts'
import type { BodyListener } from './response-parser.ts'

export interface Source {
  pause(): void
  resume(): void
  abort(): void
}

const whole = new TextDecoder()
/** How long a stream may take to end after its last event. */
const LEFT_MS = 1_000

export class Http1Incoming extends BodyQueue implements Incoming, BodyListener {
  readonly status: number
  readonly #headers: Head['headers']
  #source: Source | null
  readonly #format: string | null
  #inflater: Inflater | null = null
  /** Set while the decompressor waits for its reader. */
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
    // Nearly always everything has arrived already, and there is nothing to wait for.
    if (this.bytes > maxBytes) return null
    const refusal = take(this.bytes)
    if (refusal) throw refusal
    return whole.decode(this.join())
  }

  leave(): void {
    this.drop()
    this.#source?.resume()
    // Usually the end arrives in the same piece.
    queueMicrotask(() => {
      if (this.#source !== null) setTimeout(() => this.cancel(), LEFT_MS).unref()
    })
  }

  cancel(): void {
    this.drop()
    this.stop()
    this.#release()?.abort()
  }

  abort(reason: unknown): void {
    if (this.isEnded) return
    this.drop()
    this.#release()?.abort()
    this.fail(reason)
  }

  data(piece: Uint8Array, from: number, to: number): void {
    if (this.#format === null) {
      this.add(piece, from, to)
      if (this.isFull) this.#source?.pause()
      return
    }
    if (this.isDropped) return
    // Created with the first byte: an empty body isn't compressed, whatever its headers say.
    this.#inflater ??= this.#inflate(this.#format)
    const room = this.#inflater.write(piece.subarray(from, to))
    if (room === null) return
    this.#source?.pause()
    void room.then(() => this.#source?.resume())
  }

  end(): void {
    this.#release()
    if (this.#inflater === null) this.finish()
    else this.#inflater.end()
  }

  broken(error: unknown): void {
    this.#release()
    this.fail(error)
  }

  override drop(): void {
    super.drop()
    this.#makeRoom?.()
  }

  protected override wanted(): void {
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

  /** Resolves once the reader has caught up; null if it has. */
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

/**
 * The runtime's name for a content-encoding. Null for an unknown one: the body may be plain, and compressed data won't parse as JSON.
 */
export const toFormat = (encoding: string | undefined): string | null =>
  encoding === undefined ? null : (FORMATS[encoding.toLowerCase()] ?? null)

/** A body that doesn't decompress; its name distinguishes it from a broken connection. */
class ZlibError extends Error {
  override readonly name = 'ZlibError'
}

export interface Unpacked {
  data(bytes: Uint8Array): void
  /** Called only once all compressed bytes are written. */
  end(): void
  fail(error: Error): void
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

  /** Returns a promise to wait for before writing more, or null. */
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
    else to.fail(new ZlibError('compressed data is truncated'))
  }
}
