/**
 * What every dialect reads alike of an upstream's failure: its body, that a prompt does not fit, what model servers blame themselves
 * for; and how a request is refused that a format has no words for. Pure.
 */
import { UpstreamError, type UpstreamErrorDetail } from '../../domain/error.ts'
import { asObject, asText, type JsonObject, tryJson } from '../../domain/json.ts'
import type { Target } from '../../domain/snapshot.ts'
import { toPublic, toPublicCode } from '../credential-scrubbing.ts'
import { toRetryAfterMs } from '../failure.ts'
import type { Incoming } from '../transport.ts'

/** How one format tells of failures: in a status, in a 200, or in the middle of a stream. */
export interface ErrorReader {
  /** Looks for an error in what should be an answer, or a piece of one; null where there is none. */
  find(answer: JsonObject): JsonObject | null
  /** @param status of the response; null for an error inside of one that said 200. */
  read(status: number | null, error: JsonObject, target: Target, retryAfterMs?: number): UpstreamError
}

/** Reads the body of an error status, or the data of an event that is named as an error. */
export const readErrorBody = (
  errors: ErrorReader,
  status: number | null,
  body: string,
  target: Target,
  retryAfterMs?: number,
): UpstreamError => errors.read(status, toSaid(body), target, retryAfterMs)

/** Turns an error status into an error, with the target's credential taken out of its message. */
export const readFailure = (
  { errors }: { readonly errors: ErrorReader },
  status: number,
  body: string,
  headers: Pick<Incoming, 'header'>,
  target: Target,
): UpstreamError => readErrorBody(errors, status, body, target, toRetryAfterMs(headers))

/** JSON, in its envelope or without one, or a text; markup is a proxy's page and says nothing to a client. */
function toSaid(body: string): JsonObject {
  const json = tryJson(body)
  if (json === undefined) return body.trimStart().startsWith('<') ? {} : { message: body.trim() }
  const first = Array.isArray(json) ? json[0] : json
  return toBareError(asObject(first) ?? { message: asText(first) })
}

/** The error within its envelope, or what is none. */
export const toBareError = (said: JsonObject): JsonObject => asObject(said.error) ?? said

/** What a dialect has read of a failure. */
export interface SaidFailure {
  /** Of the response, or what the error itself says where that was a 200. */
  status: number
  /** The same where somebody has said it, else null: its words alone tell then that a prompt does not fit. Left out: `status`. */
  stated?: number | null
  /** '' where there are no words. */
  message: string
  /** The upstream's own code; '' for none. */
  code?: string
  /** A code of ours, which goes before that. */
  ownCode?: string | null
  /** The field at fault; '' for none. */
  param?: string
  /** A code and figures that tell that a prompt does not fit, where the words do not. */
  overflow?: { code: string; figures: string }
  /** The words of the engine, where a server hands on more than those. */
  engineWords?: string
  retryAfterMs?: number | undefined
}

const MAX_PARAM_CHARS = 200

const RETRYABLE: ReadonlySet<number> = new Set([408, 409, 429])

/** Makes an error of it that clients may read: without our credentials, and in the classic words where a prompt does not fit. */
export function toStatusError(said: SaidFailure, { upstream, contextLength }: Target): UpstreamError {
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
 * That a prompt does not fit, in whichever words an upstream says so, and in the classic sentence, by which clients know that they
 * must shorten their history. Each pattern is how some server or provider puts it; `<most>` is what its model holds, `<asked>` what
 * it was sent, in tokens.
 */
export const OVERFLOW_CODE = 'context_length_exceeded'

/** Statuses under which servers say it. */
const OVERFLOW_STATUSES: ReadonlySet<number> = new Set([400, 413, 422])

const PATTERNS: readonly RegExp[] = [
  // OpenAI, vLLM, DeepSeek, OpenRouter: the classic sentence and its like
  /maximum context length (?:is|of) (?<most>\d+) tokens(?:.*?(?:requested|resulted in|total of)\D{0,12}(?<asked>\d+))?/is,
  // Anthropic
  /prompt is too long: (?<asked>\d+) tokens > (?<most>\d+) maximum/i,
  /exceed context limit: (?<read>\d+) \+ (?<written>\d+) > (?<most>\d+)/i,
  // Gemini, and Google's OpenAI API
  /input token count[^\d]{0,40}(?<asked>\d+)[^\d]+(?:maximum|limit)[^\d]+(?<most>\d+)/i,
  // llama-server, and Ollama, which has the same JSON within a text
  /request \((?<asked>\d+) tokens\) exceeds the available context size \((?<most>\d+) tokens\)/i,
  /"n_prompt_tokens": ?(?<asked>\d+), ?"n_ctx": ?(?<most>\d+)/,
  /exceeds the available context size|exceed_context_size_error/i,
  // Ollama, where it may not cut
  /input length exceeds the (?:available )?context (?:length|size)/i,
  /prompt too long; exceeded (?:max )?context length/i,
  // vLLM: a prompt that was counted before anything else
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
  // Together and other servers by Hugging Face
  /`?inputs`? tokens \+ `?max_new_tokens`? must be <= (?<most>\d+)/i,
  // Cohere
  /tokens in the prompt cannot exceed (?<most>\d+)/i,
  // Z.ai, Bedrock, OpenAI and others that give no figure
  /prompt exceeds max length|input is too long for requested model|input token length too long/i,
  /exceeds the context window of this model/i,
]

/** No server needs more words for it, and no error is searched further. */
const MAX_SEARCHED_CHARS = 2_000

/**
 * Reads what an upstream says of a request. Returns the classic sentence where that is an overflow; null where it is not.
 *
 * @param status under which it says so; null where it says none
 * @param code of its own, which may say it without any words
 * @param contextLength what the model is known to hold, in tokens, where the upstream does not tell
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

/** Whether a code or a type says it: OpenAI's, or llama-server's. */
export const isOverflowCode = (code: string): boolean => code === OVERFLOW_CODE || code === 'exceed_context_size_error'

/** Who says it in the classic words is quoted. */
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
 * What model servers that people run themselves say with a status that blames the server, though it is not at fault: seen of
 * llama-server (github.com/ggml-org/llama.cpp) and of Ollama, which hands on what that says.
 */
interface Said {
  words: RegExp
  /**
   * - `request`: any such server would say the same of it.
   * - `busy`: it works, and has no room for one more just now.
   * - `spoiled`: what the model wrote could not be read as it has to be. It may go well once more, and was worked for.
   */
  means: 'request' | 'busy' | 'spoiled'
  code?: string
}

const SAID: readonly Said[] = [
  // Another target of the model may have its projector.
  { words: /^(image|audio|video) input is not supported/i, means: 'request', code: 'unsupported_value' },
  { words: /^failed to parse tool call arguments as JSON/i, means: 'request' },
  { words: /^the model produced output that does not match the expected \S+ format/i, means: 'spoiled' },
  // Several clients share one context: all of them have it at once.
  { words: /^context size has been exceeded/i, means: 'busy' },
  { words: /^loading model$/i, means: 'busy' },
  // Ollama's, with `OLLAMA_MAX_QUEUE`
  { words: /^server busy, please try again/i, means: 'busy' },
]

/**
 * Reads what a server says with a status of 500 or more.
 * @returns what differs from a failure of the server's own; null where it is one.
 */
function toEngineFault(status: number, sentence: string): UpstreamErrorDetail | null {
  const found = status >= 500 ? SAID.find(({ words }) => words.test(sentence)) : undefined
  if (found === undefined) return null
  const { means, code } = found
  if (means === 'request') return { status: 400, retryable: false, code: code ?? null }
  return means === 'busy' ? { status: 503, retryable: true, isBusy: true } : { retryable: true, isSpoiled: true }
}

/**
 * What a vendor's format has no words for, told before anybody is asked, as OpenAI's API tells it: a field that is not taken at all
 * by one code, a value of a field that is by another. Another target of the model may take it: `attempt.ts` asks it.
 *
 * @param param path of the field.
 * @param why a sentence, after a colon.
 */
export const unsupportedField = (param: string, why: string) => refusal('unsupported_parameter', param, why)

/** @param param path of the field whose value it is. @param why a sentence, after a colon. */
export const unsupportedValue = (param: string, why: string) => refusal('unsupported_value', param, why)

function refusal(code: 'unsupported_parameter' | 'unsupported_value', param: string, why: string): UpstreamError {
  const what = code === 'unsupported_value' ? 'value' : 'parameter'
  const message = `Unsupported ${what}: '${param}' is not supported with this model: ${why}`
  return new UpstreamError('status', message, { status: 400, code, param })
}
