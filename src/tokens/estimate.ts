/**
 * Likely maximum of a request's tokens, guessed from its bytes: for reserves, rate limits, and charges after a crash.
 * Also the upper bound, a token per byte, for budgets. Never a tokenizer, whose time grows quadratically with hostile
 * text.
 */

import { EndpointRequest } from '../domain/endpoint-request.ts'
import { REQUEST_FIELDS } from '../domain/fields.ts'
import type { AnyRequest } from '../domain/request.ts'
import { bytesOfBase64 } from './media.ts'
import { isOfUser, toPrompt, unreadBytes } from './prompt.ts'

/** UTF-8 bytes. */
export const BYTES_PER_TOKEN = 4
export const TOKENS_PER_MESSAGE = 8
/** Many embedding models add a marker before and after each input. */
const TOKENS_PER_INPUT = 2
export const DEFAULT_OUTPUT_TOKENS = 4_096

export interface Estimate {
  promptTokens: number
  completionTokens: number
}

export const tokensOfBytes = (bytes: number) => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Completion tokens of all choices together. */
export function estimate(body: AnyRequest, maxOutputLength: number): Estimate {
  return {
    promptTokens: estimatePrompt(body),
    completionTokens: toCap(body, maxOutputLength) * (body.n ?? 1),
  }
}

export const estimatePrompt = (body: AnyRequest): number => measurePrompt(body).promptTokens

/** Also the upper bound: no vocabulary makes two tokens of a byte. */
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

/** Guide "Images and vision": gpt-4o-mini counts 2,833 for the base and 5,667 per tile, other models 85 and 170. */
const MAX_TIMES = 2_833 / 85 + 0.01
/** Other vendors' models count up to 4,784 (Claude), OpenAI's small ones up to 3,779, whatever the detail. */
const MAX_PER_IMAGE = 5_000

export interface Images {
  images: number
  pictures: number
}

/** Additional tokens of images on other models, and on gpt-4o-mini, which counts most. */
export const moreOfImages = ({ pictures }: Images): number => pictures * MAX_PER_IMAGE
export const mostMoreOfImages = ({ images, pictures }: Images): number =>
  Math.ceil(Math.max(images * (MAX_TIMES - 1), pictures * MAX_PER_IMAGE))

export const worstPrompt = (body: AnyRequest): number => measurePrompt(body).maxPromptTokens + bytesOfExtras(body)

const MESSAGE_FIELDS: ReadonlySet<string> = new Set([
  ...['role', 'content', 'name', 'refusal', 'tool_calls', 'tool_call_id', 'function_call', 'audio'],
])
const LAST_TURN_FIELDS: ReadonlySet<string> = new Set([...MESSAGE_FIELDS, 'reasoning', 'reasoning_content'])

/** Bytes that most upstreams ignore: unknown fields, earlier reasoning, and other extras of passthrough requests. */
export function bytesOfExtras(body: AnyRequest): number {
  if (body instanceof EndpointRequest) return bytesBeside(body.extras, REQUEST_FIELDS)
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

/** The client's output cap; null without one. */
export const capOf = ({ max_completion_tokens: newer, max_tokens: older }: AnyRequest): number | null =>
  newer ?? older ?? null

const hasOwnCap = (body: AnyRequest): body is AnyRequest & EndpointRequest =>
  body instanceof EndpointRequest && body.hasOwnCap

/** Maximum output tokens per choice, at most the model's. See `hasOwnCap`. */
export function toCap(body: AnyRequest, maxOutputLength: number): number {
  if (hasOwnCap(body)) return body.max_tokens
  return Math.min(capOf(body) ?? DEFAULT_OUTPUT_TOKENS, maxOutputLength)
}

/** Maximum output tokens of all choices together; without a cap, based on the model's limit. */
export const toMostOutput = (body: AnyRequest, maxOutputLength: number): number =>
  hasOwnCap(body) ? body.max_tokens : Math.min(capOf(body) ?? maxOutputLength, maxOutputLength) * (body.n ?? 1)

type Class = 'word' | 'capitals' | 'digits' | 'space' | 'mark' | 'wide'

const classOf = (code: number): Class => {
  if (code >= 0x80) return isLatin(code) ? 'word' : 'wide'
  if (code >= 0x61 && code <= 0x7a) return 'word'
  if (code >= 0x41 && code <= 0x5a) return 'capitals'
  if (code >= 0x30 && code <= 0x39) return 'digits'
  return code <= 0x20 ? 'space' : 'mark'
}

/** Accented letters belong to words but make them longer, rarer languages more so. */
const isLatin = (code: number) => (code >= 0xc0 && code < 0x250) || (code >= 0x1e00 && code < 0x1f00)
const accent = (code: number) => (code < 0x100 ? 0.35 : 0.7)

/** Longer words and numbers are split into several tokens. */
const WHOLE_WORD = 8
const WHOLE_NUMBER = 3

/**
 * Tokens per code unit below each end: common scripts have multi-character tokens, rare ones are spelled out in bytes.
 */
const WIDE: readonly (readonly [end: number, tokens: number])[] = [
  [0x300, 1],
  [0x360, 1.7],
  // Greek, Cyrillic, Armenian, Hebrew, Arabic; then Indic scripts and Thai.
  [0x700, 0.38],
  [0x900, 1.5],
  [0xe80, 0.45],
  [0x1000, 1.6],
  [0x1100, 0.5],
  [0x1780, 2.2],
  [0x1800, 0.6],
  [0x2000, 2.2],
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
 * Estimates the tokens of streamed text in one pass without a vocabulary, for budget reservations. Within 40% of the
 * o200k count for prose, code, JSON, and most scripts. Random text has up to 50% more tokens than estimated.
 * @param from where to begin in the text.
 */
export function tokensWritten(text: string, from = 0): number {
  let tokens = 0
  let before: Class | null = null
  let last = 0
  let run = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const its = classOf(code)
    if (its !== before && !(its === 'word' && before === 'capitals')) run = 0
    run++
    before = its
    if (its === 'wide') tokens += wideBlocks[code >> BLOCK_BITS] ?? 0
    else if (its === 'mark') tokens += 0.7
    // A single space belongs to the next word; runs of the same one are few tokens.
    else if (its === 'space') tokens += run === 1 ? 0 : run === 2 ? 0.5 : code === last ? 1 / 16 : 0.4
    else if (run === 1) tokens += 1
    else if (its === 'digits') tokens += run > WHOLE_NUMBER ? 1 / WHOLE_NUMBER : 0
    else if (code >= 0x80) tokens += accent(code)
    else if (run > WHOLE_WORD) tokens += its === 'capitals' ? 0.6 : 0.45
    last = code
  }
  return tokens
}
