/**
 * Contract of HTTP upstreams and built-in models. Only `dispatch` calls `call`, so every call is in the ledger.
 */

import type { Deadlines } from '../domain/deadlines.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import type { Answer } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import type { PassthroughRequest } from '../domain/task.ts'
import type { EndpointWire } from './dialects/dialect.ts'
import type { TakeRoom } from './transport.ts'

export interface BackendCall {
  /** The canonical request; a backend never changes it. */
  body: AnyRequest
  /** Sent in place of `body`; null if the call is translated. */
  passthrough: PassthroughRequest | null
  target: Target
  /**
   * Aborts when the client disconnects or the server stops. A backend may then call the observer and keep reading. For other reasons
   * (`endReasonOf`), the call ends immediately.
   */
  signal: EndSignal
  observer: CallObserver
  deadlines: Deadlines
  /** `<request id>-<call number>`, sent upstream as `x-client-request-id`. */
  callId: string
  hops: string
  /** Headers of W3C Trace Context; null or missing without a trace. */
  traceHeaders?: Readonly<Record<string, string>> | null
  /** Reserves memory for bytes that are held for the request. */
  take: TakeRoom
  /** Runs work that blocks the event loop for some ms, there or elsewhere, when it is the key's turn. */
  inTurn<T>(work: () => T, elsewhereMs?: number): Promise<T>
  queue?: CallQueue
}

export interface CallQueue {
  /** Quota ID for round-robin across keys. */
  owner: string
  /** Called with a function that describes the position in the queue; with null once the call isn't queued anymore. */
  onWaiting(note: (() => string) | null): void
}

export interface CallObserver {
  /** Called each time the request is sent; from the last call on, the upstream is working on it. */
  sent(): void
  /** Called once, when the client disconnects or the server stops. Returns how long to keep reading usage, in ms; 0 = not at all. */
  left(reading: Reading): number
}

export interface Reading {
  /** Ends the call within `ms`, if it doesn't end earlier. */
  endWithin(ms: number): void
}

export interface Backend {
  /**
   * Resolves with a whole response, or once a stream has begun. Throws an UpstreamError otherwise. A streaming request may get a whole
   * response, too.
   */
  call(call: BackendCall): Promise<Answer>
  /** Checks for free if the upstream can respond now. Never throws. */
  probe(upstream: Upstream, signal: AbortSignal): Promise<Readiness>
}

/**
 * `unknown`: it responds, but doesn't support the check. `degraded`: it returns an error or closes the connection. `not_made`: a shortage
 * on this machine prevented the check. `isWrong`: the credential is invalid, and not only denied this request. Reasons name no host, since
 * clients see some of them.
 */
export type Readiness =
  | { state: 'ready' | 'unknown' }
  | { state: 'refused'; reason: string; isWrong: boolean }
  | { state: 'degraded'; reason: string }
  | { state: 'timeout' | 'down' | 'not_made'; reason: string }

export type AuthHeaders = Readonly<Record<string, string>>

/** Exchanges a credential for short-lived headers. */
export interface Authority {
  /**
   * Headers for one request; null if the dialect's own suffice. Throws an UpstreamError, or rejects with one.
   * @param request as sent; a health check (GET) has no body.
   */
  headers(
    upstream: Upstream,
    request: Pick<EndpointWire, 'path' | 'body'>,
  ): AuthHeaders | null | Promise<AuthHeaders | null>
  refused(upstream: Upstream): void
}
