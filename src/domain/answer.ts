/**
 * The answer side of the canonical format: completions and chunks as the contract's section 3 has them, and the
 * events that a backend turns its own stream into. Types only; the request's schema is in `request.ts`.
 */
import type { UpstreamError } from './error.ts'
import type { Usage, WireUsage } from './usage.ts'

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call'

export type ToolCall =
  | { id: string; type: 'function'; function: { name: string; arguments: string } }
  | { id: string; type: 'custom'; custom: { name: string; input: string } }

/** The call of the legacy `functions`. */
export interface FunctionCall {
  name: string
  arguments: string
}

/** A token of `logprobs`, with the likeliest ones at its place. */
export interface TokenLogprob {
  token: string
  logprob: number
  bytes: number[] | null
  top_logprobs: { token: string; logprob: number; bytes: number[] | null }[]
}

export interface Logprobs {
  content: TokenLogprob[] | null
  refusal: TokenLogprob[] | null
}

/** What a message may say besides its text, in the same form whole and streamed. */
interface Beside {
  reasoning?: string
  /** The same text as `reasoning`: clients know one name or the other. */
  reasoning_content?: string
  /** Always with an integer `index`, by which clients join the pieces of a stream. */
  reasoning_details?: object[]
  /** In a stream each has an integer `index`. */
  annotations?: object[]
  audio?: object
}

export interface ChatMessage extends Beside {
  role: 'assistant'
  content: string | null
  refusal: string | null
  tool_calls?: ToolCall[]
  function_call?: FunctionCall
}

export interface Choice {
  index: number
  message: ChatMessage
  finish_reason: FinishReason
  logprobs: Logprobs | null
}

export type ServiceTier = 'auto' | 'default' | 'flex' | 'scale' | 'priority' | 'fast'

/** What an upstream says about itself that clients may read. */
export interface Origin {
  service_tier?: ServiceTier
  system_fingerprint?: string
  /** What the client's `moderation` has found. */
  moderation?: object
}

export interface ChatCompletion extends Origin {
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
  type?: 'function' | 'custom'
  function?: { name?: string; arguments?: string }
  custom?: { name?: string; input?: string }
}

export interface Delta extends Beside {
  role?: 'assistant'
  content?: string | null
  refusal?: string | null
  tool_calls?: ToolCallDelta[]
  function_call?: Partial<FunctionCall>
}

export interface ChunkChoice {
  index: number
  delta: Delta
  finish_reason: FinishReason | null
  logprobs?: Logprobs | null
}

/** What an upstream's chunk still carries of meaning: its id, model and usage are replaced by ours. */
export interface ChatChunk extends Origin {
  choices: ChunkChoice[]
}

/** What an upstream's whole answer still carries of meaning. */
export interface Completion extends Origin {
  choices: Choice[]
}

/** One step of an upstream's stream. `done` is its own word that the answer is complete. */
export type AnswerEvent = { chunk: ChatChunk } | { usage: Partial<Usage> } | { failure: UpstreamError } | { done: true }

/** What a backend gives back once it knows that there is an answer. */
export type BackendAnswer = {
  upstreamRequestId?: string
} /** `unmet`: the gateway enforced a schema that is not strict, and this is the last that the model wrote. */ & (
  | { kind: 'whole'; completion: Completion; usage?: Usage; schema?: 'unmet' }
  | { kind: 'stream'; events: AsyncIterable<AnswerEvent[]> }
)
