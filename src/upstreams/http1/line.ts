/** Heads, lines and trailers, each up to its end, out of pieces that end anywhere. Pure. */

export const CR = 13
export const LF = 10
const NOTHING = Buffer.alloc(0)

/**
 * Says where what is read goes on behind the end of a line that begins at `start`; -1 where that end is not there. What stands
 * before `from` was looked through.
 */
export type LineEnd = (bytes: Buffer, start: number, from: number) => number

/** What has arrived of one of them, until its end is there; then of the next. */
export class Line {
  #held = NOTHING
  #length = 0

  /**
   * Adds what stands in a piece from `at` on, up to the end that `endOf` finds. The line is whole then, a character a byte, and
   * `to` is where the piece goes on; without an end all of it is held. Null where it is longer than `most`.
   */
  gather(piece: Buffer, at: number, most: number, endOf: LineEnd): { text: string | null; to: number } | null {
    const before = this.#length
    if (before > 0) return this.#gatherOn(piece.subarray(at, at + most + 1 - before), at, most, endOf)
    const end = endOf(piece, at, at)
    if ((end === -1 ? piece.length : end) - at > most) return null
    if (end !== -1) return { text: piece.toString('latin1', at, end), to: end }
    this.#hold(piece.subarray(at))
    return { text: null, to: piece.length }
  }

  /** What is held. */
  peek(): Uint8Array {
    return this.#held.subarray(0, this.#length)
  }

  #gatherOn(rest: Buffer, at: number, most: number, endOf: LineEnd): { text: string | null; to: number } | null {
    const before = this.#length
    const line = this.#hold(rest)
    const end = endOf(line, 0, before)
    if ((end === -1 ? line.length : end) > most) return null
    if (end === -1) return { text: null, to: at + rest.length }
    this.#length = 0
    this.#held = NOTHING
    return { text: line.toString('latin1', 0, end), to: at + end - before }
  }

  /** Puts bytes behind those that are held. */
  #hold(bytes: Uint8Array): Buffer {
    const length = this.#length + bytes.length
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#held.length))
      larger.set(this.peek())
      this.#held = larger
    }
    this.#held.set(bytes, this.#length)
    this.#length = length
    return this.#held.subarray(0, length)
  }
}

function endOfText(bytes: Buffer, text: string, start: number, from: number): number {
  const at = bytes.indexOf(text, Math.max(start, from - text.length + 1))
  return at === -1 ? -1 : at + text.length
}

export const endOfLine: LineEnd = (bytes, start, from) => endOfText(bytes, '\n', start, from)
export const endOfHead: LineEnd = (bytes, start, from) => endOfText(bytes, '\r\n\r\n', start, from)
/** An empty line ends them, be it the first. */
export const endOfTrailers: LineEnd = (bytes, start, from) => {
  if (bytes.length < start + 2) return -1
  return bytes[start] === CR && bytes[start + 1] === LF ? start + 2 : endOfHead(bytes, start, from)
}
