/**
 * The contract of everything that answers, and of the wire formats that HTTP upstreams speak. `dispatch` is the only
 * caller of `call`: a call that is not in the ledger is not made.
 */

import type { Deadlines } from '../domain/deadlines.ts'
import type { NativeEndpoint } from '../domain/dialects.ts'
import type { EmbeddingRequest } from '../domain/embedding.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import type { UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { ListedModel } from '../domain/model-server.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import type { NativeRequest } from '../domain/task.ts'
import type { SseEvent } from './sse.ts'
import type { Incoming, TakeRoom } from './transport.ts'

export interface BackendCall {
  /** The canonical request. A backend reads it and never changes it. */
  body: CanonicalRequest
  /** What goes on as it came in place of that; null where the call is translated. */
  native: NativeRequest | null
  target: Target
  /**
   * Aborts when the client has left or the server stops, which the backend may tell the payer and then go on for as long as that
   * says; or with an UpstreamError as its reason, and then the call ends at once.
   */
  signal: EndSignal
  payer: Payer
  deadlines: Deadlines
  /** `<request id>-<call number>`, sent upstream as `x-client-request-id`. */
  callId: string
  /** Tollgate servers that the request has passed: `domain/hops.ts`. */
  hops: string
  /** Of what the gateway has for bytes that are held for the request. */
  take: TakeRoom
  /** Does work that holds the event loop for some ms once it is the key's turn. */
  inTurn<T>(work: () => T): Promise<T>
  /** Where a place is to be waited for. */
  queue?: CallQueue
}

/** How a call waits. */
export interface CallQueue {
  /** Whose turns it takes. */
  owner: string
  /** Given what says where it stands; null once it waits no more. */
  onWaiting(note: (() => string) | null): void
}

/** Whoever pays for a call, and so wants to hear what it has used. */
export interface Payer {
  /** Told each time that the request goes out to the upstream: from the last one on that is at work on it. */
  sent(): void
  /** Told once, when the client has left or the server stops. Returns how long the call is read on, ms; 0 = not at all. */
  left(reading: Reading): number
}

/** A call that is read on for its usage alone. */
export interface Reading {
  /** Has it end within so many ms, and no later than it would have. */
  endWithin(ms: number): void
}

/** One kind of place that answers. May do I/O. */
export interface Backend {
  /**
   * Makes one call. Resolves once it is certain that there is an answer: a whole one, or a stream that has begun.
   * Throws an UpstreamError for everything else. What was asked for whole has no `rest`; what was asked for as a stream
   * may have none, where the upstream answers whole.
   */
  call(call: BackendCall): Promise<Answer>
  /** Asks whether the upstream could answer now, by what costs nothing. Never throws. */
  probe(upstream: Upstream, signal: AbortSignal): Promise<Readiness>
}

/**
 * What a free probe found out: `unknown` = it answers, but not to this; `degraded` = it answers with an error, or breaks
 * off; `timeout` = it said nothing in time; `down` = it cannot be reached; `not_made` = for a reason of ours the probe could
 * not be made. `isWrong`: the credential itself is refused, and not only this question, as to one that may chat and list no
 * models. Reasons name no host: clients read some of them.
 */
export type Readiness =
  | { state: 'ready' | 'unknown' }
  | { state: 'refused'; reason: string; isWrong: boolean }
  | { state: 'degraded'; reason: string }
  | { state: 'timeout' | 'down' | 'not_made'; reason: string }

/** What a dialect wants sent: path below the base URL, JSON text, and headers of this request alone, by lower-case names. */
export interface WireRequest {
  path: string
  body: string
  headers?: Readonly<Record<string, string>>
}

/** Whoever gives leave to call an upstream, where its credential is exchanged for something that ends. May do I/O. */
export interface Authority {
  /** Headers for one request; null where the dialect's own say all. Throws an UpstreamError, or rejects with one. */
  headers(upstream: Upstream): Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>> | null
  /** The upstream has refused what was given last. */
  refused(upstream: Upstream): void
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
  body: Pick<CanonicalRequest, 'tools' | 'functions' | 'parallel_tool_calls' | 'web_search_options' | 'stream_options'>
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
export interface EmbeddingDialect {
  /**
   * Throws an UpstreamError `status` 400 for inputs that this format has no words for.
   *
   * @param body that has the embedding, with the fields that only an upstream knows.
   */
  request(body: CanonicalRequest, embedding: EmbeddingRequest, target: Target): WireRequest
  /**
   * Reads an answer: its vectors, what it reports, `done`. Throws an UpstreamError `broken` or `status` where the JSON is none, or
   * the vectors are not those that were asked for.
   *
   * @param text that `json` was parsed from, for what parsing has lost.
   */
  whole(json: unknown, embedding: EmbeddingRequest, target: Target, text: string): AnswerEvent[]
}

/** One upstream wire format, as pure functions to and from the canonical one. */
export interface Dialect {
  readonly probe: Question
  readonly models: ModelsQuestion
  /** Headers of every request to an upstream, be it a call or a probe: the same ones for as long as its settings are. */
  headers(upstream: Upstream): Record<string, string>
  /** How events of its streams are parted; left out: as server-sent events. */
  readonly framing?: 'lines'
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
  readonly native?: { readonly [Endpoint in NativeEndpoint]?: NativeLane }
  /** How it is asked for embeddings; left out where it has none. */
  readonly embeddings?: EmbeddingDialect
  /** Turns an error status into an UpstreamError, with the target's credential taken out of its message. */
  failure(status: number, body: string, headers: Pick<Incoming, 'header'>, target: Target): UpstreamError
}

/**
 * How requests of one format go on as they came, and answers come back so. What it reads of an answer has the same events as a
 * translated one, for whoever meters and decides, and among them the upstream's own words, for whoever passes them on.
 */
export interface NativeLane extends Pick<Dialect, 'whole' | 'decoder'> {
  /** @param body the canonical form of the request, with the output cap that it may need. */
  request(native: NativeRequest, body: CanonicalRequest, target: Target): WireRequest
}
