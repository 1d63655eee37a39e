/**
 * The contract of the wire formats that HTTP upstreams speak: pure functions to and from the canonical request and its events. What a
 * format says of itself beside, `dialects.ts` has. Types only.
 */

import type { PassthroughEndpoint } from '../../domain/dialects.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import type { ListedModel } from '../../domain/model-server.ts'
import type { AnyRequest, CanonicalRequest } from '../../domain/request.ts'
import type { Target, Upstream } from '../../domain/snapshot.ts'
import type { EmbeddingsRequest, PassthroughRequest } from '../../domain/task.ts'
import type { Readiness } from '../backend.ts'
import type { SseEvent } from '../framing.ts'
import type { ErrorReader } from './errors.ts'

/** What a format wants sent: path below the base URL, JSON text, and headers of this request alone, by lower-case names. */
export interface WireRequest {
  path: string
  body: string
  headers?: Readonly<Record<string, string>>
}

/** The question that costs nothing, and what an upstream's status says to it. */
export interface Question {
  /** Below the base URL. */
  path(upstream: Upstream): string
  readiness(status: number): Readiness
}

/** The question which models an upstream has, which costs nothing, and what its answers say. */
export interface ModelsQuestion {
  /** @param after where a page ended that had more behind it. */
  path(upstream: Upstream, after: string | null): string
  /** Reads a page; null for what is no list of models. */
  read(json: unknown): ModelPage | null
  /** What is asked beside it, of what it lists; left out where that says all. */
  further?(models: readonly ListedModel[], upstream: Upstream): FurtherQuestion[]
}

/** A question about models that a list has named. It costs nothing and loads nothing; where it fails, nothing more is known. */
export interface FurtherQuestion {
  /** Below the base URL, or below that without its `/v1`. */
  at: 'base' | 'root'
  path: string
  /** Sent by POST; left out for a GET. */
  body?: object
  /** The model that it is about; null = each of them. */
  of: string | null
  read(json: unknown, listed: ListedModel): ListedModel
}

export interface ModelPage {
  /** Their names are anything. */
  models: ListedModel[]
  /** What the next page is asked for with; null where there is none. */
  next: string | null
}

/** What a decoder has to know of the call that it reads the answer of. */
export interface Expected {
  target: Target
  /** So many choices were asked for; any beyond them are left out, because an index beyond them breaks clients. */
  choices: number
  /** Whether log probabilities were asked for: some upstreams send them to whoever does not ask. */
  logprobs: boolean
  callId: string
  /** What was asked: how the tools of an answer are told depends on how they were given. */
  body: Pick<AnyRequest, 'tools' | 'functions' | 'parallel_tool_calls' | 'web_search_options' | 'stream_options'>
}

/** Reads events that pass as they came, where they are pieces of text and nothing else. */
export interface PlainReader {
  /** What a text says that is whole events, one at least; null where any of it is anything else. */
  read(text: string): string | null
}

/** Turns one upstream's stream into events. One instance a stream. */
export interface Decoder {
  /**
   * Takes text that begins with a server-sent event, as far as it is of the plainest make, and adds its events. Returns how much
   * it has taken, always up to the end of an event; what is left is read as server-sent events.
   */
  take(text: string, out: AnswerEvent[]): number
  /**
   * Reads what comes next, where that may pass as it comes; null where it cannot, left out where nothing passes. Asked anew after
   * each event that it has not read.
   */
  readonly plain?: PlainReader | null
  /** Adds the events of one server-sent event. */
  event(event: SseEvent, out: AnswerEvent[]): void
  /** Called at the end of the body. Without a terminal event before it, the answer was truncated: adds a `failure`. */
  end(out: AnswerEvent[]): void
}

/** How a format has embeddings, as pure functions. */
export interface EmbeddingFormat {
  /** Throws an UpstreamError `status` 400 for inputs that this format has no words for. */
  request(asked: EmbeddingsRequest, target: Target): WireRequest
  /**
   * Reads an answer: its vectors, what it reports, `done`. Throws an UpstreamError `broken` or `status` where the JSON is none, or
   * the vectors are not those that were asked for.
   *
   * @param text that `json` was parsed from, for what parsing has lost.
   */
  whole(json: unknown, asked: EmbeddingsRequest, target: Target, text: string): AnswerEvent[]
}

/** One upstream wire format, as pure functions to and from the canonical one. */
export interface WireFormat {
  readonly probe: Question
  readonly models: ModelsQuestion
  /** Headers of every request to an upstream, be it a call or a probe: the same ones for as long as its settings are. */
  headers(upstream: Upstream): Record<string, string>
  /** How events of its streams are parted: as server-sent events, or a line each. */
  readonly framing: 'events' | 'lines'
  /** In which its upstreams say how they call a request. */
  readonly requestIdHeader: string
  /** Throws an UpstreamError `status` 400 for what this format has no words for. */
  request(body: CanonicalRequest, target: Target): WireRequest
  /**
   * Reads a whole answer, up to `done`. Throws an UpstreamError `broken` or `status` where the JSON is no answer.
   *
   * @param text that `json` was parsed from, for what parsing has lost.
   */
  whole(json: unknown, expected: Expected, text?: string): AnswerEvent[]
  decoder(expected: Expected): Decoder
  /** By the formats of clients whose requests go on as they came. */
  readonly passthrough: { readonly [Endpoint in PassthroughEndpoint]?: PassthroughFormat }
  /** How it is asked for embeddings; null where it has none. */
  readonly embeddings: EmbeddingFormat | null
  readonly errors: ErrorReader
}

/**
 * How requests of one format go on as they came, and answers come back so. What it reads of an answer has the same events as a
 * translated one, for whoever meters and decides, and among them the upstream's own words, for whoever passes them on.
 */
export interface PassthroughFormat extends Pick<WireFormat, 'whole' | 'decoder'> {
  /** @param body the canonical form of the request, with the output cap that it may need. */
  request(passthrough: PassthroughRequest, body: CanonicalRequest, target: Target): WireRequest
}
