/**
 * Parts `<think>…</think>` at the beginning of an answer from the answer itself, however the text is cut. Blank space
 * before the block and line ends just inside and just behind its tags are markup and go with them; a block that never
 * ends is all reasoning. A closing tag without its opening one stays text: a stream has sent what was before it long ago,
 * and a whole answer says the same as a stream. Pure.
 */
const OPENING = '<think>'
const CLOSING = '</think>'

export interface Thought {
  reasoning: string
  content: string
}

export interface ThinkSplitter {
  take(text: string): Thought
  /** What was held back because more might have come. From here on, everything is content. */
  end(): Thought
  /** Whether the rest of the text is content. */
  past(): boolean
}

export function createThinkSplitter(): ThinkSplitter {
  let state: 'before' | 'opened' | 'inside' | 'closed' | 'past' = 'before'
  let held = ''

  /** Goes one state further; false where that takes more text. */
  const advance = (out: Thought): boolean => {
    if (state === 'before') {
      const text = held.trimStart()
      if (text.startsWith(OPENING)) {
        held = text.slice(OPENING.length)
        state = 'opened'
        return true
      }
      if (OPENING.startsWith(text)) return false
      state = 'past'
      return true
    }
    if (state === 'opened' || state === 'closed') {
      held = withoutLineEnds(held)
      if (held === '') return false
      state = state === 'opened' ? 'inside' : 'past'
      return true
    }
    if (state === 'inside') {
      const at = held.indexOf(CLOSING)
      const text = at === -1 ? held : held.slice(0, at)
      const end = at === -1 ? toCertainEnd(text) : withoutEndingLines(text, at)
      out.reasoning += text.slice(0, end)
      held = at === -1 ? text.slice(end) : held.slice(at + CLOSING.length)
      if (at !== -1) state = 'closed'
      return at !== -1
    }
    out.content += held
    held = ''
    return false
  }

  return {
    take(text) {
      held += text
      const out: Thought = { reasoning: '', content: '' }
      while (advance(out));
      return out
    },
    end() {
      const out: Thought = { reasoning: '', content: '' }
      if (state === 'inside') out.reasoning = held
      if (state === 'before') out.content = held
      held = ''
      state = 'past'
      return out
    },
    past: () => state === 'past',
  }
}

const isLineEnd = (code: number) => code === 10 || code === 13

function withoutLineEnds(text: string): string {
  let from = 0
  while (from < text.length && isLineEnd(text.charCodeAt(from))) from += 1
  return text.slice(from)
}

function withoutEndingLines(text: string, end: number): number {
  let at = end
  while (at > 0 && isLineEnd(text.charCodeAt(at - 1))) at -= 1
  return at
}

/** How far a thought is certain not to be the beginning of its closing tag, or the line ends before that. */
function toCertainEnd(text: string): number {
  const tag = text.lastIndexOf('<')
  return withoutEndingLines(text, tag !== -1 && CLOSING.startsWith(text.slice(tag)) ? tag : text.length)
}
