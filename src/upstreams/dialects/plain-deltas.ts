/** The quick way for a piece of text, as nearly all events of a stream are: its words are read without parsing it. Pure. */
import type { PlainReader } from '../backend.ts'

/** Escapes of letters, of which one may be half a character, and what ends a line: read with care. */
const UNUSUAL = /\\[^\\/bfnrt]|[\r\n]/
const BACKSLASH = 92

/** What stands before the text and behind it, from the beginning of an event to its end: sticky. */
interface DeltaShape {
  before: RegExp
  after: RegExp
}

/** One is enough for all streams: what it keeps is read in the call after. */
export class PlainDeltas implements PlainReader {
  readonly #before: RegExp
  readonly #after: RegExp
  /** Where what was read last ends. */
  end = 0

  constructor({ before, after }: DeltaShape) {
    this.#before = before
    this.#after = after
  }

  read(text: string): string | null {
    if (text === '') return null
    let said = ''
    for (let at = 0; at < text.length; at = this.end) {
      const piece = this.readAt(text, at)
      if (piece === null) return null
      said += piece
    }
    return said
  }

  /** Reads the event that stands at a place, up to `end`. Null where it is anything but a piece of text. */
  readAt(text: string, at: number): string | null {
    const before = this.#before
    before.lastIndex = at
    if (!before.test(text)) return null
    const from = before.lastIndex
    // The first quote ends the text, unless it is escaped; then what should follow it does not.
    const to = text.indexOf('"', from)
    if (to <= from || text.charCodeAt(to - 1) === BACKSLASH) return null
    const after = this.#after
    after.lastIndex = to
    if (!after.test(text)) return null
    const said = text.slice(from, to)
    if (UNUSUAL.test(said)) return null
    this.end = after.lastIndex
    return said.includes('\\') ? JSON.parse(`"${said}"`) : said
  }
}
