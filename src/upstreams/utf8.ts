/**
 * Text out of the pieces of bytes in which it arrives, as the encoding standard decodes UTF-8 (https://encoding.spec.whatwg.org):
 * what is no character is U+FFFD, and one that two pieces share is read once it is whole. A byte order mark stays. Pure.
 */

/** Bytes below it are characters of their own, and end any other one. */
const FIRST_OF_SEVERAL = 0x80

/** Whether no character goes on behind that place, wherever it began. */
export const endsCharacter = (bytes: Uint8Array, to: number): boolean => (bytes[to - 1] ?? 0) < FIRST_OF_SEVERAL

export class Utf8Reader {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** Whether certainly no character has begun that did not end. */
  isBetween = true

  /** Reads what stands in `bytes` from one place up to another. */
  read(bytes: Uint8Array, from: number, to: number): string {
    if (to === from) return ''
    const wasBetween = this.isBetween
    this.isBetween = endsCharacter(bytes, to)
    // Nearly always. The decoder, and the view that it needs, take three times as long.
    if (wasBetween && this.isBetween && bytes instanceof Buffer) return bytes.toString('utf8', from, to)
    return this.#decoder.decode(bytes.subarray(from, to), { stream: true })
  }

  /** Reads what was left of a character that did not end. */
  end(): string {
    return this.#decoder.decode()
  }
}
