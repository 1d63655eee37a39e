/**
 * What a request will at most cost, before anybody counted its tokens: the figure that is reserved, and that an
 * abandoned request is charged. Never a tokenizer: those are quadratic on hostile input (design 7). Pure.
 */
import type { ChatRequest, Message } from '../wire/request.ts'

/** Four UTF-8 bytes are taken for a token; each message costs eight more. */
const BYTES_PER_TOKEN = 4
const TOKENS_PER_MESSAGE = 8
/** Stated figures for parts whose tokens no text tells. */
const TOKENS_PER_IMAGE = 1_500
const TOKENS_PER_AUDIO = 2_000
const TOKENS_PER_FILE = 5_000
/** Output that is reserved where the client gives no cap. */
const DEFAULT_OUTPUT_TOKENS = 4_096

export interface Estimate {
  promptTokens: number
  completionTokens: number
}

export const tokensOfBytes = (bytes: number) => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Estimates the tokens a request reads and the most that it may write, all its choices together. */
export function estimate(body: ChatRequest, maxOutputLength: number): Estimate {
  let bytes = 0
  let extra = 0
  for (const message of body.messages) {
    extra += TOKENS_PER_MESSAGE
    bytes += bytesOfMessage(message)
    if (Array.isArray(message.content)) for (const part of message.content) extra += tokensOfPart(part.type)
  }
  for (const declared of [body.tools, body.functions, body.response_format]) {
    if (declared) bytes += Buffer.byteLength(JSON.stringify(declared))
  }
  const stated = body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_OUTPUT_TOKENS
  // No upstream writes more than the model can, whatever a client asks for.
  const cap = Math.min(stated, maxOutputLength)
  return { promptTokens: tokensOfBytes(bytes) + extra, completionTokens: cap * (body.n ?? 1) }
}

function bytesOfMessage(message: Message): number {
  let bytes = 0
  if (typeof message.content === 'string') bytes += Buffer.byteLength(message.content)
  else if (message.content) {
    for (const part of message.content) {
      if (part.type === 'text') bytes += Buffer.byteLength(part.text)
      else if (part.type === 'refusal') bytes += Buffer.byteLength(part.refusal)
    }
  }
  if (message.role === 'assistant' && message.tool_calls) bytes += Buffer.byteLength(JSON.stringify(message.tool_calls))
  return bytes
}

function tokensOfPart(type: string): number {
  if (type === 'image_url') return TOKENS_PER_IMAGE
  if (type === 'input_audio') return TOKENS_PER_AUDIO
  return type === 'file' ? TOKENS_PER_FILE : 0
}
