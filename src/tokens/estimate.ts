/**
 * The tokens that a request is likely to use at most, guessed from its bytes before it is sent: what its row reserves, what
 * its rates count, and what it is charged where nobody could settle it. And the most that it may read, a token a byte: what a
 * budget holds, unless a count comes closer (`bound.ts`). Never a tokenizer, whose time grows with the square of a hostile
 * text. What was really used, where no upstream says it, is counted in `count.ts`. Pure.
 */
import type { CanonicalRequest } from '../domain/request.ts'
import { REQUEST_FIELDS } from '../domain/request-names.ts'
import { bytesOfBase64, mostMoreOfImages } from './media.ts'
import { isOfUser, toPrompt } from './prompt.ts'
import { unreadBytes } from './unread.ts'

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
export function estimate(body: CanonicalRequest, maxOutputLength: number): Estimate {
  return {
    promptTokens: estimatePrompt(body),
    completionTokens: toCap(body, maxOutputLength) * (body.n ?? 1),
  }
}

/** Estimates the tokens that a request reads. */
export const estimatePrompt = (body: CanonicalRequest): number => measurePrompt(body).promptTokens

/** Estimates the tokens that a request reads, and says how many they are at most: no vocabulary makes two of a byte. */
export function measurePrompt(body: CanonicalRequest): { promptTokens: number; mostPromptTokens: number } {
  const prompt = toPrompt(body)
  const { texts, files, messages, inputs, audio, images, others, otherBytes } = prompt
  let bytes = 0
  for (const text of texts) bytes += Buffer.byteLength(text)
  for (const file of files) bytes += bytesOfBase64(file)
  const beside = messages * TOKENS_PER_MESSAGE + inputs * TOKENS_PER_INPUT + audio + images
  return {
    promptTokens: tokensOfBytes(bytes) + beside + others,
    mostPromptTokens: bytes + beside + Math.max(others, otherBytes) + mostMoreOfImages(prompt),
  }
}

/** The most tokens that a prompt may have, without a count. */
export const worstPrompt = (body: CanonicalRequest): number =>
  measurePrompt(body).mostPromptTokens + bytesOfExtras(body)

const MESSAGE_FIELDS: ReadonlySet<string> = new Set([
  ...['role', 'content', 'name', 'refusal', 'tool_calls', 'tool_call_id', 'function_call', 'audio'],
])
const LAST_TURN_FIELDS: ReadonlySet<string> = new Set([...MESSAGE_FIELDS, 'reasoning', 'reasoning_content'])

/**
 * Measures what the estimate leaves out because most upstreams do not read it: fields that are none of the API's, of the
 * request and of its messages, the reasoning of earlier turns, and what a request that goes on as it came has beside.
 */
export function bytesOfExtras(body: CanonicalRequest): number {
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
export const capOf = ({ max_completion_tokens: newer, max_tokens: older }: CanonicalRequest): number | null =>
  newer ?? older ?? null

/** The most tokens that one choice is likely to have. No upstream writes more than the model can, whatever a client asks for. */
export function toCap(body: CanonicalRequest, maxOutputLength: number): number {
  return Math.min(capOf(body) ?? DEFAULT_OUTPUT_TOKENS, maxOutputLength)
}

/** The most tokens that an answer may have, all its choices together: without a cap, as many as the model writes. */
export const toMostOutput = (body: CanonicalRequest, maxOutputLength: number): number =>
  Math.min(capOf(body) ?? maxOutputLength, maxOutputLength) * (body.n ?? 1)
