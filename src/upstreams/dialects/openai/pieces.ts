/** What arrives in pieces and has to be whole for clients: text in whole characters, lists with numbered items. Pure. */
import { asList, asObject } from '../../../domain/json.ts'

/**
 * Passes on a text that arrives in pieces, so that no piece ends within a character: servers that cut by UTF-16 units send
 * the two halves of an emoji in two chunks, and a client that decodes each by itself has neither. What is no character
 * at all becomes U+FFFD.
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

/**
 * Numbers what comes as a list beside the text, `reasoning_details` and `annotations`: clients join the pieces of a stream
 * by an integer `index`, and some stop at an item without one (openai-python raises on the second chunk).
 */
export class ItemNumbers {
  #next = 0
  readonly #byType = new Map<unknown, number>()

  /** @param joins whether an item without an index goes on where the last of its type was; otherwise it is one of its own. */
  constructor(readonly joins: boolean) {}

  /** Gives each item its `index`; what is no object is left out. */
  take(list: unknown): object[] {
    return asList(list).flatMap((each) => {
      const item = asObject(each)
      if (!item) return []
      const known = this.joins ? this.#byType.get(item.type) : undefined
      const index = isIndex(item.index) ? item.index : (known ?? this.#next)
      this.#byType.set(item.type, index)
      this.#next = Math.max(this.#next, index + 1)
      return { ...item, index }
    })
  }
}

/** Far beyond any list: numbers that are larger still cannot be counted on. */
const MAX_INDEX = 1e6

const isIndex = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_INDEX
