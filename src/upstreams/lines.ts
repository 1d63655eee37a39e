/** Lines of JSON out of the pieces of text in which they arrive (application/x-ndjson), as events without names. Pure. */
import type { SseEvent } from './sse.ts'

export class LineReader {
  /** Whether a line has grown past the limit: the rest of the stream is of no use then. */
  isTooLarge = false
  #line = ''

  constructor(readonly maxEventChars: number) {}

  /** Takes the next piece of text and returns the lines that it completes, up to one that is too large. */
  feed(text: string): SseEvent[] {
    const lines = text.split('\n')
    const unended = lines.pop() ?? ''
    const out: SseEvent[] = []
    for (const line of lines) {
      const data = this.#line + line
      this.#line = ''
      if (data.length > this.maxEventChars) {
        this.isTooLarge = true
        return out
      }
      if (data.trim() !== '') out.push({ name: null, data })
    }
    this.#line += unended
    if (this.#line.length > this.maxEventChars) this.isTooLarge = true
    return out
  }

  /** Whether what comes next begins a line. */
  isBetweenEvents(): boolean {
    return this.#line === ''
  }

  /** Returns a line that the end of the stream completes. */
  end(): SseEvent[] {
    return this.feed('\n')
  }
}
