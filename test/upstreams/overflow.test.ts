import { describe, expect, test } from 'bun:test'
import { toOverflow } from '../../src/upstreams/dialects/errors.ts'

const KNOWN = 8192
const sentence = (most: number, asked?: number) =>
  `This model's maximum context length is ${most} tokens. However, your messages ${asked === undefined ? 'are longer than that' : `resulted in ${asked} tokens`}. Please reduce the length of the messages.`

/** Messages of servers and providers, verbatim, with their context size and prompt size. */
const SAID: [who: string, message: string, most?: number, asked?: number][] = [
  ['Anthropic', 'prompt is too long: 208310 tokens > 200000 maximum', 200000, 208310],
  [
    'Gemini',
    'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
    1048576,
    1200000,
  ],
  [
    'llama-server',
    'request (5123 tokens) exceeds the available context size (4096 tokens), try increasing it',
    4096,
    5123,
  ],
  ['an older llama-server', 'the request exceeds the available context size, try increasing it'],
  [
    'Ollama',
    '{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":1189,"n_ctx":512}}',
    512,
    1189,
  ],
  [
    'vLLM',
    'The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.',
    4096,
    9000,
  ],
  ['SGLang', "The input (9000 tokens) is longer than the model's context length (4096 tokens).", 4096, 9000],
  [
    'SGLang, with the answer',
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4000 tokens from the input messages and 1000 tokens for the completion.",
    4096,
    5000,
  ],
  [
    'LM Studio',
    'Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.',
    4096,
  ],
  [
    'OpenRouter',
    "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of text input, 1000 in the output).",
    32768,
    40000,
  ],
  ['xAI', "This model's maximum prompt length is 131072 but the request contains 200000 tokens.", 131072, 200000],
  [
    'Mistral',
    'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    32768,
    40000,
  ],
  [
    'Cerebras',
    'Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192',
    8192,
    9000,
  ],
  ['Groq', 'Please reduce the length of the messages or completion.'],
  ['Fireworks', 'The prompt is too long: 200000, model maximum context length: 131071', 131071, 200000],
  ['Moonshot', 'Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)', 8192, 9000],
  ['Qwen', '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]', 30720],
  [
    'Together',
    'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens',
    8193,
  ],
  ['Cohere', 'too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000', 4081],
  ['Z.ai', 'Prompt exceeds max length'],
  ['Bedrock', 'Input is too long for requested model.'],
  ['OpenAI, newer', 'Your input exceeds the context window of this model. Please adjust your input and try again.'],
]

describe('an overflow', () => {
  test.each(SAID)('in the words of %s gives the classic message', (_, message, most = KNOWN, asked) => {
    for (const status of [400, 413, 422, null])
      expect(toOverflow(status, '', message, KNOWN)).toBe(sentence(most, asked))
    expect(toOverflow(500, '', message, KNOWN)).toBeNull()
    expect(toOverflow(429, '', message, KNOWN)).toBeNull()
  })

  test('in the classic words is quoted', () => {
    const said =
      "This model's maximum context length is 10 tokens. However, you requested 20 tokens (15 in the messages)."
    expect(toOverflow(400, '', said, KNOWN)).toBe(said)
  })

  test('of prompt and output together is reported as their sum', () => {
    const said = 'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length'
    expect(toOverflow(400, '', said, KNOWN)).toBe(
      "This model's maximum context length is 200000 tokens. However, you requested 209573 tokens. Please reduce the length of the messages or completion.",
    )
  })

  test.each(['context_length_exceeded', 'exceed_context_size_error'])('with only the code %s is recognized', (code) => {
    expect(toOverflow(400, code, 'no', KNOWN)).toBe(sentence(KNOWN))
  })

  test.each([
    'max_tokens is too large: 9000. This model supports at most 4096 completion tokens',
    'Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.',
    'messages.0.content: text is too long: 70 characters > 64 maximum',
    'Context size has been exceeded.',
    'Invalid value: context_length',
  ])('is not: %s', (message) => {
    expect(toOverflow(400, '', message, KNOWN)).toBeNull()
  })

  test('is searched for only in the first screenful of text', () => {
    expect(toOverflow(400, '', 'input token count '.repeat(100_000), KNOWN)).toBeNull()
  })
})
