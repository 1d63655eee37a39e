/**
 * Reads the parts of a delta or a message by whatever names and in whatever shapes they come: its words, in whole
 * characters, and the lists beside them. Pure.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'

export interface Texts {
  content: string
  reasoning: string
  refusal: string
}

export function toTexts(said: JsonObject): Texts {
  const { content } = said
  const texts: Texts = {
    content: asText(content),
    reasoning: asText(said.reasoning_content) || asText(said.reasoning) || toDetailsText(said.reasoning_details),
    refusal: asText(said.refusal),
  }
  if (typeof content === 'object') for (const part of Array.isArray(content) ? content : [content]) addPart(texts, part)
  return texts
}

function addPart(texts: Texts, value: unknown): void {
  const part = asObject(value)
  if (!part) texts.content += asText(value)
  else if (part.type === 'thinking' || part.type === 'reasoning') texts.reasoning += toThought(part)
  else if (part.type === 'refusal') texts.refusal += asText(part.refusal)
  else texts.content += asText(part.text)
}

/** A thought is a text, or a list of text parts of its own. */
function toThought(part: JsonObject): string {
  const thought = part.thinking ?? part.reasoning ?? part.text
  if (typeof thought === 'string') return thought
  return asList(thought)
    .map((each) => asText(each) || asText(asObject(each)?.text))
    .join('')
}

/** The text of `reasoning_details`, for clients that read only the strings. */
function toDetailsText(details: unknown): string {
  return asList(details)
    .map((each) => asText(asObject(each)?.text) || asText(asObject(each)?.summary))
    .join('')
}

/** The content of a delta or message that says nothing else, as nearly all do; null for any other. */
export function toPlainText(value: unknown): string | null {
  const said = asObject(value)
  if (!said) return null
  for (const key in said) if (key !== 'content' && key !== 'role' && said[key] != null) return null
  const { content } = said
  return typeof content === 'string' ? content : content == null ? '' : null
}

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
