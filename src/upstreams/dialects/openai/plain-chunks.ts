/**
 * The quick way for a chunk that is a piece of content and nothing else, as nearly all are: what stands before and after
 * the content is learnt from one such chunk, and the next one of the same make is read without parsing it. Pure.
 */
import type { AnswerEvent } from '../../../domain/events.ts'

/** So many lessons without use: a stream whose chunks never look alike, such as one with padding, is not studied for ever. */
const MAX_LESSONS = 8

/** Escapes other than of line ends, tabs, slashes and backslashes, and what would end a line for somebody: read with care. */
const UNUSUAL = /\\[^\\/bfnrt]|[^\u0020-\u0084\u0086-\u2027\u202a-\uffff]/

const BACKSLASH = 92

/** How a chunk stands in its stream. */
const BEFORE = 'data: '
const AFTER = '\n\n'

export class PlainChunks {
  #prefix = ''
  #suffix = ''
  #choice = 0
  #lessons = MAX_LESSONS
  /** Where what was read last ends. */
  end = 0

  /** Reads the event of the learnt make that stands at a place of the text; null for any other. */
  read(text: string, at: number): (AnswerEvent & { kind: 'text' }) | null {
    const prefix = this.#prefix
    if (prefix === '' || !text.startsWith(prefix, at)) return null
    const from = at + prefix.length
    // The first quote ends the content, unless it is escaped; then what was learnt does not follow it.
    const to = text.indexOf('"', from)
    if (to <= from || text.charCodeAt(to - 1) === BACKSLASH || !text.startsWith(this.#suffix, to)) return null
    const json = text.slice(from - 1, to + 1)
    if (UNUSUAL.test(json)) return null
    this.end = to + this.#suffix.length
    this.#lessons = MAX_LESSONS
    return {
      kind: 'text',
      choice: this.#choice,
      text: json.includes('\\') ? JSON.parse(json) : json.slice(1, -1),
      json,
    }
  }

  /** Learns from a chunk that was read the long way, and said this piece of content and nothing else. */
  learn(data: string, { text, choice }: { text: string; choice: number }): void {
    // An event over several lines has a line end where this looks for none.
    if (this.#lessons === 0 || data.includes('\n')) return
    this.#lessons--
    const json = JSON.stringify(text)
    const at = data.indexOf(json)
    if (at === -1) return
    const prefix = data.slice(0, at + 1)
    const suffix = data.slice(at + json.length - 1)
    // The same text may stand elsewhere, too: only where another one becomes the content, this is its place.
    if (contentOf(`${prefix}${MARK}${suffix}`) !== MARK) return
    this.#prefix = BEFORE + prefix
    this.#suffix = suffix + AFTER
    this.#choice = choice
  }
}

const MARK = 'tollgate'

function contentOf(data: string): unknown {
  try {
    return JSON.parse(data)?.choices?.[0]?.delta?.content
  } catch {
    return null
  }
}
