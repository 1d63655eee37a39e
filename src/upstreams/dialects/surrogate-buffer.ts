/**
 * Passes on a text that arrives in pieces, so that no piece ends within a character: servers that cut by UTF-16 units send
 * the two halves of an emoji in two chunks, and a client that decodes each by itself has neither. What is no character
 * at all becomes U+FFFD. Pure.
 */
export class SurrogateBuffer {
  #held = ''

  take(piece: string): string {
    if (piece === '') return ''
    const text = this.#held + piece
    // The first half of a character above U+FFFF.
    this.#held = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800 ? text.slice(-1) : ''
    return (this.#held === '' ? text : text.slice(0, -1)).toWellFormed()
  }

  /** What is left once nothing more comes. */
  end(): string {
    const rest = this.#held.toWellFormed()
    this.#held = ''
    return rest
  }

  /** Whether nothing is held back. */
  get isEmpty(): boolean {
    return this.#held === ''
  }
}
