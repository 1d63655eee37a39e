/**
 * Strict upstreams of three formats behind real agents. Each plays the same turns in its own words, signs what it thinks, and knows
 * what of that has come back.
 */
import { type Message, type Said, toSignature } from '../../support/anthropic-answers.ts'
import { inTurn, strictly } from '../../support/anthropic-upstream.ts'
import { isObject, type JsonObject } from '../../support/contract-parts.ts'
import { contentsOf, createGemini } from '../../support/gemini-upstream.ts'
import type { Script, Seen } from '../../support/upstream.ts'
import { playOpenai, playOpenrouter } from './openai-speaker.ts'

export const UPSTREAM_KEY = 'sk-upstream-1234567890'

/** What a model says until the next tools have answered. */
export interface Turn {
  reasoning?: string
  text?: string
  calls?: { name: string; input: Record<string, unknown> }[]
}

/** What each says that an answer has used, as the ledger has it. */
export const USED = { prompt_tokens: 40, cached_tokens: 8, completion_tokens: 12, reasoning_tokens: 5 }

export interface Speaker {
  model: string
  /** Where its upstream speaks the client's own format. */
  native?: string
  /** How its upstream stands in the catalogue, at the scripted server with this base URL. */
  toUpstream(url: string): string
  /** Plays a conversation: its first turn until tools have answered, its second until the next have, and so on. */
  play(turns: readonly Turn[]): Script
  /** What of its own state a request brings back, in order: signatures, or what is encrypted. */
  stateIn(seen: Seen): unknown[]
  /** The state that it gives along with a turn, in its n-th answer. */
  toState(turn: Turn, at: number): unknown[]
}

/** What the service takes beyond its published shape, where the betas are named that bring it. */
function withoutBetas(seen: Seen): Seen {
  const betas = seen.headers['anthropic-beta'] ?? ''
  if (!betas.includes('context-management-2025-06-27')) return seen
  const { context_management: _, ...json } = seen.json ?? {}
  return { ...seen, json }
}

const listOf = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : [])

function toMessage({ reasoning, text, calls = [] }: Turn, at: number): Message {
  const blocks: Said[] = []
  if (reasoning !== undefined) blocks.push({ thought: reasoning })
  if (text !== undefined) blocks.push({ text })
  return {
    blocks: [...blocks, ...calls.map(({ name, input }, place) => ({ call: name, input, id: `toolu_${at}_${place}` }))],
    usage: {
      input_tokens: USED.prompt_tokens - USED.cached_tokens,
      cache_read_input_tokens: USED.cached_tokens,
      output_tokens: USED.completion_tokens,
      output_tokens_details: { thinking_tokens: USED.reasoning_tokens },
    },
  }
}

export const SPEAKERS: readonly Speaker[] = [
  {
    model: 'acme/openai',
    toUpstream: (url) => `{ preset: openai, passthrough: false, base_url: "${url}", api_key: \${UPSTREAM_KEY} }`,
    play: (turns) => playOpenai(turns.map(({ reasoning: _, ...turn }) => turn)),
    stateIn: () => [],
    toState: () => [],
  },
  {
    model: 'acme/openrouter',
    toUpstream: (url) => `{ preset: openrouter, passthrough: false, base_url: "${url}", api_key: \${UPSTREAM_KEY} }`,
    play: playOpenrouter,
    stateIn: ({ json }) =>
      listOf(json?.messages).flatMap(({ reasoning_details: details }) =>
        listOf(details).flatMap(({ signature, data }) => [signature, data].filter((state) => state !== undefined)),
      ),
    toState: (_, at) => [`signed-${at}`, `encrypted-${at}`],
  },
  {
    model: 'acme/anthropic',
    toUpstream: (url) => `{ preset: anthropic, base_url: "${url}", api_key: \${UPSTREAM_KEY} }`,
    native: 'messages',
    play: (turns) => {
      const strict = strictly(inTurn(...turns.map(toMessage)), { key: UPSTREAM_KEY })
      return (seen) => (typeof strict === 'function' ? strict(withoutBetas(seen)) : strict)
    },
    stateIn: ({ json }) =>
      listOf(json?.messages).flatMap(({ content }) => listOf(content).flatMap(({ signature }) => signature ?? [])),
    toState: ({ reasoning = '' }) => [toSignature(reasoning)],
  },
  {
    model: 'acme/gemini',
    toUpstream: (url) => `{ preset: google, base_url: "${url}beta", api_key: \${UPSTREAM_KEY} }`,
    play: (turns) => createGemini((step) => turns[step] ?? {}, { key: UPSTREAM_KEY }).script,
    stateIn: (seen) =>
      contentsOf(seen).flatMap(({ parts }) => listOf(parts).flatMap(({ thoughtSignature: state }) => state ?? [])),
    toState: (_, at) => [Buffer.from(`signature ${at} of v1`).toString('base64')],
  },
]
