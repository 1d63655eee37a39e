/**
 * That a prompt does not fit, in whichever words an upstream says so, and in the classic sentence, by which clients know that they
 * must shorten their history. Each pattern is how some server or provider puts it; `<most>` is what its model holds, `<asked>` what
 * it was sent, in tokens. Pure.
 */

export const OVERFLOW_CODE = 'context_length_exceeded'

/** Statuses under which servers say it. */
const STATUSES: ReadonlySet<number> = new Set([400, 413, 422])

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
const MAX_CHARS = 2_000

/**
 * Reads what an upstream says of a request. Returns the classic sentence where that is an overflow; null where it is not.
 *
 * @param status under which it says so; null where it says none
 * @param code of its own, which may say it without any words
 * @param contextLength what the model is known to hold, in tokens, where the upstream does not tell
 */
export function toOverflow(status: number | null, code: string, message: string, contextLength: number): string | null {
  if (status !== null && !STATUSES.has(status)) return null
  const said = message.slice(0, MAX_CHARS)
  for (const pattern of PATTERNS) {
    const found = pattern.exec(said)
    if (found) return toSentence(said, found.groups ?? {}, contextLength)
  }
  return isOverflowCode(code) ? toSentence(said, {}, contextLength) : null
}

/** Whether a code or a type says it: OpenAI's, or llama-server's. */
export const isOverflowCode = (code: string): boolean => code === OVERFLOW_CODE || code === 'exceed_context_size_error'

/** Who says it in the classic words is quoted. */
const CLASSIC = /This model's maximum context length is \d+ tokens/

function toSentence(said: string, { most, asked, read, written }: Record<string, string>, known: number): string {
  if (CLASSIC.test(said)) return said
  const limit = `This model's maximum context length is ${most ?? known} tokens.`
  if (read !== undefined)
    return `${limit} However, you requested ${Number(read) + Number(written)} tokens. Please reduce the length of the messages or completion.`
  const given = asked === undefined ? 'are longer than that' : `resulted in ${asked} tokens`
  return `${limit} However, your messages ${given}. Please reduce the length of the messages.`
}
