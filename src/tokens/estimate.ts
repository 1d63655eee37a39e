/**
 * The tokens that a request is likely to use at most, guessed from its bytes before it is sent: what its row reserves, what
 * its rates count, and what it is charged where nobody could settle it. And the most that it may read, a token a byte: what a
 * budget holds, unless a count comes closer (`count.ts`). Never a tokenizer, whose time grows with the square of a hostile
 * text. What was really used, where no upstream says it, is counted in `count.ts`. Pure.
 */

import { REQUEST_FIELDS } from '../domain/fields.ts'
import type { AnyRequest } from '../domain/request.ts'
import { EmbeddingsRequest } from '../domain/task.ts'
import { bytesOfBase64 } from './media.ts'
import { isOfUser, toPrompt, unreadBytes } from './prompt.ts'

/** Four UTF-8 bytes are taken for a token; each message costs eight more. */
export const BYTES_PER_TOKEN = 4
export const TOKENS_PER_MESSAGE = 8
/** Many models for embeddings read a mark before and one after each input. */
const TOKENS_PER_INPUT = 2
/** Output that is reserved where the client gives no cap. */
export const DEFAULT_OUTPUT_TOKENS = 4_096

export interface Estimate {
  promptTokens: number
  completionTokens: number
}

export const tokensOfBytes = (bytes: number) => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Estimates the tokens a request reads and the most that it may write, all its choices together. */
export function estimate(body: AnyRequest, maxOutputLength: number): Estimate {
  return {
    promptTokens: estimatePrompt(body),
    completionTokens: toCap(body, maxOutputLength) * (body.n ?? 1),
  }
}

/** Estimates the tokens that a request reads. */
export const estimatePrompt = (body: AnyRequest): number => measurePrompt(body).promptTokens

/** Estimates the tokens that a request reads, and says how many they are at most: no vocabulary makes two of a byte. */
export function measurePrompt(body: AnyRequest): { promptTokens: number; maxPromptTokens: number } {
  const prompt = toPrompt(body)
  const { texts, files, messages, inputs, audio, images, others, otherBytes } = prompt
  let bytes = 0
  for (const text of texts) bytes += Buffer.byteLength(text)
  for (const file of files) bytes += bytesOfBase64(file)
  const beside = messages * TOKENS_PER_MESSAGE + inputs * TOKENS_PER_INPUT + audio + images
  return {
    promptTokens: tokensOfBytes(bytes) + beside + others,
    maxPromptTokens: bytes + beside + Math.max(others, otherBytes) + mostMoreOfImages(prompt),
  }
}

/** Guide "Images and vision": gpt-4o-mini counts 2,833 for the base and 5,667 for a tile, its fellows 85 and 170. */
const MAX_TIMES = 2_833 / 85 + 0.01
/** Other vendors' models count up to 4,784 (Claude), small ones of OpenAI's up to 3,779, whatever the detail. */
const MAX_PER_IMAGE = 5_000

/** So many images, and the tokens that they come to by the figures here. */
export interface Images {
  images: number
  pictures: number
}

/** What images may come to beyond that on a model that counts otherwise, and on gpt-4o-mini, which counts most. */
export const moreOfImages = ({ pictures }: Images): number => pictures * MAX_PER_IMAGE
export const mostMoreOfImages = ({ images, pictures }: Images): number =>
  Math.ceil(Math.max(images * (MAX_TIMES - 1), pictures * MAX_PER_IMAGE))

/** The most tokens that a prompt may have, without a count. */
export const worstPrompt = (body: AnyRequest): number => measurePrompt(body).maxPromptTokens + bytesOfExtras(body)

const MESSAGE_FIELDS: ReadonlySet<string> = new Set([
  ...['role', 'content', 'name', 'refusal', 'tool_calls', 'tool_call_id', 'function_call', 'audio'],
])
const LAST_TURN_FIELDS: ReadonlySet<string> = new Set([...MESSAGE_FIELDS, 'reasoning', 'reasoning_content'])

/**
 * Measures what the estimate leaves out because most upstreams do not read it: fields that are none of the API's, of the
 * request and of its messages, the reasoning of earlier turns, and what a request that goes on as it came has beside.
 */
export function bytesOfExtras(body: AnyRequest): number {
  if (body instanceof EmbeddingsRequest) return bytesBeside(body.extras, REQUEST_FIELDS)
  let bytes = bytesBeside(body, REQUEST_FIELDS) + unreadBytes(body)
  const lastUser = body.messages.findLastIndex(isOfUser)
  let at = 0
  for (const message of body.messages)
    bytes += bytesBeside(message, at++ > lastUser ? LAST_TURN_FIELDS : MESSAGE_FIELDS)
  return bytes
}

function bytesBeside(value: object, known: ReadonlySet<string>): number {
  let bytes = 0
  for (const name in value) {
    if (!known.has(name)) bytes += Buffer.byteLength(JSON.stringify((value as Record<string, unknown>)[name]) ?? '')
  }
  return bytes
}

/** The most tokens that a request lets a choice have; null where it does not say. */
export const capOf = ({ max_completion_tokens: newer, max_tokens: older }: AnyRequest): number | null =>
  newer ?? older ?? null

/** The most tokens that one choice is likely to have. No upstream writes more than the model can, whatever a client asks for. */
export function toCap(body: AnyRequest, maxOutputLength: number): number {
  return Math.min(capOf(body) ?? DEFAULT_OUTPUT_TOKENS, maxOutputLength)
}

/** The most tokens that an answer may have, all its choices together: without a cap, as many as the model writes. */
export const toMostOutput = (body: AnyRequest, maxOutputLength: number): number =>
  Math.min(capOf(body) ?? maxOutputLength, maxOutputLength) * (body.n ?? 1)

type Class = 'word' | 'capitals' | 'digits' | 'space' | 'mark' | 'wide'

const classOf = (code: number): Class => {
  if (code >= 0x80) return isLatin(code) ? 'word' : 'wide'
  if (code >= 0x61 && code <= 0x7a) return 'word'
  if (code >= 0x41 && code <= 0x5a) return 'capitals'
  if (code >= 0x30 && code <= 0x39) return 'digits'
  return code <= 0x20 ? 'space' : 'mark'
}

/** Letters with accents are in a word as others are, but make it longer, those of fewer languages more. */
const isLatin = (code: number) => (code >= 0xc0 && code < 0x250) || (code >= 0x1e00 && code < 0x1f00)
const accent = (code: number) => (code < 0x100 ? 0.35 : 0.7)

/** What vocabularies have as one token; what is longer is spelled out. */
const WHOLE_WORD = 8
const WHOLE_NUMBER = 3

/** Tokens of a code unit below each end: scripts that many people write have words of several, rare ones are spelled out in bytes. */
const WIDE: readonly (readonly [end: number, tokens: number])[] = [
  [0x300, 1],
  [0x360, 1.7],
  // Greek, Cyrillic, Armenian, Hebrew, Arabic; then those of India, and Thai.
  [0x700, 0.38],
  [0x900, 1.5],
  [0xe80, 0.45],
  [0x1000, 1.6],
  // Burmese, Georgian.
  [0x1100, 0.5],
  [0x1780, 2.2],
  // Khmer.
  [0x1800, 0.6],
  [0x2000, 2.2],
  // Signs, kana, ideographs, Hangul.
  [0x3000, 1.1],
  [0x3400, 0.7],
  [0x4e00, 2.5],
  [0xa000, 0.8],
  [0xac00, 2.2],
  [0xd800, 0.65],
  [0x10000, 1.2],
]
const BLOCK_BITS = 5
const wideBlocks = Float64Array.from(
  { length: 0x10000 >> BLOCK_BITS },
  (_, block) => WIDE.find(([end]) => block << BLOCK_BITS < end)?.[1] ?? 0,
)

/**
 * Estimates the tokens of text that a model has written so far, while it still writes: in one pass, without a vocabulary. What a
 * budget holds goes by it. Over prose, code, JSON and most scripts it is within 40% of the o200k count; random text has up to half as
 * many more.
 * @param from where in the text to begin.
 */
export function tokensWritten(text: string, from = 0): number {
  let tokens = 0
  let before: Class | null = null
  let last = 0
  let run = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const its = classOf(code)
    // A capital begins a word.
    if (its !== before && !(its === 'word' && before === 'capitals')) run = 0
    run++
    before = its
    if (its === 'wide') tokens += wideBlocks[code >> BLOCK_BITS] ?? 0
    else if (its === 'mark') tokens += 0.7
    // A single space belongs to the word after it; many of the same are few tokens, and a mix of them is not.
    else if (its === 'space') tokens += run === 1 ? 0 : run === 2 ? 0.5 : code === last ? 1 / 16 : 0.4
    else if (run === 1) tokens += 1
    else if (its === 'digits') tokens += run > WHOLE_NUMBER ? 1 / WHOLE_NUMBER : 0
    else if (code >= 0x80) tokens += accent(code)
    else if (run > WHOLE_WORD) tokens += its === 'capitals' ? 0.6 : 0.45
    last = code
  }
  return tokens
}
