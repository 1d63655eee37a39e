/** The kinds of blocks that an answer is made of, each read as it comes: its beginning, its pieces, its end. Pure. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import { SurrogateBuffer } from '../surrogate-buffer.ts'
import { FORMAT } from './thoughts.ts'

/** A block that is being read. */
export interface BlockReader {
  take(delta: JsonObject, out: AnswerEvent[]): void
  /** Says what was held back. */
  end(out: AnswerEvent[]): void
}

/** A text that comes whole. */
export const toWhole = (value: unknown): string => asText(value).toWellFormed()

/** Where the blocks of an answer stand among each other, and whose they are. */
export interface Places {
  /** Who signs what was thought (`toSigner`). */
  signer: string
  /** UTF-16 units of text so far. */
  chars: number
  thoughts: number
  annotations: number
}

export class TextReader implements BlockReader {
  readonly #places: Places
  readonly #from: number
  readonly #text = new SurrogateBuffer()
  readonly #citations: JsonObject[] = []

  constructor(block: JsonObject, places: Places, out: AnswerEvent[]) {
    this.#places = places
    this.#from = places.chars
    for (const citation of asList(block.citations)) this.#cite(citation)
    this.#say(this.#text.take(asText(block.text)), out)
  }

  take(delta: JsonObject, out: AnswerEvent[]): void {
    if (delta.type === 'text_delta') this.#say(this.#text.take(asText(delta.text)), out)
    else if (delta.type === 'citations_delta') this.#cite(delta.citation)
  }

  end(out: AnswerEvent[]): void {
    this.#say(this.#text.end(), out)
    const span = { start_index: this.#from, end_index: this.#places.chars }
    const items = this.#citations.flatMap((citation) => {
      const item = toAnnotation(citation, span)
      return item ? { ...item, index: this.#places.annotations++ } : []
    })
    if (items.length > 0) out.push({ kind: 'annotations', choice: 0, items })
  }

  #cite(value: unknown): void {
    const citation = asObject(value)
    if (citation) this.#citations.push(citation)
  }

  #say(text: string, out: AnswerEvent[]): void {
    this.#places.chars += text.length
    if (text !== '') out.push({ kind: 'text', choice: 0, text })
  }
}

/** Web pages and search results are cited by their address; documents of the request by their title. */
function toAnnotation(citation: JsonObject, span: { start_index: number; end_index: number }): object | null {
  const title = toWhole(citation.title) || toWhole(citation.document_title)
  const url = toWhole(citation.url) || toWhole(citation.source)
  const quoted = toWhole(citation.cited_text)
  const content = quoted === '' ? {} : { content: quoted }
  if (url !== '') return { type: 'url_citation', url_citation: { url, title, ...content, ...span } }
  if (typeof citation.document_index !== 'number') return null
  return { type: 'file_citation', file_citation: { filename: title, ...content, ...span } }
}

/** A thought in words, and the signature by which it is known when it comes back. */
export class ThoughtReader implements BlockReader {
  readonly #index: number
  readonly #signer: string
  readonly #text = new SurrogateBuffer()
  #isNamed = false

  constructor(block: JsonObject, places: Places, out: AnswerEvent[]) {
    this.#index = places.thoughts++
    this.#signer = places.signer
    // Its words may be kept from everybody, and take minutes.
    out.push({ kind: 'working' })
    this.#think(this.#text.take(asText(block.thinking)), out)
    this.#sign(toWhole(block.signature), out)
  }

  take(delta: JsonObject, out: AnswerEvent[]): void {
    if (delta.type === 'thinking_delta') this.#think(this.#text.take(asText(delta.thinking)), out)
    else if (delta.type === 'signature_delta') this.#sign(toWhole(delta.signature), out)
  }

  end(out: AnswerEvent[]): void {
    this.#think(this.#text.end(), out)
  }

  #think(text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind: 'reasoning', choice: 0, text, details: [this.#detail({ text })] })
  }

  #sign(signature: string, out: AnswerEvent[]): void {
    if (signature === '') return
    this.end(out)
    out.push({ kind: 'reasoning', choice: 0, text: '', details: [this.#detail({ signature })] })
  }

  /** What names it is said once: clients join the texts of one index. */
  #detail(said: { text: string } | { signature: string }): object {
    const named = this.#isNamed ? {} : { format: FORMAT, signer: this.#signer }
    this.#isNamed = true
    return { type: 'reasoning.text', ...said, ...named, index: this.#index }
  }
}

/** Thoughts that nobody may read. They come whole. */
export function readRedacted(block: JsonObject, places: Places, out: AnswerEvent[]): void {
  const data = toWhole(block.data)
  if (data === '') return
  const { signer } = places
  const detail = { type: 'reasoning.encrypted', data, format: FORMAT, signer, index: places.thoughts++ }
  out.push({ kind: 'reasoning', choice: 0, text: '', details: [detail] })
}
