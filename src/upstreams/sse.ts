/**
 * Reads server-sent events from text that arrives in pieces, as the WHATWG specification parses them: LF, CRLF or CR
 * line ends, comments skipped, several `data` lines joined, events without data dropped. One field of some servers'
 * own, `error:`, is read as an event of that name, for a cut stream must not look whole. Pure; the caller decodes UTF-8.
 */
export interface SseEvent {
  /** The `event:` field, or null. */
  name: string | null
  data: string
}

/** Thrown when one event grows past the limit; the rest of the stream is of no use then. */
export class SseTooLarge extends Error {}

export interface SseReader {
  /** Takes the next piece of text and returns the events that it completes. Throws SseTooLarge. */
  feed(text: string): SseEvent[]
  /** Whether what comes next begins an event. */
  isBetweenEvents(): boolean
  /** Returns an event that the end of the stream completes: some servers leave out the last blank line. */
  end(): SseEvent[]
}

export function createSseReader(maxEventChars: number): SseReader {
  let rest = ''
  /** Pieces of a line that has not ended; joined once it does, so that a long one is not copied for each of them. */
  let unended: string[] = []
  let unendedChars = 0
  let data: string | null = null
  let name: string | null = null
  let atStart = true

  const line = (text: string, out: SseEvent[]) => {
    if (text === '') {
      if (data !== null) out.push({ name, data })
      data = null
      name = null
      return
    }
    const colon = text.indexOf(':')
    if (colon === 0) return
    const field = colon === -1 ? text : text.slice(0, colon)
    const value = colon === -1 ? '' : text.slice(text[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') data = data === null ? value : `${data}\n${value}`
    else if (field === 'event') name = value
    else if (field === 'error') {
      name = field
      data = value
    }
    if (data !== null && data.length > maxEventChars) throw new SseTooLarge()
  }

  const drain = (final: boolean): SseEvent[] => {
    const out: SseEvent[] = []
    let from = 0
    let newline = rest.indexOf('\n')
    let carriage = rest.indexOf('\r')
    for (;;) {
      // Searched anew only once passed: a search in vain reads all that is left.
      if (newline !== -1 && newline < from) newline = rest.indexOf('\n', from)
      if (carriage !== -1 && carriage < from) carriage = rest.indexOf('\r', from)
      const isReturn = carriage !== -1 && (newline === -1 || carriage < newline)
      const end = isReturn ? carriage : newline
      if (end === -1) break
      // A CR at the end of the piece may be half of a CRLF: wait for the next piece.
      if (isReturn && end === rest.length - 1 && !final) break
      line(rest.slice(from, end), out)
      from = isReturn && rest.charCodeAt(end + 1) === 10 ? end + 2 : end + 1
    }
    rest = from === 0 ? rest : rest.slice(from)
    if (rest.length > maxEventChars) throw new SseTooLarge()
    return out
  }

  const join = (piece: string) => {
    rest = unended.length === 0 ? rest + piece : rest + unended.join('') + piece
    unended = []
    unendedChars = 0
  }

  return {
    feed(text) {
      if (text === '') return []
      const piece = atStart && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
      atStart = false
      if (!rest.endsWith('\r') && !piece.includes('\n') && !piece.includes('\r')) {
        unended.push(piece)
        unendedChars += piece.length
        if (rest.length + unendedChars > maxEventChars) throw new SseTooLarge()
        return []
      }
      join(piece)
      return drain(false)
    },
    isBetweenEvents: () => rest === '' && unendedChars === 0 && data === null && name === null,
    end() {
      join('')
      const out = drain(true)
      if (rest !== '') line(rest, out)
      rest = ''
      line('', out)
      return out
    },
  }
}
