/** Server-sent events out of the pieces of text in which they arrive, as the WHATWG specification parses them. Pure. */

export interface SseEvent {
  /** The `event:` field, or null. */
  name: string | null
  data: string
}

/**
 * Takes LF, CRLF or CR line ends, skips comments, joins several `data` lines and drops events without data. One field of
 * some servers' own, `error:`, is read as an event of that name, for a cut stream must not look whole.
 */
export class SseReader {
  /** Whether an event has grown past the limit: the rest of the stream is of no use then. */
  isTooLarge = false
  /** A line that has not ended. Only what is new is searched, so that a long one is not read again for each piece of it. */
  #line = ''
  #data: string | null = null
  #name: string | null = null
  /** What does not count where the next piece begins with it: a byte order mark, or the second half of a CRLF. */
  #ignored = '\ufeff'

  constructor(readonly maxEventChars: number) {}

  /** Takes the next piece of text and returns the events that it completes, up to one that is too large. */
  feed(text: string): SseEvent[] {
    const out: SseEvent[] = []
    if (text === '') return out
    const piece = text[0] === this.#ignored ? text.slice(1) : text
    this.#ignored = text.endsWith('\r') ? '\n' : ''
    const lines = piece.includes('\r') ? piece.split(/\r\n?|\n/) : piece.split('\n')
    const unended = lines.pop() ?? ''
    for (const line of lines) {
      this.#take(this.#line + line, out)
      this.#line = ''
      if (this.isTooLarge) return out
    }
    this.#line += unended
    if (this.#line.length > this.maxEventChars) this.isTooLarge = true
    return out
  }

  /** Whether what comes next begins an event. */
  isBetweenEvents(): boolean {
    return this.#line === '' && this.#data === null && this.#name === null
  }

  /** Returns an event that the end of the stream completes: some servers leave out the last blank line. */
  end(): SseEvent[] {
    return this.feed('\n\n')
  }

  #take(line: string, out: SseEvent[]): void {
    if (line === '') {
      if (this.#data !== null) out.push({ name: this.#name, data: this.#data })
      this.#data = null
      this.#name = null
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data = this.#data === null ? value : `${this.#data}\n${value}`
    else if (field === 'event') this.#name = value
    else if (field === 'error') {
      this.#name = field
      this.#data = value
    }
    if (this.#data !== null && this.#data.length > this.maxEventChars) this.isTooLarge = true
  }
}
