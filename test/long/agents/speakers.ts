/**
 * Strict upstreams of three formats behind real agents; each plays the same turns, signs its reasoning, and checks what
 * comes back.
 */
import { type Message, type Said, toSignature } from '../../support/anthropic-answers.ts'
import { inTurn, strictly } from '../../support/anthropic-upstream.ts'
import { isObject, type JsonObject } from '../../support/contract-parts.ts'
import { contentsOf, createGemini } from '../../support/gemini-upstream.ts'
import type { Script, Seen } from '../../support/upstream.ts'
import { playOpenai, playOpenrouter } from './openai-speaker.ts'

export const UPSTREAM_KEY = 'sk-upstream-1234567890'

/** Until the next tools have responded. */
export interface Turn {
  reasoning?: string
  text?: string
  calls?: { name: string; input: Record<string, unknown> }[]
}

export const USED = { prompt_tokens: 40, cached_tokens: 8, completion_tokens: 12, reasoning_tokens: 5 }

export interface Speaker {
  model: string
  /** Set if its upstream has the client's format. */
  native?: string
  toUpstream(url: string): string
  /** Plays the next turn after each round of tool results. */
  play(turns: readonly Turn[]): Script
  /** Signatures or encrypted state that a request returns, in order. */
  stateIn(seen: Seen): unknown[]
  /** State sent with a turn, in the n-th response. */
  toState(turn: Turn, at: number): unknown[]
}

/** Accepted beyond the published shape if the beta is named. */
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
