/**
 * What `count.ts` tokenises of a long text, in which pieces, and what the whole comes to by that. Tokenising takes time
 * quadratic in the length of a word, and a hostile text is a single word; so only the head of a long text is counted, and
 * a long word is cut. Pure.
 */
import { O200K_TOKEN_SPLIT_REGEX as WORDS } from 'gpt-tokenizer/encodingParams/constants'
import { bytesOfBase64, readBase64 } from './media.ts'
import type { Prompt } from './prompt.ts'

/** Most bytes that are tokenised for one request: of what the model read, and of what it wrote. */
export const PROMPT_BYTES = 192_000
export const CAPTURED_BYTES = 64_000
/** Most texts: each one has its own cost, however short it is. */
const MAX_TEXTS = 10_000

/**
 * UTF-16 units. No word of the vocabulary is longer than 128, and a run of this length is done in well under a
 * millisecond.
 */
export const LONGEST_WORD = 256
/** UTF-16 units: even where every word is nearly overlong, so many are done in some ten milliseconds. */
const LONGEST_PIECE = 4_096

/**
 * Cuts a text into pieces that are quick to tokenise. The vocabulary tokenises word by word, so that the count of a text
 * without overlong words, which is cut between words, is the exact one.
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

/** Where a piece ends that should end at `end` of a text that ends at `textEnd`: a character above U+FFFF stays whole. */
const endOfPiece = (text: string, end: number, textEnd: number): number =>
  end < textEnd && (text.codePointAt(end - 1) ?? 0) > 0xffff ? end - 1 : end

/** The part of some texts that is tokenised, and how many UTF-8 bytes it and all of them have. */
export interface Excerpt {
  texts: string[]
  bytes: number
  ofBytes: number
}

/** Takes texts from the first on until there are enough bytes. Never ends inside of a character. */
export function toExcerpt(texts: readonly string[], limit: number): Excerpt {
  const excerpt: Excerpt = { texts: [], bytes: 0, ofBytes: 0 }
  for (const text of texts) {
    const bytes = Buffer.byteLength(text)
    addTo(excerpt, bytes, limit, (room) => (bytes <= room ? text : headOf(text, room)))
  }
  return excerpt
}

/** The same for what a model reads; of text files, no more is decoded than is taken. */
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

/** Infers the tokens of all from those of the excerpt: the rest is taken to be like it. Null where there is nothing to go by. */
export function extrapolate(tokens: number, { bytes, ofBytes }: Excerpt): number | null {
  if (ofBytes === 0) return 0
  return bytes === 0 ? null : Math.ceil((tokens * ofBytes) / bytes)
}
