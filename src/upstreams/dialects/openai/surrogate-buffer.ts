/**
 * Passes on a text that arrives in pieces, so that no piece ends within a character: servers that cut by UTF-16 units send
 * the two halves of an emoji in two chunks, and a client that decodes each by itself has neither. What is no character
 * at all becomes U+FFFD. Pure.
 */
import { isHighHalf } from '../../../domain/utf16.ts'

export class SurrogateBuffer {
  #held = ''

  take(piece: string): string {
    if (piece === '') return ''
    let text = this.#held === '' ? piece : this.#held + piece
    this.#held = ''
    if (isHighHalf(text.charCodeAt(text.length - 1))) {
      this.#held = text.slice(-1)
      text = text.slice(0, -1)
    }
    return text.isWellFormed() ? text : text.toWellFormed()
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
