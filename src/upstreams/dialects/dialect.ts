/** Contract of the upstream wire formats: pure functions between the canonical request and its events. */

import type { PassthroughEndpoint } from '../../domain/dialects.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import type { ListedModel } from '../../domain/model-server.ts'
import type { AnyRequest, CanonicalRequest } from '../../domain/request.ts'
import type { Target, Upstream } from '../../domain/snapshot.ts'
import type { EmbeddingsRequest, PassthroughRequest } from '../../domain/task.ts'
import type { Readiness } from '../backend.ts'
import type { SseEvent } from '../framing.ts'
import type { ErrorReader } from './errors.ts'

/** A request to send: path relative to the base URL, JSON text, and its own headers by lower-case name. */
export interface WireRequest {
  path: string
  body: string
  /** What follows `body`: joining them would copy a large request. */
  rest?: readonly string[]
  headers?: Readonly<Record<string, string>>
}

/** A free health check, and how to read its status. */
export interface Question {
  path(upstream: Upstream): string
  readiness(status: number): Readiness
}

/** A free request for the models of an upstream. */
export interface ModelsQuestion {
  /** @param after page token of the previous page. */
  path(upstream: Upstream, after: string | null): string
  /** Reads a page; null if it is not a model list. */
  read(json: unknown): ModelPage | null
  /** Additional requests about the listed models, if the list doesn't say everything. */
  further?(models: readonly ListedModel[], upstream: Upstream): FurtherQuestion[]
}

/** A request about listed models. It is free and loads nothing; a failure leaves the facts unknown. */
export interface FurtherQuestion {
  /** Relative to the base URL, or to that without its `/v1`. */
  at: 'base' | 'root'
  path: string
  /** Sent by POST; missing for a GET. */
  body?: object
  /** Model ID; null = each model. */
  of: string | null
  read(json: unknown, listed: ListedModel): ListedModel
}

export interface ModelPage {
  /** Names may contain anything. */
  models: ListedModel[]
  next: string | null
}

export interface Expected {
  target: Target
  /** Requested choices; others are dropped, because an unexpected index breaks clients. */
  choices: number
  /** True if logprobs were requested; some upstreams send them anyway. */
  logprobs: boolean
  callId: string
  /** The request; its kind of tools decides how calls are represented. */
  body: Pick<AnyRequest, 'tools' | 'functions' | 'parallel_tool_calls' | 'web_search_options' | 'stream_options'>
}

export interface PlainReader {
  /** The text of one or more whole events; null if any of them is anything else. */
  read(text: string): string | null
}

export interface Decoder {
  /** Reads the plainest events at the start of a text. Returns how much it has taken, up to the end of an event. */
  take(text: string, out: AnswerEvent[]): number
  /** Null if the next events can't pass, missing if the format never passes. Check again after each event it hasn't read. */
  readonly plain?: PlainReader | null
  event(event: SseEvent, out: AnswerEvent[]): void
  /** Called at the end of the body. Adds a `failure` if the response was truncated. */
  end(out: AnswerEvent[]): void
}

export interface EmbeddingFormat {
  /** Throws an UpstreamError `status` 400 for inputs the format can't express. */
  request(asked: EmbeddingsRequest, target: Target): WireRequest
  /**
   * Reads vectors, usage and `done`. Throws an UpstreamError `broken` or `status` if the JSON is invalid or the vectors don't match the
   * request.
   * @param text source of `json`, for what parsing has lost.
   */
  whole(json: unknown, asked: EmbeddingsRequest, target: Target, text: string): AnswerEvent[]
}

export interface WireFormat {
  readonly probe: Question
  readonly models: ModelsQuestion
  /** Headers of every request and health check; constant while the upstream's settings are. */
  headers(upstream: Upstream): Record<string, string>
  readonly framing: 'events' | 'lines'
  readonly requestIdHeader: string
  /** Throws an UpstreamError `status` 400 for what the format can't express. */
  request(body: CanonicalRequest, target: Target): WireRequest
  /**
   * Reads a whole response, up to `done`. Throws an UpstreamError `broken` or `status` if it is invalid.
   * @param text source of `json`, for what parsing has lost.
   */
  whole(json: unknown, expected: Expected, text?: string): AnswerEvent[]
  decoder(expected: Expected): Decoder
  readonly passthrough: { readonly [Endpoint in PassthroughEndpoint]?: PassthroughFormat }
  readonly embeddings: EmbeddingFormat | null
  readonly errors: ErrorReader
}

/** Passthrough of one format. Its events are those of a translated response, plus the upstream's own text. */
export interface PassthroughFormat extends Pick<WireFormat, 'whole' | 'decoder'> {
  request(passthrough: PassthroughRequest, body: CanonicalRequest, target: Target): WireRequest
}
