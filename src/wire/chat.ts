/**
 * The answer side of the canonical format: completions and chunks as the contract's section 3 has them, and the
 * events that a backend turns its own stream into. Types only; the request's schema is in `request.ts`.
 */
import type { UpstreamError } from '../error.ts'
import type { Usage, WireUsage } from './usage.ts'

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call'

export interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

export interface ChatMessage {
  role: 'assistant'
  content: string | null
  refusal: string | null
  tool_calls?: ToolCall[]
  reasoning?: string
  reasoning_content?: string
}

export interface Choice {
  index: number
  message: ChatMessage
  finish_reason: FinishReason
  logprobs: unknown
}

export interface ChatCompletion {
  id: string
  object: 'chat.completion'
  /** Unix seconds. */
  created: number
  model: string
  choices: Choice[]
  usage: WireUsage
}

export interface ToolCallDelta {
  index: number
  id?: string
  type?: 'function'
  function: { name?: string; arguments?: string }
}

export interface Delta {
  role?: 'assistant'
  content?: string | null
  refusal?: string | null
  tool_calls?: ToolCallDelta[]
  reasoning?: string
  reasoning_content?: string
}

export interface ChunkChoice {
  index: number
  delta: Delta
  finish_reason: FinishReason | null
  logprobs?: unknown
}

/** What an upstream's chunk still carries of meaning: its id, model and usage are replaced by ours. */
export interface ChatChunk {
  choices: ChunkChoice[]
}

/** What an upstream's whole answer still carries of meaning. */
export interface Completion {
  choices: Choice[]
}

/** One step of an upstream's stream. `done` is its own word that the answer is complete. */
export type AnswerEvent = { chunk: ChatChunk } | { usage: Partial<Usage> } | { failure: UpstreamError } | { done: true }

/** What a backend gives back once it knows that there is an answer. */
export type BackendAnswer = { upstreamRequestId?: string } & (
  | { kind: 'whole'; completion: Completion; usage?: Usage }
  | { kind: 'stream'; events: AsyncIterable<AnswerEvent[]> }
)
