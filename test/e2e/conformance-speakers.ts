/** Upstreams of every format for client suites: the same conversations, so that clients can't tell them apart. */
import { errorMessage, type Message, type Said } from '../support/anthropic-answers.ts'
import { inTurn, strictly } from '../support/anthropic-upstream.ts'
import { createGemini, googleError } from '../support/gemini-upstream.ts'
import { createOllama, ollamaError } from '../support/ollama-upstream.ts'
import type { Script } from '../support/upstream.ts'
import { type Behaviour, errorAnswer } from '../support/upstream-answers.ts'
import { SLOPPY, SLOPPY_USAGE, sayBadly, type Turn } from './conformance-upstream.ts'

export interface Speaker {
  name: string
  model: string
  toUpstream(url: string): string
  /** Plays the next turn after each tool result. */
  say(...turns: Turn[]): Script
  usage: typeof SLOPPY_USAGE
  limited: Behaviour
}

const toMessage = ({ reasoning, text, calls = [] }: Turn): Message => {
  const { prompt_tokens: prompt, completion_tokens: output_tokens } = SLOPPY_USAGE
  const { cached_tokens: read } = SLOPPY_USAGE.prompt_tokens_details
  const blocks: Said[] = []
  if (reasoning !== undefined) blocks.push({ thought: reasoning })
  if (text !== undefined) blocks.push({ text })
  return {
    blocks: [...blocks, ...calls.map(({ name, input }) => ({ call: name, input }))],
    usage: {
      input_tokens: prompt - read,
      cache_read_input_tokens: read,
      output_tokens,
      output_tokens_details: { thinking_tokens: SLOPPY_USAGE.completion_tokens_details.reasoning_tokens },
    },
  }
}

/** Reports neither cached nor reasoning tokens. */
const TOLD_IN_SHORT: typeof SLOPPY_USAGE = {
  ...SLOPPY_USAGE,
  prompt_tokens_details: { cached_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0 },
}

const WAIT = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34s' }]

export const SPEAKERS: readonly Speaker[] = [
  {
    name: 'a sloppy upstream',
    model: SLOPPY,
    toUpstream: (url) => `{ dialect: openai, base_url: "${url}", api_key: \${UPSTREAM_KEY} }`,
    say: sayBadly,
    usage: SLOPPY_USAGE,
    limited: errorAnswer(429, 'slow down', { 'retry-after': '34' }),
  },
  {
    name: 'an Anthropic upstream',
    model: 'acme/claude',
    toUpstream: (url) => `{ dialect: anthropic, base_url: "${url}", api_key: \${UPSTREAM_KEY} }`,
    say: (...turns) => strictly(inTurn(...turns.map(toMessage)), { key: 'x' }),
    usage: SLOPPY_USAGE,
    limited: errorMessage(429, 'rate_limit_error', 'slow down', { 'retry-after': '34' }),
  },
  {
    name: 'a Gemini upstream',
    model: 'acme/gemini',
    toUpstream: (url) => `{ dialect: gemini, base_url: "${url}beta", api_key: \${UPSTREAM_KEY} }`,
    say: (...turns) => createGemini((step) => turns[step] ?? {}, { key: 'x' }).script,
    usage: SLOPPY_USAGE,
    limited: googleError(429, 'RESOURCE_EXHAUSTED', 'slow down', WAIT),
  },
  {
    name: 'an Ollama',
    model: 'acme/ollama',
    toUpstream: (url) => `{ dialect: ollama, base_url: "${url.replace(/\/v1$/, '')}" }`,
    say: (...turns) => createOllama((step) => turns[step] ?? {}).script,
    usage: TOLD_IN_SHORT,
    limited: ollamaError(429, 'slow down', { 'retry-after': '34' }),
  },
]
