/**
 * An answer as everything behind a dialect sees it: typed events that can be trusted. A dialect (or the demo) makes them,
 * reading what an upstream sent once; the meter, fan-out, enforcement and the writers of formats take them as they are and
 * never look at JSON. Types only.
 *
 * What holds of every answer: choices are numbered from 0, none is beyond what the call asked for; text never ends inside
 * of a character, and what is no character is U+FFFD; the tools of a choice are numbered from 0 without gaps, each begun
 * once, with an id and a name, before its arguments; each choice has one `finish`, after all it says; `usage` may come more than
 * once, the last one counts, and it is what the upstream knew of what came before it; `done` or `failure` comes last, once.
 */

import type { UpstreamError } from './error.ts'
import type { Vector } from './task.ts'
import type { ModelUsage, Usage } from './usage.ts'

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call'

/** A token with its log probability; -9999 where it has none. */
export interface Logprob {
  token: string
  logprob: number
  /** Its UTF-8 bytes; null where they are not known. */
  bytes: number[] | null
}

/** A token of an answer, with the likeliest ones at its place. */
export interface TokenLogprob extends Logprob {
  top_logprobs: Logprob[]
}

/** Of the text and of the refusal that the event with them says; at least one of them is not null. */
export interface Logprobs {
  content: TokenLogprob[] | null
  refusal: TokenLogprob[] | null
}

/** What an upstream says about itself that clients may read. */
export interface AnswerOrigin {
  service_tier?: 'auto' | 'default' | 'flex' | 'scale' | 'priority' | 'fast'
  system_fingerprint?: string
  /** What the client's `moderation` has found. */
  moderation?: object
}

/** `function_call` is the call of the legacy `functions`, one a choice; all others are tool calls. */
export type ToolKind = 'function' | 'custom' | 'function_call'

/** One event of a stream, or a whole answer. */
export interface RawEvent {
  kind: 'raw'
  /** Of the event; null where it has none. */
  name: string | null
  /** JSON, or what else it holds. */
  data: string
  /** Where in it the answer's `id` and `model` stand: in a field of this name, or in the outermost object (''); null: nowhere. */
  origin: string | null
  /** Whether it has what clients read though nothing else was read of it. */
  isContent: boolean
  /** Whether it belongs to the end that waits for the ledger. */
  isTail: boolean
}

export type AnswerEvent =
  /** A piece of content. `json`, where it is there, is `text` as a JSON string that is one line to everyone. */
  | { kind: 'text'; choice: number; text: string; json?: string; logprobs?: Logprobs }
  /** A piece of reasoning. `details` are items of `reasoning_details`, each with an integer `index`; `text` may be empty then. */
  | { kind: 'reasoning'; choice: number; text: string; details?: readonly object[]; logprobs?: Logprobs }
  | { kind: 'refusal'; choice: number; text: string; logprobs?: Logprobs }
  /** A tool call begins. */
  | { kind: 'tool'; choice: number; index: number; id: string; name: string; type: ToolKind }
  /** A piece of its arguments, or of a custom tool's input. */
  | { kind: 'arguments'; choice: number; index: number; text: string }
  /** Items of `annotations`, each with an integer `index`. */
  | { kind: 'annotations'; choice: number; items: readonly object[] }
  | { kind: 'audio'; choice: number; audio: object }
  /** Pictures: items of `images`, each with an integer `index` and its bytes in a `data:` URL. */
  | { kind: 'images'; choice: number; items: readonly object[] }
  | { kind: 'finish'; choice: number; reason: FinishReason }
  /** All vectors of an answer, in the order of the inputs, each as long as the others. */
  | { kind: 'embeddings'; vectors: readonly Vector[] }
  | { kind: 'origin'; origin: AnswerOrigin }
  /** The model has begun to think, or a tool of the provider to work, and there is nothing to read yet. */
  | { kind: 'working' }
  /**
   * `others`, where other models worked within the call: what they used is not among `usage`. `tokensPerSecond`: how fast the answer
   * was written, where the upstream has measured that.
   */
  | { kind: 'usage'; usage: Usage; others?: readonly ModelUsage[]; tokensPerSecond?: number }
  /** How the upstream serves the call, where that may have a price of its own: see `toMode`. The last one counts. */
  | { kind: 'mode'; mode: string | null }
  /** What the upstream charges for the call by its own word, in integer nano-dollars. The last one counts, if nothing is said after it. */
  | { kind: 'charged'; nanoUsd: number }
  /** The upstream's own words, as they came, where they are passed on: before the events that were read of them. */
  | RawEvent
  /** From the gateway: the choice does not meet the schema that the client asked for. */
  | { kind: 'unmet'; choice: number }
  /** The upstream's own word that the answer is complete. */
  | { kind: 'done' }
  /** It is not, and nothing more comes. */
  | { kind: 'failure'; error: UpstreamError }

/** Whether clients read it: an answer has begun with the first of these events. */
export const isContent = (event: AnswerEvent) => (event.kind === 'raw' ? event.isContent : !NO_CONTENT.has(event.kind))
const NO_CONTENT: ReadonlySet<AnswerEvent['kind']> = new Set([
  ...(['origin', 'working', 'usage', 'mode', 'charged', 'finish', 'unmet', 'done', 'failure'] as const),
])

/** Takes a batch of events. False: no more for now. A promise: no more until it resolves, and then by what it resolves to. */
export type Take = (events: readonly AnswerEvent[]) => boolean | Promise<boolean>

/**
 * Takes what passes as it came: whole events of a stream, in the framing of server-sent events, that are pieces of text of the first
 * choice and nothing else, and that text. An object, and no function: what each of many streams keeps in a place of its own has gone
 * from the caches when its next chunk comes. Answers as `Take` does.
 */
export interface PassthroughSink {
  pass(frames: string, text: string): boolean | Promise<boolean>
}

/** The events of an answer that are still to come. */
export interface AnswerStream {
  /**
   * Reads on and hands over each batch as it comes, one at a time. Resolves once its taker wants no more, or after the batch that
   * ends in `done` or `failure`; called again after that, it goes on where it was. Throws what its taker throws, and what is no
   * failure of an upstream, such as a refusal of ours.
   *
   * @param sink takes what passes as it came, where that is asked for and all there is; else `take` has it as events.
   */
  pump(take: Take, sink?: PassthroughSink): Promise<void>
  /** Gives up the call if it is not over. Idempotent. */
  close(): void
}

/** What a backend gives back once it knows that there is an answer. */
export interface Answer {
  /** What has come already: of a whole answer all of it, up to `done`. */
  events: readonly AnswerEvent[]
  /** Null where all of it has come. */
  rest: AnswerStream | null
  /** How the upstream calls the request; null where it does not say. */
  upstreamRequestId: string | null
  /** Whether its events have the upstream's own words beside them, to be passed on in place of ours. */
  isPassthrough?: true
}
