/**
 * The contract of everything that answers: HTTP upstreams, whatever they speak, and what is built in. `dispatch` is the only caller of
 * `call`: a call that is not in the ledger is not made. Types only.
 */

import type { Deadlines } from '../domain/deadlines.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import type { Answer } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import type { PassthroughRequest } from '../domain/task.ts'
import type { WireRequest } from './dialects/dialect.ts'
import type { TakeRoom } from './transport.ts'

export interface BackendCall {
  /** The canonical request. A backend reads it and never changes it. */
  body: AnyRequest
  /** What goes on as it came in place of that; null where the call is translated. */
  passthrough: PassthroughRequest | null
  target: Target
  /**
   * Aborts when the client has left or the server stops, which the backend may tell the observer, and then go on for as long as that
   * says; or for another reason (`endReasonOf`), and then the call ends at once.
   */
  signal: EndSignal
  observer: CallObserver
  deadlines: Deadlines
  /** `<request id>-<call number>`, sent upstream as `x-client-request-id`. */
  callId: string
  /** Tollgate servers that the request has passed: `domain/task.ts`. */
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

/** Hears what becomes of a call, whose time and tokens are paid for. */
export interface CallObserver {
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

/** Headers of one request. */
export type Granted = Readonly<Record<string, string>>

/** Whoever gives leave to call an upstream, where its credential is exchanged for something that ends. May do I/O. */
export interface Authority {
  /**
   * Headers for one request, which they may sign; null where the dialect's own say all. Throws an UpstreamError, or rejects with one.
   * @param request as it is sent; a probe, which is a GET, has no body.
   */
  headers(upstream: Upstream, request: Pick<WireRequest, 'path' | 'body'>): Granted | null | Promise<Granted | null>
  /** The upstream has refused what was given last. */
  refused(upstream: Upstream): void
}
