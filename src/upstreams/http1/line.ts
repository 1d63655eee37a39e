/** Heads, lines and trailers, each up to its end, out of pieces that end anywhere. Pure. */

export const CR = 13
export const LF = 10
const NOTHING = Buffer.alloc(0)

/** Says where what is read goes on behind its end; -1 where that is not there. What stands before `from` was looked through. */
export type LineEnd = (line: Buffer, from: number) => number

/** What has arrived of one of them, until its end is there; then of the next. */
export class Line {
  #held = NOTHING
  #length = 0

  /**
   * Adds what stands in a piece from `at` on, up to the end that `endOf` finds. The line is whole then, and `to` is where the
   * piece goes on; without an end all of it is held. Null where it is longer than `most`.
   */
  gather(
    piece: Uint8Array,
    at: number,
    most: number,
    endOf: LineEnd,
  ): { line: Buffer; to: number } | { line: null; to: number } | null {
    const before = this.#length
    const rest = Buffer.from(piece.buffer, piece.byteOffset + at, piece.length - at)
    const line = before === 0 ? rest : this.#with(rest.subarray(0, most + 1 - before))
    const end = endOf(line, before)
    if ((end === -1 ? line.length : end) > most) return null
    if (end !== -1) {
      this.#length = 0
      this.#held = NOTHING
      return { line: line.subarray(0, end), to: at + end - before }
    }
    // The next one is put behind it.
    if (before === 0) this.#with(rest)
    return { line: null, to: piece.length }
  }

  /** What is held. */
  peek(): Uint8Array {
    return this.#held.subarray(0, this.#length)
  }

  #with(bytes: Uint8Array): Buffer {
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

function endOfText(line: Buffer, text: string, from: number): number {
  const at = line.indexOf(text, Math.max(0, from - text.length + 1))
  return at === -1 ? -1 : at + text.length
}

export const endOfLine: LineEnd = (line, from) => endOfText(line, '\n', from)
export const endOfHead: LineEnd = (line, from) => endOfText(line, '\r\n\r\n', from)
/** An empty line ends them, be it the first. */
export const endOfTrailers: LineEnd = (line, from) => {
  if (line.length < 2) return -1
  return line[0] === CR && line[1] === LF ? 2 : endOfHead(line, from)
}
