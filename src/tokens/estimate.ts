/**
 * The most tokens that a request may use, guessed from its bytes before it is sent: what is reserved, and what a request
 * is charged that nobody could settle. Never a tokenizer, whose time grows with the square of a hostile text. What was
 * really used, where no upstream says it, is counted in `count.ts`. Pure.
 */
import type { CanonicalRequest } from '../domain/request.ts'
import { bytesOfBase64 } from './base64.ts'
import { toPrompt } from './prompt.ts'

/** Four UTF-8 bytes are taken for a token; each message costs eight more. */
export const BYTES_PER_TOKEN = 4
const TOKENS_PER_MESSAGE = 8
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
export function estimatePrompt(body: CanonicalRequest): number {
  const { texts, files, messages, attachments } = toPrompt(body)
  let bytes = 0
  for (const text of texts) bytes += Buffer.byteLength(text)
  for (const file of files) bytes += bytesOfBase64(file)
  return tokensOfBytes(bytes) + messages * TOKENS_PER_MESSAGE + attachments
}

/** The most tokens that one choice may have. No upstream writes more than the model can, whatever a client asks for. */
export function toCap(body: CanonicalRequest, maxOutputLength: number): number {
  return Math.min(body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_OUTPUT_TOKENS, maxOutputLength)
}
