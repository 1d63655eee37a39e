/**
 * Unpacks the body of an answer whose server packs it although nobody asked for that. Rare, so that it may take a promise a
 * piece; and a few kilobytes may hold gigabytes, so that only as much is unpacked as somebody reads.
 */

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

export class Inflater {
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
