/**
 * The demo model's tokens: a run of at most eight letters, four marks or eight blanks, with one leading space kept at
 * the word. Deterministic, linear and without a vocabulary, so that its counts are real and cost nothing. Only the
 * demo backend may use them: no other model counts like this.
 */
import { isHighHalf } from '../domain/utf16.ts'

const WORD = 0
const MARK = 1
const BLANK = 2
type Kind = typeof WORD | typeof MARK | typeof BLANK

const MAX_UNITS: Record<Kind, number> = { [WORD]: 8, [MARK]: 4, [BLANK]: 8 }

function toKind(code: number): Kind {
  if (code === 32 || (code >= 9 && code <= 13) || code === 0xa0 || code === 0x2028 || code === 0x2029) return BLANK
  if (code >= 128 || (code >= 48 && code <= 57)) return WORD
  const letter = code | 32
  return letter >= 97 && letter <= 122 ? WORD : MARK
}

/** Returns where the token that begins at `from` ends. `from` must be inside the text. */
function endOfToken(text: string, from: number): number {
  const leadsWord =
    text.charCodeAt(from) === 32 && from + 1 < text.length && toKind(text.charCodeAt(from + 1)) !== BLANK
  const start = leadsWord ? from + 1 : from
  const kind = toKind(text.charCodeAt(start))
  const limit = Math.min(text.length, start + MAX_UNITS[kind])
  let end = start + 1
  while (end < limit && toKind(text.charCodeAt(end)) === kind) end += 1
  // A character above U+FFFF is two units: never end between them.
  const splitsPair = isHighHalf(text.charCodeAt(end - 1)) && isLow(text.charCodeAt(end))
  return splitsPair ? end + 1 : end
}

const isLow = (code: number) => code >= 0xdc00 && code <= 0xdfff

/** Counts the tokens of a text without building them. */
export function countTokens(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at = endOfToken(text, at)) count += 1
  return count
}

/** Splits a text into its first `most` tokens; joined, all of them are the text again. */
export function toTokens(text: string, most = Number.POSITIVE_INFINITY): string[] {
  const tokens: string[] = []
  for (let at = 0; at < text.length && tokens.length < most; ) {
    const end = endOfToken(text, at)
    tokens.push(text.slice(at, end))
    at = end
  }
  return tokens
}
