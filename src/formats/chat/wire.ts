/** The objects of an answer as clients read them: those of OpenAI's chat completions, and Tollgate's receipt. Types only. */
import type { AnswerOrigin, FinishReason, Logprobs } from '../../domain/events.ts'

export type ToolCall =
  | { id: string; type: 'function'; function: { name: string; arguments: string } }
  | { id: string; type: 'custom'; custom: { name: string; input: string } }

/** The call of the legacy `functions`. */
export interface FunctionCall {
  name: string
  arguments: string
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
  /** Pictures that the model drew, as OpenRouter's clients know them. In a stream each has an integer `index`. */
  images?: object[]
}

export interface ChatMessage extends Beside {
  role: 'assistant'
  content: string | null
  refusal: string | null
  annotations: object[]
  tool_calls?: ToolCall[]
  function_call?: FunctionCall
}

export interface Choice {
  index: number
  message: ChatMessage
  logprobs: Logprobs | null
  finish_reason: FinishReason
}

export interface ChatCompletion extends AnswerOrigin {
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

export interface WireUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details: {
    cached_tokens: number
    cache_write_tokens?: number
    audio_tokens?: number
    image_tokens?: number
  }
  completion_tokens_details: { reasoning_tokens: number; audio_tokens?: number; image_tokens?: number }
  /** Integer nano-dollars, and the same in USD. */
  cost_nano_usd: number
  cost: number
}
