/**
 * Queues bytes of a body. Joins small pieces in a copy, since each keeps a whole socket read in memory and a response may arrive byte by
 * byte.
 */
import type { BackendCall } from './backend.ts'
import type { Incoming, TakeRoom } from './transport.ts'

const MAX_BLOCK_BYTES = 64 * 1024
/** Smaller pieces are copied, since each takes about 400 bytes in addition to its own. A single piece isn't. */
const MIN_OWN_BYTES = 4 * 1024
/** Bytes copied per turn, in about a ms. */
const COPIED_BYTES = 2 * 1024 * 1024

export class Pieces {
  readonly #all: Uint8Array[] = []
  #block: Buffer | null = null
  #used = 0
  #bytes = 0

  get bytes(): number {
    return this.#bytes
  }

  push(piece: Uint8Array): void {
    this.#bytes += piece.length
    const isLarge = piece.length >= MIN_OWN_BYTES || this.#all.length === 0
    if (isLarge && piece.length * 2 >= piece.buffer.byteLength) {
      this.#all.push(piece)
      this.#block = null
      return
    }
    let block = this.#block
    if (block !== null && block.length - this.#used >= piece.length) this.#all.pop()
    else {
      // As large as all queued bytes, so that copies are few and half of the block is in use.
      block = Buffer.allocUnsafeSlow(Math.max(piece.length, Math.min(this.#bytes, MAX_BLOCK_BYTES)))
      this.#used = 0
      this.#block = block
    }
    block.set(piece, this.#used)
    this.#used += piece.length
    this.#all.push(block.subarray(0, this.#used))
  }

  shift(): Uint8Array | undefined {
    const piece = this.#all.shift()
    if (this.#all.length === 0) this.#block = null
    this.#bytes -= piece?.length ?? 0
    return piece
  }

  takeAll(): Uint8Array[] {
    const all = [...this.#all]
    this.clear()
    return all
  }

  join(): Uint8Array {
    const [only] = this.#all
    const all = this.#all.length === 1 && only ? only : Buffer.concat(this.#all)
    this.clear()
    return all
  }

  /**
   * The same for pieces that nothing else reads, a few MiB per turn. Frees each piece once it is copied, so that few bytes
   * are in memory twice.
   */
  async joinOwn(inTurn: BackendCall['inTurn']): Promise<Uint8Array> {
    if (this.#all.length <= 1) return this.join()
    const all = new Uint8Array(this.#bytes)
    const pieces = this.#all.values()
    let at = 0
    const copy = () => {
      const end = Math.min(at + COPIED_BYTES, all.length)
      while (at < end) {
        const { value: piece } = pieces.next()
        if (piece === undefined) break
        all.set(piece, at)
        at += piece.length
        release(piece)
      }
    }
    while (at < all.length) await inTurn(copy)
    this.clear()
    return all
  }

  /** Frees all pieces before the garbage collector would. They must not be read again. */
  free(): void {
    for (const piece of this.#all) release(piece)
    this.clear()
  }

  clear(): void {
    this.#all.length = 0
    this.#block = null
    this.#bytes = 0
  }
}

/** Frees bytes that nothing else reads, unless they are only part of a buffer. */
export function release({ buffer, length }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0)
}

export const DECODED_BYTES = 64 * 1024

/** See `Incoming.text`. Cancels the body on any error. */
export async function readText(
  body: Pick<Incoming, 'pump' | 'cancel'>,
  maxBytes: number,
  take: TakeRoom,
): Promise<string | null> {
  const utf8 = new TextDecoder()
  const small = new Pieces()
  let text = ''
  let bytes = 0
  const takeBytes = (piece: Uint8Array, from: number, to: number) => {
    bytes += to - from
    if (bytes > maxBytes) return false
    const refusal = take(to - from)
    if (refusal) throw refusal
    small.push(piece.subarray(from, to))
    if (small.bytes >= DECODED_BYTES) text += utf8.decode(small.join(), { stream: true })
    return true
  }
  try {
    if (await body.pump({ takeBytes })) return text + utf8.decode(small.join())
  } catch (error) {
    body.cancel()
    throw error
  }
  body.cancel()
  return null
}
