/**
 * The part of a long text that is tokenized, since tokenizing is quadratic in the length of a word, and a hostile text
 * may be a single word.
 */
import { O200K_TOKEN_SPLIT_REGEX as WORDS } from 'gpt-tokenizer/encodingParams/constants'
import { bytesOfBase64, readBase64 } from './media.ts'
import type { Prompt } from './prompt.ts'

/** Bytes tokenized per request: of its input, and of its output. */
export const PROMPT_BYTES = 192_000
export const CAPTURED_BYTES = 64_000
/** Each text has a fixed cost. */
const MAX_TEXTS = 10_000

/** UTF-16 units. No word of the vocabulary exceeds 128, and a run of this length takes well under 1 ms. */
export const LONGEST_WORD = 256
/** UTF-16 units. Takes some 10 ms even if every word is nearly too long. */
const LONGEST_PIECE = 4_096

/**
 * Cuts between words where possible: the vocabulary works word by word, so the count stays exact without overlong
 * words.
 */
export function toPieces(text: string): string[] {
  const pieces: string[] = []
  let from = 0
  for (const { 0: word, index } of text.matchAll(WORDS)) {
    if (word.length <= LONGEST_WORD) {
      if (index + word.length - from > LONGEST_PIECE) {
        pieces.push(text.slice(from, index))
        from = index
      }
      continue
    }
    if (index > from) pieces.push(text.slice(from, index))
    from = index + word.length
    for (let at = index; at < from; ) {
      const end = endOfPiece(text, Math.min(from, at + LONGEST_WORD), from)
      pieces.push(text.slice(at, end))
      at = end
    }
  }
  if (from < text.length) pieces.push(text.slice(from))
  return pieces
}

/** Keeps surrogate pairs together. */
const endOfPiece = (text: string, end: number, textEnd: number): number =>
  end < textEnd && (text.codePointAt(end - 1) ?? 0) > 0xffff ? end - 1 : end

export interface Excerpt {
  texts: string[]
  bytes: number
  ofBytes: number
}

/** Takes texts in order up to the limit; never splits a character. */
export function toExcerpt(texts: readonly string[], limit: number): Excerpt {
  const excerpt: Excerpt = { texts: [], bytes: 0, ofBytes: 0 }
  for (const text of texts) {
    const bytes = Buffer.byteLength(text)
    addTo(excerpt, bytes, limit, (room) => (bytes <= room ? text : headOf(text, room)))
  }
  return excerpt
}

/** Decodes no more of text files than needed. */
export function toPromptExcerpt({ texts, files }: Prompt, limit: number): Excerpt {
  const excerpt = toExcerpt(texts, limit)
  for (const file of files) {
    const bytes = bytesOfBase64(file)
    addTo(excerpt, bytes, limit, (room) => headOf(readBase64(file, 0, Math.min(bytes, room)).toString(), room))
  }
  return excerpt
}

function addTo(excerpt: Excerpt, ofBytes: number, limit: number, take: (room: number) => string) {
  excerpt.ofBytes += ofBytes
  const room = excerpt.texts.length < MAX_TEXTS ? limit - excerpt.bytes : 0
  const text = room > 0 ? take(room) : ''
  if (text === '') return
  excerpt.texts.push(text)
  excerpt.bytes += Math.min(ofBytes, Buffer.byteLength(text))
}

const encoder = new TextEncoder()
const headOf = (text: string, bytes: number) => text.slice(0, encoder.encodeInto(text, new Uint8Array(bytes)).read)

/** Assumes the rest is like the excerpt. Null for an empty excerpt. */
export function extrapolate(tokens: number, { bytes, ofBytes }: Excerpt): number | null {
  if (ofBytes === 0) return 0
  return bytes === 0 ? null : Math.ceil((tokens * ofBytes) / bytes)
}
