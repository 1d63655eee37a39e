/**
 * Parts `<think>…</think>` at the beginning of an answer from the answer itself, however the text is cut; `<reasoning>`, as Bedrock
 * has it, and `<thought>`, as Google's OpenAI API has it, are the same. Blank space
 * before the block and line ends just inside and just behind its tags are markup and go with them; a block that never
 * ends is all reasoning. A closing tag without its opening one stays text: a stream has sent what was before it long ago,
 * and a whole answer says the same as a stream. Pure.
 */
const OPENINGS = ['<think>', '<reasoning>', '<thought>'] as const

export interface Thought {
  reasoning: string
  content: string
}

export class ThinkSplitter {
  #state: 'before' | 'opened' | 'inside' | 'closed' | 'past' = 'before'
  #held = ''
  /** The tag that ends the thought. */
  #closing = ''

  /** Whether the rest of the text is content. */
  get isPast(): boolean {
    return this.#state === 'past'
  }

  take(text: string): Thought {
    this.#held += text
    const out: Thought = { reasoning: '', content: '' }
    if (this.#state === 'before') this.#open()
    if (this.#state === 'opened') this.#passLineEnds('inside')
    if (this.#state === 'inside') out.reasoning = this.#takeThought()
    if (this.#state === 'closed') this.#passLineEnds('past')
    if (this.#state !== 'past') return out
    out.content = this.#held
    this.#held = ''
    return out
  }

  /** What was held back because more might have come. From here on, everything is content. */
  end(): Thought {
    const held = this.#held
    const out = { reasoning: this.#state === 'inside' ? held : '', content: this.#state === 'before' ? held : '' }
    this.#held = ''
    this.#state = 'past'
    return out
  }

  #open(): void {
    const text = this.#held.trimStart()
    const opening = OPENINGS.find((tag) => text.startsWith(tag))
    if (opening !== undefined) {
      this.#held = text.slice(opening.length)
      this.#closing = opening.replace('<', '</')
      this.#state = 'opened'
    } else if (!OPENINGS.some((tag) => tag.startsWith(text))) this.#state = 'past'
  }

  #passLineEnds(next: 'inside' | 'past'): void {
    this.#held = this.#held.replace(/^[\r\n]+/, '')
    if (this.#held !== '') this.#state = next
  }

  /** Up to the closing tag, or as far as it is certain that none begins, nor the line ends before one. */
  #takeThought(): string {
    const held = this.#held
    const endTag = this.#closing
    const closing = held.indexOf(endTag)
    const tag = closing === -1 ? held.lastIndexOf('<') : closing
    let end = tag !== -1 && (tag === closing || endTag.startsWith(held.slice(tag))) ? tag : held.length
    while (end > 0 && (held[end - 1] === '\n' || held[end - 1] === '\r')) end -= 1
    this.#held = held.slice(closing === -1 ? end : closing + endTag.length)
    if (closing !== -1) this.#state = 'closed'
    return held.slice(0, end)
  }
}
