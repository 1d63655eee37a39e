/**
 * The most tokens that a prompt may have, whatever it is made of and whichever vocabulary its model has: what is held of a
 * budget while a request is under way, and what is known at once (`estimate.ts`) leaves no room. By what `count.ts` counts, slice
 * by slice. Pure.
 */

import { endOfPiece } from './excerpt.ts'
import { bytesOfBase64, type Images, moreOfImages, mostMoreOfImages, readBase64 } from './media.ts'
import type { Prompt } from './prompt.ts'

/** What a prompt comes to by a count. */
export interface Bound {
  /** By the o200k vocabulary, and by the stated figures of what is not text. */
  tokens: number
  /** At most, on a model of that vocabulary, and on any other one. */
  o200k: number
  other: number
  /** Of these, models count more than is in either. */
  images: Images
}

/** OpenAI's models from gpt-4o on: also behind a prefix such as `openai/`, and the open ones. Azure names them as it likes. */
const O200K = /(?:^|[/:.])(?:gpt-(?:4o|4\.1|4\.5|[5-9]|oss)|chatgpt-4o|o[1-9])(?![a-z0-9])/i

const MINI_4O = /gpt-4o-mini/i
const SMALL = /-(?:mini|nano)/i

/** @param upstreamModel as its upstream calls it. */
export function tokensOn(upstreamModel: string, { o200k, other, images }: Bound): number {
  if (!O200K.test(upstreamModel)) return other + moreOfImages(images)
  if (MINI_4O.test(upstreamModel)) return o200k + mostMoreOfImages(images)
  return SMALL.test(upstreamModel) ? o200k + moreOfImages(images) : o200k
}

/** So many tokens other vocabularies make of one of o200k's, where the text is ordinary: Claude's newest come close to it. */
const TOLERANCE = 1.5
/** They know words in Latin letters, but not the long ones that o200k has, runs of spaces above all. */
const LETTERS_PER_TOKEN = 3

/**
 * The most tokens that any vocabulary makes of some texts: letters and single spaces may be words, anything else has a token
 * a byte, for a vocabulary that does not have it spells it out in bytes.
 *
 * @param tokens as o200k counts it.
 */
export function toOther({ texts, bytes }: TextSlice, tokens: number): number {
  let letters = 0
  for (const text of texts) letters += countLetters(text)
  const spelled = bytes - letters + letters / LETTERS_PER_TOKEN
  return Math.min(bytes, Math.ceil(Math.max(tokens * TOLERANCE, spelled)))
}

function countLetters(text: string): number {
  let letters = 0
  let before = SPACE
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const lower = code | 0x20
    if ((code === SPACE && before !== SPACE) || (lower >= 0x61 && lower <= 0x7a && code < 0x80)) letters++
    before = code
  }
  return letters
}
const SPACE = 0x20

/** A part of what a model reads that is quick to tokenise, and its UTF-8 bytes. */
export interface TextSlice {
  texts: string[]
  bytes: number
}

/** UTF-16 units: of a hostile text, some tenths of a second. Others' counts take their turn between two slices. */
const SLICE_CHARS = 16_384
const MOST_TEXTS = 1_000

/** Cuts what a model reads into slices, in order. */
export function* toSlices(prompt: Prompt): Generator<TextSlice> {
  let slice: TextSlice = { texts: [], bytes: 0 }
  for (const text of piecesOf(prompt)) {
    slice.texts.push(text)
    slice.bytes += Buffer.byteLength(text)
    if (slice.bytes < SLICE_CHARS && slice.texts.length < MOST_TEXTS) continue
    yield slice
    slice = { texts: [], bytes: 0 }
  }
  if (slice.texts.length > 0) yield slice
}

function* piecesOf({ texts, files }: Prompt): Generator<string> {
  for (const text of texts) {
    for (let at = 0; at < text.length; ) {
      const end = endOfPiece(text, at + SLICE_CHARS, text.length)
      yield text.slice(at, end)
      at = end
    }
  }
  for (const file of files) {
    const bytes = bytesOfBase64(file)
    for (let at = 0; at < bytes; at += SLICE_CHARS) yield readBase64(file, at, SLICE_CHARS).toString()
  }
}
