/**
 * A response as validated events: dialects create them; everything else trusts them and never parses JSON.
 *
 * Guarantees: choices are numbered from 0 and never exceed the request; text never splits a character (invalid bytes are U+FFFD); the tools of a choice are
 * numbered from 0 without gaps, each begun once, with ID and name, before its arguments; each choice has one `finish`, after its content; the last `usage`
 * counts, and covers all before it; `done` or `failure` comes last, once.
 */

import type { EndpointResult } from './endpoint-results.ts'
import type { UpstreamError } from './error.ts'
import type { Base64Pieces } from './images.ts'
import type { Vector } from './task.ts'
import type { ModelUsage, Usage, Variant } from './usage.ts'

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call'

/** -9999 if there is none. */
export interface Logprob {
  token: string
  logprob: number
  /** UTF-8 bytes; null if unknown. */
  bytes: number[] | null
}

export interface TokenLogprob extends Logprob {
  top_logprobs: Logprob[]
}

/** At least one is not null. */
export interface Logprobs {
  content: TokenLogprob[] | null
  refusal: TokenLogprob[] | null
}

export interface AnswerOrigin {
  service_tier?: 'auto' | 'default' | 'flex' | 'scale' | 'priority' | 'fast'
  system_fingerprint?: string
  moderation?: object
}

/** `function_call`: legacy, one per choice. */
export type ToolKind = 'function' | 'custom' | 'function_call'

export interface RawEvent {
  kind: 'raw'
  name: string | null
  data: string
  /** Base64 left out of `data` before the character `at`. */
  picture?: { at: number; base64: Base64Pieces }
  /** Field with the response's `id` and `model`; '': the object itself; null: none. */
  origin: string | null
  /** Has client content, although nothing else was parsed. */
  isContent: boolean
  /** Belongs to the end, which waits for the ledger. */
  isTail: boolean
}

export type AnswerEvent =
  /** `json`: `text` as a JSON string without line breaks. */
  | { kind: 'text'; choice: number; text: string; json?: string; logprobs?: Logprobs }
  /** `details`: items of `reasoning_details` with an integer `index`; `text` may then be empty. */
  | { kind: 'reasoning'; choice: number; text: string; details?: readonly object[]; logprobs?: Logprobs }
  | { kind: 'refusal'; choice: number; text: string; logprobs?: Logprobs }
  | { kind: 'tool'; choice: number; index: number; id: string; name: string; type: ToolKind }
  /** Or a custom tool's input. */
  | { kind: 'arguments'; choice: number; index: number; text: string }
  /** Each with an integer `index`. */
  | { kind: 'annotations'; choice: number; items: readonly object[] }
  | { kind: 'audio'; choice: number; audio: object }
  /** Each with an integer `index`, and its bytes in a `data:` URL. */
  | { kind: 'images'; choice: number; items: readonly object[] }
  | { kind: 'finish'; choice: number; reason: FinishReason }
  /** In input order, of equal length. */
  | { kind: 'embeddings'; vectors: readonly Vector[] }
  /** Whole result of another endpoint; sent once. */
  | { kind: 'result'; result: EndpointResult }
  /** Part of a response that isn't text, such as speech; never changed later. */
  | { kind: 'bytes'; bytes: Uint8Array }
  | { kind: 'origin'; origin: AnswerOrigin }
  /** The model or a provider tool is working; nothing to read yet. */
  | { kind: 'working' }
  /** `others`: other models within the call, not in `usage`. */
  | { kind: 'usage'; usage: Usage; others?: readonly ModelUsage[]; tokensPerSecond?: number }
  /** See `toMode`. For images, also their size and quality. The last one counts. */
  | ({ kind: 'mode'; mode: string | null } & Variant)
  /** Reported cost. The last one counts, unless content follows. */
  | { kind: 'charged'; nanoUsd: number }
  /** For passthrough; precedes the events parsed from it. */
  | RawEvent
  /** The choice does not match the client's schema. */
  | { kind: 'unmet'; choice: number }
  | { kind: 'done' }
  /** Nothing follows. */
  | { kind: 'failure'; error: UpstreamError }

/** The first such event begins the response. */
export const isContent = (event: AnswerEvent) => (event.kind === 'raw' ? event.isContent : !NO_CONTENT.has(event.kind))
const NO_CONTENT: ReadonlySet<AnswerEvent['kind']> = new Set([
  ...(['origin', 'working', 'usage', 'mode', 'charged', 'finish', 'unmet', 'done', 'failure'] as const),
])

/** False: stop for now. A promise: wait, then as it resolves. */
export type Take = (events: readonly AnswerEvent[]) => boolean | Promise<boolean>

/** Takes whole SSE events that only have text of the first choice. An object: CPU caches would evict per-stream closures between chunks. */
export interface PassthroughSink {
  pass(frames: string, text: string): boolean | Promise<boolean>
}

export interface AnswerStream {
  /**
   * Resolves once the taker stops, or after `done` or `failure`; can be called again. Throws what the taker throws, and errors that are not the upstream's.
   *
   * @param sink takes passthrough text if possible, instead of `take`.
   */
  pump(take: Take, sink?: PassthroughSink): Promise<void>
  /** Idempotent. */
  close(): void
}

export interface Answer {
  /** Events so far; for a complete response all, including `done`. */
  events: readonly AnswerEvent[]
  /** null if complete. */
  rest: AnswerStream | null
  upstreamRequestId: string | null
  /** Its events carry the upstream's original data. */
  isPassthrough?: true
  /** The upstream's content type, if the response is bytes. */
  contentType?: string
}
