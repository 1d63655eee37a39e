/** The quick way for a piece of text, as nearly all events of a stream are: its words are read without parsing it. Pure. */
import type { PlainReader } from '../passing.ts'

const NAME = 'content_block_delta'

/** What stands before the text and behind it, as the API writes it: it puts blanks into the JSON. */
const BEFORE =
  /event: content_block_delta\ndata: \{"type":"content_block_delta","index":\d{1,6},"delta":\{"type":"text_delta","text":"/y
const AFTER = /"\} {0,64}\} {0,64}\n\n/y
const DATA = `event: ${NAME}\ndata: `.length

/** Escapes of letters, of which one may be half a character, and what ends a line: read with care. */
const UNUSUAL = /\\[^\\/bfnrt]|[\r\n]/
const BACKSLASH = 92

export class PlainDeltas implements PlainReader {
  end = 0

  read(text: string, at: number): { said: string; data: string; name: string } | null {
    BEFORE.lastIndex = at
    if (!BEFORE.test(text)) return null
    const from = BEFORE.lastIndex
    // The first quote ends the text, unless it is escaped; then what should follow it does not.
    const to = text.indexOf('"', from)
    if (to <= from || text.charCodeAt(to - 1) === BACKSLASH) return null
    AFTER.lastIndex = to
    const json = text.slice(from - 1, to + 1)
    if (!AFTER.test(text) || UNUSUAL.test(json)) return null
    this.end = AFTER.lastIndex
    const said = json.includes('\\') ? JSON.parse(json) : json.slice(1, -1)
    return { said, data: text.slice(at + DATA, this.end - 2), name: NAME }
  }
}
