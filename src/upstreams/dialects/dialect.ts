/** Contract of the upstream wire formats: pure functions between the canonical request and its events. */

import type { PassthroughEndpoint } from '../../domain/dialects.ts'
import type { EndpointRequest } from '../../domain/endpoint-request.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import type { ImagesRequest } from '../../domain/images.ts'
import type { ListedModel } from '../../domain/model-server.ts'
import type { ModerationsRequest } from '../../domain/moderations.ts'
import type { AnyRequest, CanonicalRequest } from '../../domain/request.ts'
import type { RerankRequest } from '../../domain/rerank.ts'
import type { Target, Upstream } from '../../domain/snapshot.ts'
import type { SpeechRequest } from '../../domain/speech.ts'
import type { EmbeddingsRequest, PassthroughRequest } from '../../domain/task.ts'
import type { TranscriptionRequest } from '../../domain/transcriptions.ts'
import type { Readiness } from '../backend.ts'
import type { SseEvent } from '../framing.ts'
import type { PictureCutter } from '../pictures.ts'
import type { ErrorReader } from './errors.ts'

/** A request to send: path relative to the base URL, JSON text, and its own headers by lower-case name. */
export interface WireRequest {
  path: string
  body: string
  /** Pieces after `body`, not joined with it because that would copy a large request. */
  rest?: readonly string[]
  headers?: Readonly<Record<string, string>>
}

/** JSON text or other bytes, which need their `content-type` in `headers`. */
export interface EndpointWire extends Omit<WireRequest, 'body' | 'rest'> {
  body: string | Uint8Array
  rest?: readonly (string | Uint8Array)[]
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
   * @param text source of `json`, with details that parsing loses.
   */
  whole(json: unknown, asked: EmbeddingsRequest, target: Target, text: string): AnswerEvent[]
}

/**
 * One endpoint of a dialect, loaded with its first call. `whole` reads JSON, `plain` other text, and `stream` responses in pieces. All
 * throw an UpstreamError `broken` or `status` if the response is invalid. `usage` events have `countedBy`.
 */
export interface EndpointFormat<Asked extends EndpointRequest = EndpointRequest> {
  /** Throws an UpstreamError `status` 400 for what the format can't express. */
  request(asked: Asked, target: Target): EndpointWire
  /** Media types to accept; default JSON, or event streams for a streaming request. */
  accept?(asked: Asked, target: Target): string
  /**
   * Reads a whole JSON response, up to `done`.
   * @param text source of `json`, with details that parsing loses.
   */
  whole(json: unknown, asked: Asked, target: Target, text: string): AnswerEvent[]
  /** Reads a whole response of another media type, up to `done`. Missing if there are none. */
  plain?(text: string, asked: Asked, target: Target): AnswerEvent[]
  /**
   * How to read a response of this media type in pieces; null if it is whole.
   * @param mediaType in lower case, without parameters.
   */
  stream?(mediaType: string, asked: Asked, target: Target): EndpointStream | null
  /** Largest event of a stream, bytes; default 4 MiB. */
  readonly maxEventBytes?: number
  /** Largest whole response, bytes; default 64 MiB. */
  readonly maxWholeBytes?: number
}

/**
 * The decoder of `bytes` gets all bytes as they arrive, without event framing. With `pictures`, the decoder of events gets
 * marks in place of images.
 */
export type EndpointStream =
  | { framing: 'events' | 'lines'; decoder: Decoder; pictures?: PictureCutter }
  | { framing: 'bytes'; decoder: BytesDecoder }

export interface BytesDecoder {
  /** @param bytes valid only during the call. */
  bytes(bytes: Uint8Array, out: AnswerEvent[]): void
  /** Called at the end of the body. Adds `done`, or a `failure` if it was truncated. */
  end(out: AnswerEvent[]): void
}

/** Request types by endpoint, so that the compiler knows each body. */
export interface EndpointRequests {
  rerank: RerankRequest
  moderations: ModerationsRequest
  transcriptions: TranscriptionRequest
  translations: TranscriptionRequest
  speech: SpeechRequest
  images: ImagesRequest
  image_edits: ImagesRequest
}

export type EndpointFormats = {
  readonly [Name in keyof EndpointRequests]?: () => Promise<EndpointFormat<EndpointRequests[Name]>>
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
   * @param text source of `json`, with details that parsing loses.
   */
  whole(json: unknown, expected: Expected, text?: string): AnswerEvent[]
  decoder(expected: Expected): Decoder
  readonly passthrough: { readonly [Endpoint in PassthroughEndpoint]?: PassthroughFormat }
  readonly embeddings: EmbeddingFormat | null
  /** Endpoints listed in `Dialect.endpoints`. */
  readonly endpoints?: EndpointFormats
  readonly errors: ErrorReader
}

/** Passthrough of one format. Its events are those of a translated response, plus the upstream's own text. */
export interface PassthroughFormat extends Pick<WireFormat, 'whole' | 'decoder'> {
  request(passthrough: PassthroughRequest, body: CanonicalRequest, target: Target): WireRequest
}
