/**
 * Reads upstream errors for all dialects: the error body, context overflows, and request errors that model servers report as 5xx. Also
 * refuses requests that a format can't express.
 */
import { UpstreamError, type UpstreamErrorDetail } from '../../domain/error.ts'
import { asObject, asText, type JsonObject, tryJson } from '../../domain/json.ts'
import { toRetryAfterMs } from '../../domain/retry-after.ts'
import type { Target } from '../../domain/snapshot.ts'
import { toPublic, toPublicCode } from '../credential-scrubbing.ts'
import type { Incoming } from '../transport.ts'

/** How a format reports errors: by a status, in a 200, or within a stream. */
export interface ErrorReader {
  find(answer: JsonObject): JsonObject | null
  /** @param status null for an error inside a 200. */
  read(status: number | null, error: JsonObject, target: Target, retryAfterMs?: number): UpstreamError
}

export const readErrorBody = (
  errors: ErrorReader,
  status: number | null,
  body: string,
  target: Target,
  retryAfterMs?: number,
): UpstreamError => errors.read(status, toSaid(body), target, retryAfterMs)

export const readFailure = (
  { errors }: { readonly errors: ErrorReader },
  status: number,
  body: string,
  headers: Pick<Incoming, 'header'>,
  target: Target,
): UpstreamError =>
  readErrorBody(
    errors,
    status,
    body,
    target,
    toRetryAfterMs((name) => headers.header(name)),
  )

/** Reads JSON, with or without its envelope, or text. Drops markup, which is a proxy's page and useless to a client. */
function toSaid(body: string): JsonObject {
  const json = tryJson(body)
  if (json === undefined) return body.trimStart().startsWith('<') ? {} : { message: body.trim() }
  const first = Array.isArray(json) ? json[0] : json
  return toBareError(asObject(first) ?? { message: asText(first) })
}

export const toBareError = (said: JsonObject): JsonObject => asObject(said.error) ?? said

export interface ReportedFailure {
  /** Status of the response. If that is a 200, the status in the error. */
  status: number
  /** Status as the upstream stated it; null leaves the message to show an overflow. Default: `status`. */
  stated?: number | null
  message: string
  code?: string
  /** Our code, which takes precedence. */
  ownCode?: string | null
  param?: string
  /** Code and figures of a context overflow, if the message lacks them. */
  overflow?: { code: string; figures: string }
  engineWords?: string
  retryAfterMs?: number | undefined
}

const MAX_PARAM_CHARS = 200

const RETRYABLE: ReadonlySet<number> = new Set([408, 409, 429])

/** Creates an error for clients: credentials masked, and OpenAI's standard message for a context overflow. */
export function toStatusError(said: ReportedFailure, { upstream, contextLength }: Target): UpstreamError {
  const { message, code = '', ownCode = null, param = '', retryAfterMs, engineWords = message } = said
  const { code: overflowCode, figures } = said.overflow ?? { code, figures: '' }
  const stated = said.stated === undefined ? said.status : said.stated
  const overflow = toOverflow(stated, overflowCode, message + figures, contextLength)
  const status = overflow === null ? said.status : 400
  const field = param === '' && overflow !== null ? 'messages' : param
  return new UpstreamError('status', toPublic(overflow ?? (message || 'gave no reason'), upstream), {
    status,
    code: overflow === null ? (ownCode ?? toPublicCode(code, upstream)) : OVERFLOW_CODE,
    param: field === '' ? null : toPublic(field, upstream).slice(0, MAX_PARAM_CHARS),
    retryable: status >= 500 || RETRYABLE.has(status),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...toEngineFault(status, engineWords),
  })
}

/**
 * Context overflow: recognized in every wording, and reported in OpenAI's, so that clients shorten their history. `<most>` is the model's
 * limit and `<asked>` what it was sent, in tokens.
 */
export const OVERFLOW_CODE = 'context_length_exceeded'

const OVERFLOW_STATUSES: ReadonlySet<number> = new Set([400, 413, 422])

const PATTERNS: readonly RegExp[] = [
  // OpenAI, vLLM, DeepSeek, OpenRouter: the standard message and its variants
  /maximum context length (?:is|of) (?<most>\d+) tokens(?:.*?(?:requested|resulted in|total of)\D{0,12}(?<asked>\d+))?/is,
  // Anthropic
  /prompt is too long: (?<asked>\d+) tokens > (?<most>\d+) maximum/i,
  /exceed context limit: (?<read>\d+) \+ (?<written>\d+) > (?<most>\d+)/i,
  // Gemini, and Google's OpenAI API
  /input token count[^\d]{0,40}(?<asked>\d+)[^\d]+(?:maximum|limit)[^\d]+(?<most>\d+)/i,
  // llama-server, and Ollama, which wraps its JSON in text
  /request \((?<asked>\d+) tokens\) exceeds the available context size \((?<most>\d+) tokens\)/i,
  /"n_prompt_tokens": ?(?<asked>\d+), ?"n_ctx": ?(?<most>\d+)/,
  /exceeds the available context size|exceed_context_size_error/i,
  // Ollama, if it may not truncate
  /input length exceeds the (?:available )?context (?:length|size)/i,
  /prompt too long; exceeded (?:max )?context length/i,
  // vLLM: a prompt checked before anything else
  /prompt \(?(?:length |total length )?(?<asked>\d+)\)? is longer than the maximum model length of (?<most>\d+)/i,
  // SGLang
  /input \((?<asked>\d+) tokens\) is longer than the model's context length \((?<most>\d+) tokens\)/i,
  // LM Studio
  /context length of only (?<most>\d+) tokens/i,
  // xAI
  /maximum prompt length is (?<most>\d+) but the request contains (?<asked>\d+) tokens/i,
  // Mistral
  /prompt contains (?<asked>\d+) tokens\b.*?\b(?<most>\d+) maximum context length/is,
  // Groq and Cerebras
  /reduce the length of the messages or completion\. current length is (?<asked>\d+) while limit is (?<most>\d+)/i,
  /please reduce the length of the messages/i,
  // Fireworks
  /prompt is too long: (?<asked>\d+), model maximum context length: (?<most>\d+)/i,
  // Moonshot
  /exceeded model token limit: (?<most>\d+)(?: \(requested: (?<asked>\d+)\))?/i,
  // Qwen
  /range of input length should be \[\d+, (?<most>\d+)\]/i,
  // Together, and other servers by Hugging Face
  /`?inputs`? tokens \+ `?max_new_tokens`? must be <= (?<most>\d+)/i,
  // Cohere
  /tokens in the prompt cannot exceed (?<most>\d+)/i,
  // Z.ai, Bedrock, OpenAI and others that give no figure
  /prompt exceeds max length|input is too long for requested model|input token length too long/i,
  /exceeds the context window of this model/i,
]

/** Enough for every server; longer errors aren't searched further. */
const MAX_SEARCHED_CHARS = 2_000

/**
 * Returns the standard message if a failure is a context overflow, else null.
 * @param status null if the upstream states none
 * @param code the upstream's, which may be enough
 * @param contextLength the known limit of the model in tokens, if the upstream doesn't give it
 */
export function toOverflow(status: number | null, code: string, message: string, contextLength: number): string | null {
  if (status !== null && !OVERFLOW_STATUSES.has(status)) return null
  const said = message.slice(0, MAX_SEARCHED_CHARS)
  for (const pattern of PATTERNS) {
    const found = pattern.exec(said)
    if (found) return toClassicSentence(said, found.groups ?? {}, contextLength)
  }
  return isOverflowCode(code) ? toClassicSentence(said, {}, contextLength) : null
}

export const isOverflowCode = (code: string): boolean => code === OVERFLOW_CODE || code === 'exceed_context_size_error'

/** OpenAI's standard message, which is kept unchanged. */
const CLASSIC = /This model's maximum context length is \d+ tokens/

function toClassicSentence(
  said: string,
  { most, asked, read, written }: Record<string, string>,
  known: number,
): string {
  if (CLASSIC.test(said)) return said
  const limit = `This model's maximum context length is ${most ?? known} tokens.`
  if (read !== undefined)
    return `${limit} However, you requested ${Number(read) + Number(written)} tokens. Please reduce the length of the messages or completion.`
  const given = asked === undefined ? 'are longer than that' : `resulted in ${asked} tokens`
  return `${limit} However, your messages ${given}. Please reduce the length of the messages.`
}

/**
 * Errors that local model servers report as 5xx although the server isn't at fault. Seen in llama-server
 * (github.com/ggml-org/llama.cpp) and in Ollama, which forwards them.
 */
interface Said {
  words: RegExp
  /**
   * - `request`: any such server would respond the same.
   * - `busy`: the server works, but is at capacity.
   * - `spoiled`: the model's output could not be parsed. A retry may succeed, but the work was done.
   */
  means: 'request' | 'busy' | 'spoiled'
  code?: string
}

const SAID: readonly Said[] = [
  // Another target of the model may have its projector.
  { words: /^(image|audio|video) input is not supported/i, means: 'request', code: 'unsupported_value' },
  { words: /^failed to parse tool call arguments as JSON/i, means: 'request' },
  { words: /^the model produced output that does not match the expected \S+ format/i, means: 'spoiled' },
  // Several clients share one context, and all of them get this at once.
  { words: /^context size has been exceeded/i, means: 'busy' },
  { words: /^loading model$/i, means: 'busy' },
  // Ollama, with `OLLAMA_MAX_QUEUE`
  { words: /^server busy, please try again/i, means: 'busy' },
]

/**
 * Reads an error with a status of 500 or more.
 * @returns what differs from a server failure; null if it is one.
 */
function toEngineFault(status: number, sentence: string): UpstreamErrorDetail | null {
  const found = status >= 500 ? SAID.find(({ words }) => words.test(sentence)) : undefined
  if (found === undefined) return null
  const { means, code } = found
  if (means === 'request') return { status: 400, retryable: false, code: code ?? null }
  return means === 'busy' ? { status: 503, retryable: true, isBusy: true } : { retryable: true, isSpoiled: true }
}

/**
 * Refuses what a vendor's format can't express, with OpenAI's codes. Another target of the model may accept it.
 * @param param path of the field.
 * @param why a sentence, after a colon.
 */
export const unsupportedField = (param: string, why: string) => refusal('unsupported_parameter', param, why)

/** @param param path of the field with the unsupported value. @param why a sentence, after a colon. */
export const unsupportedValue = (param: string, why: string) => refusal('unsupported_value', param, why)

function refusal(code: 'unsupported_parameter' | 'unsupported_value', param: string, why: string): UpstreamError {
  const what = code === 'unsupported_value' ? 'value' : 'parameter'
  const message = `Unsupported ${what}: '${param}' is not supported with this model: ${why}`
  return new UpstreamError('status', message, { status: 400, code, param })
}
