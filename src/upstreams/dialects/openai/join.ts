/**
 * Passes on a text that arrives in pieces, so that no piece ends within a character: servers that cut by UTF-16 units send
 * the two halves of an emoji in two chunks, and a client that decodes each by itself has neither. What is no character
 * at all becomes U+FFFD. Pure.
 */
import { isHighHalf } from '../../../domain/utf16.ts'

export interface Joiner {
  take(piece: string): string
  /** What is left once nothing more comes. */
  end(): string
  /** Whether nothing is held back. */
  idle(): boolean
}

export function createJoiner(): Joiner {
  let held = ''
  return {
    take(piece) {
      if (piece === '') return ''
      let text = held === '' ? piece : held + piece
      held = ''
      if (isHighHalf(text.charCodeAt(text.length - 1))) {
        held = text.slice(-1)
        text = text.slice(0, -1)
      }
      return text.isWellFormed() ? text : text.toWellFormed()
    },
    end() {
      const rest = held.toWellFormed()
      held = ''
      return rest
    },
    idle: () => held === '',
  }
}
