/** What a call has said, as far as it is kept, for a count where its upstream does not report one. */
import { tokensWritten } from '../tokens/written.ts'

/** Of one choice, unless told otherwise; what is beyond it is counted by the ratio of what came before. */
const MAX_CHARS = 64 * 1024

/**
 * A piece of a chunk keeps all of its chunk in memory, which is some fifty times as long: so many at most stay pieces. Those that
 * live through a collection stay until the next full one: with 64 of them, collections took four times as long.
 */
const MAX_PIECES = 8

/** One text: its beginning, and how many UTF-8 bytes are beyond. */
export class Captured {
  readonly #maxChars: number
  #text = ''
  /** The last pieces, which the runtime has not joined yet. */
  #last = ''
  #pieces = 0
  #chars = 0
  more = 0
  /** Estimated so far, and of how many characters. */
  #tokens = 0
  #estimated = 0

  constructor(maxChars = MAX_CHARS) {
    this.#maxChars = maxChars
  }

  get text(): string {
    return this.#text + this.#last
  }

  /** All of it as an estimate, which goes on where the last one ended. */
  estimate(): number {
    const { text, more } = this
    this.#tokens += tokensWritten(text, this.#estimated)
    this.#estimated = text.length
    return more === 0 ? this.#tokens : this.#tokens * (1 + more / Buffer.byteLength(text))
  }

  add(text: string): void {
    const room = this.#maxChars - this.#chars
    this.#chars += text.length
    if (room > 0) this.#keep(text.length <= room ? text : text.slice(0, room))
    if (text.length > room) this.more += Buffer.byteLength(text.slice(Math.max(0, room)))
  }

  #keep(text: string): void {
    this.#last += text
    if (++this.#pieces < MAX_PIECES) return
    // Copied, which alone lets the chunks go.
    this.#text += [this.#last, ''].join('')
    this.#last = ''
    this.#pieces = 0
  }
}
