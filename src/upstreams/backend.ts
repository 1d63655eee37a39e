/**
 * The contract of everything that answers, and of the wire formats that HTTP upstreams speak (design 4). `dispatch`
 * is the only caller of `chat`: a call that is not in the ledger is not made.
 */

import type { AnswerEvent, BackendAnswer, Completion } from '../domain/answer.ts'
import type { GatewayError, UpstreamError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Deadlines } from '../domain/settings.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import type { Usage } from '../domain/usage.ts'
import type { SseEvent } from './sse.ts'

export interface BackendCall {
  /** The canonical request. A backend reads it and never changes it. */
  body: CanonicalRequest
  target: Target
  /** Aborts when the client has left or the server ends. */
  signal: AbortSignal
  deadlines: Deadlines
  /** `<request id>-<call number>`, sent upstream as `x-client-request-id`. */
  callId: string
  /** Counts bytes in that are held for the request. Returns the refusal where the gateway has no room for them. */
  take(bytes: number): GatewayError | null
}

/** One kind of place that answers. May do I/O. */
export interface Backend {
  /**
   * Makes one call. Resolves once it is certain that there is an answer: a whole one, or a stream that has begun.
   * Throws an UpstreamError for everything else. A stream's events end after `done` or `failure`; an iteration that
   * is left early (`return()`) gives up the call.
   */
  chat(call: BackendCall): Promise<BackendAnswer>
  /** Asks whether the upstream could answer now, by what costs nothing. Never throws. */
  probe(upstream: Upstream, signal: AbortSignal): Promise<Readiness>
}

/**
 * What a free probe found out: `unknown` = it answers, but not to this; `degraded` = it answers with an error, or breaks
 * off; `timeout` = it said nothing in time; `down` = it cannot be reached; `not_made` = for a reason of ours the probe could
 * not be made. Reasons name no host: clients read some of them.
 */
export type Readiness =
  | { state: 'ready' | 'unknown' }
  | { state: 'refused' | 'degraded'; reason: string }
  | { state: 'timeout' | 'down' | 'not_made'; reason: string }

/** What a dialect wants sent: path below the base URL, headers and JSON text. */
export interface WireRequest {
  path: string
  headers: Record<string, string>
  body: string
}

/** The question that costs nothing, and what an upstream's status says to it. */
export interface Question {
  request(upstream: Upstream): { path: string; headers: Record<string, string> }
  readiness(status: number): Readiness
}

/** Turns one upstream's stream into canonical events. One instance a stream. */
export interface Decoder {
  event(event: SseEvent): AnswerEvent[]
  /** Called at the end of the body. Without a terminal event before it, the answer was cut: returns a `failure`. */
  end(): AnswerEvent[]
}

/** One upstream wire format, as pure functions to and from the canonical one. */
export interface Dialect {
  readonly name: string
  readonly probe: Question
  request(body: CanonicalRequest, target: Target): WireRequest
  /** Throws an UpstreamError `broken` or `status` where the JSON is no completion. */
  completion(json: unknown, target: Target): { completion: Completion; usage?: Usage }
  decoder(target: Target): Decoder
  /** Turns an error status into an UpstreamError, with the target's credential taken out of its message. */
  failure(status: number, body: string, headers: Headers, target: Target): UpstreamError
}
