/**
 * Finds JSON in what a model wrote: alone, in a code fence, between sentences, or nearly JSON and repaired. Pure, but as
 * slow as a text is nasty: only `check-worker.ts` runs it.
 */
import { jsonrepair } from 'jsonrepair'

/** A piece of an answer that is JSON. `text` is as the model wrote it, or repaired: numbers and the order of keys are kept. */
interface JsonPiece {
  text: string
  value: unknown
}

/** Brackets in prose look like JSON, too: only this many are looked at. */
const MAX_OPENINGS = 32

/** Yields the pieces of a text that are or could be meant as JSON, in the order in which they stand there. */
export function* findJson(written: string): Generator<JsonPiece> {
  const text = written.replace(/^\uFEFF/, '').trim()
  const whole = parse(text)
  if (whole) {
    yield whole
    // Some models write JSON into a JSON string.
    if (typeof whole.value === 'string') yield* findJson(whole.value)
    return
  }
  let at = nextOpening(text, 0)
  for (let tried = 0; at !== -1 && tried < MAX_OPENINGS; tried++) {
    const end = endOf(text, at)
    const piece = end === -1 ? withoutFence(text.slice(at)) : text.slice(at, end)
    const found = parse(piece) ?? repair(piece)
    if (found) yield found
    // Inside of a piece there are only parts of an answer.
    if (found && end === -1) return
    at = nextOpening(text, found ? end : at + 1)
  }
}

function nextOpening(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '{' || text[at] === '[') return at
  return -1
}

/** Where the bracket that opens at `start` is closed, brackets in strings left aside; -1 where it never is. */
function endOf(text: string, start: number): number {
  let depth = 0
  let quoted = false
  for (let at = start; at < text.length; at++) {
    const char = text[at]
    if (quoted) {
      if (char === '\\') at++
      else if (char === '"') quoted = false
    } else if (char === '"') quoted = true
    else if (char === '{' || char === '[') depth++
    else if ((char === '}' || char === ']') && --depth === 0) return at + 1
  }
  return -1
}

function withoutFence(text: string): string {
  const fence = text.lastIndexOf('```')
  return fence === -1 ? text : text.slice(0, fence)
}

/** `{` before a key or an end, `[` before a value: what is repaired has to begin like JSON, or any prose would do. */
const LIKE_JSON = /^(?:\{\s*(?:["'“”‘’`}]|\/[/*]|[\w$]+\s*:)|\[\s*(?:["'“”‘’{[\]-]|\d|\/[/*]|true|false|null))/i

/** Repairing is recursive: how deep it gets depends on the stack of the moment, and no answer is nested like that. */
const MAX_DEPTH = 1_000

function isTooDeep(text: string): boolean {
  let depth = 0
  for (const char of text) {
    if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    if (depth > MAX_DEPTH) return true
  }
  return false
}

function repair(text: string): JsonPiece | null {
  if (!LIKE_JSON.test(text) || isTooDeep(text)) return null
  try {
    return parse(jsonrepair(text))
  } catch {
    return null
  }
}

function parse(text: string): JsonPiece | null {
  try {
    return { text: text.trim(), value: JSON.parse(text) }
  } catch {
    return null
  }
}
