/**
 * A response as typed, validated events. A dialect (or the demo) creates them from what an upstream sent; metering, fan-out, enforcement, and format writers
 * trust them and never parse JSON.
 *
 * Guarantees: choices are numbered from 0 and never exceed what was requested; text never ends within a character, and invalid bytes are U+FFFD; the tools of a
 * choice are numbered from 0 without gaps, each begun once, with ID and name, before its arguments; each choice has one `finish`, after its content; `usage`
 * may repeat: the last one counts, and covers all that precedes it; `done` or `failure` comes last, once.
 */

import type { UpstreamError } from './error.ts'
import type { Vector } from './task.ts'
import type { ModelUsage, Usage } from './usage.ts'

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call'

/** A token with its log probability; -9999 if there is none. */
export interface Logprob {
  token: string
  logprob: number
  /** UTF-8 bytes; null if unknown. */
  bytes: number[] | null
}

export interface TokenLogprob extends Logprob {
  top_logprobs: Logprob[]
}

/** For the text or refusal of the same event; at least one is not null. */
export interface Logprobs {
  content: TokenLogprob[] | null
  refusal: TokenLogprob[] | null
}

/** What clients may see about the upstream. */
export interface AnswerOrigin {
  service_tier?: 'auto' | 'default' | 'flex' | 'scale' | 'priority' | 'fast'
  system_fingerprint?: string
  /** Result of the client's `moderation`. */
  moderation?: object
}

/** `function_call` is a call of the legacy `functions`, one per choice; all others are tool calls. */
export type ToolKind = 'function' | 'custom' | 'function_call'

/** One event of a stream, or a whole response. */
export interface RawEvent {
  kind: 'raw'
  /** Event name; null if it has none. */
  name: string | null
  /** JSON or other text. */
  data: string
  /** The field that holds the response's `id` and `model`; '': the outermost object; null: none. */
  origin: string | null
  /** True if it has client content although nothing else was parsed. */
  isContent: boolean
  /** True if it belongs to the end, which waits for the ledger. */
  isTail: boolean
}

export type AnswerEvent =
  /** Content. `json`, if present, is `text` as a JSON string without any line breaks. */
  | { kind: 'text'; choice: number; text: string; json?: string; logprobs?: Logprobs }
  /** Reasoning. `details` are items of `reasoning_details`, each with an integer `index`; `text` may then be empty. */
  | { kind: 'reasoning'; choice: number; text: string; details?: readonly object[]; logprobs?: Logprobs }
  | { kind: 'refusal'; choice: number; text: string; logprobs?: Logprobs }
  /** A tool call begins. */
  | { kind: 'tool'; choice: number; index: number; id: string; name: string; type: ToolKind }
  /** Arguments, or a custom tool's input. */
  | { kind: 'arguments'; choice: number; index: number; text: string }
  /** Items of `annotations`, each with an integer `index`. */
  | { kind: 'annotations'; choice: number; items: readonly object[] }
  | { kind: 'audio'; choice: number; audio: object }
  /** Items of `images`, each with an integer `index` and its bytes in a `data:` URL. */
  | { kind: 'images'; choice: number; items: readonly object[] }
  | { kind: 'finish'; choice: number; reason: FinishReason }
  /** All vectors in the order of the inputs, all of the same length. */
  | { kind: 'embeddings'; vectors: readonly Vector[] }
  | { kind: 'origin'; origin: AnswerOrigin }
  /** The model began to reason, or a provider tool to work; nothing to read yet. */
  | { kind: 'working' }
  /** `others`: usage of other models within the call, not included in `usage`. `tokensPerSecond`: output rate, if the upstream measures it. */
  | { kind: 'usage'; usage: Usage; others?: readonly ModelUsage[]; tokensPerSecond?: number }
  /** Service mode of the call, which may have its own price: see `toMode`. The last one counts. */
  | { kind: 'mode'; mode: string | null }
  /** Cost reported by the upstream, in integer nano-dollars. The last one counts, unless more content follows. */
  | { kind: 'charged'; nanoUsd: number }
  /** The upstream's original data, for passthrough; precedes the events parsed from it. */
  | RawEvent
  /** From the gateway: the choice does not match the client's schema. */
  | { kind: 'unmet'; choice: number }
  /** The upstream says that the response is complete. */
  | { kind: 'done' }
  /** The response is incomplete; nothing follows. */
  | { kind: 'failure'; error: UpstreamError }

/** True for client content: the first such event begins a response. */
export const isContent = (event: AnswerEvent) => (event.kind === 'raw' ? event.isContent : !NO_CONTENT.has(event.kind))
const NO_CONTENT: ReadonlySet<AnswerEvent['kind']> = new Set([
  ...(['origin', 'working', 'usage', 'mode', 'charged', 'finish', 'unmet', 'done', 'failure'] as const),
])

/** Takes a batch of events. False: stop for now. A promise: wait, then as it resolves. */
export type Take = (events: readonly AnswerEvent[]) => boolean | Promise<boolean>

/**
 * Takes whole SSE events that are only text of the first choice, for passthrough. An object rather than a function: per-stream closures would be evicted from
 * the CPU caches between chunks. Returns as `Take` does.
 */
export interface PassthroughSink {
  pass(frames: string, text: string): boolean | Promise<boolean>
}

/** The events still to come. */
export interface AnswerStream {
  /**
   * Delivers batches one at a time. Resolves once the taker stops, or after `done` or `failure`; can be called again to continue. Throws what the taker throws,
   * and errors that are not the upstream's, such as our own rejections.
   *
   * @param sink takes passthrough text if possible; otherwise `take` gets events.
   */
  pump(take: Take, sink?: PassthroughSink): Promise<void>
  /** Cancels the call if it is still running. Idempotent. */
  close(): void
}

/** What a backend returns once a response has begun. */
export interface Answer {
  /** The events so far; of a complete response all of them, including `done`. */
  events: readonly AnswerEvent[]
  /** Null if the response is complete. */
  rest: AnswerStream | null
  /** The upstream's request ID; null if it gives none. */
  upstreamRequestId: string | null
  /** True if its events carry the upstream's original data to pass on. */
  isPassthrough?: true
}
