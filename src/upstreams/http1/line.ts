/** What has arrived of a head, a line or trailers, until its end is there. Pure. */

const NOTHING = Buffer.alloc(0)

/** Bytes of one after the other, out of pieces that end anywhere. */
export class Line {
  #held = NOTHING
  #length = 0

  /**
   * Adds what stands in a piece from `at` on, up to the end that `endOf` finds. The line is whole then, and `to` is where the
   * piece goes on; without an end all of it is held. Null where it is longer than `most`.
   * @param endOf where the line ends; -1 where it does not. What stands before `from` was looked at.
   */
  gather(
    piece: Uint8Array,
    at: number,
    most: number,
    endOf: (line: Buffer, from: number) => number,
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
