/**
 * How requests of all dialects reach an upstream: with our own HTTP/1.1 (`http1/`), or with `fetch` (`fetch.ts`) for what `http1/` doesn't
 * support, such as proxies.
 */
import type { GatewayError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'

export interface Outgoing {
  upstream: Upstream
  path: string
  /** Headers of every request to the upstream, by lower-case name; always the same for one upstream. */
  headers: () => Readonly<Record<string, string>>
  ownHeaders?: Readonly<Record<string, string>> | undefined
  accept: string
  callId: string
  /** Sent as `x-tollgate-hops` (`domain/task.ts`). */
  hops: string
  body: string | Uint8Array
  /** Follows `body`. */
  rest?: readonly (string | Uint8Array)[] | undefined
  /** Called when the request is sent again, over another connection. */
  resent?: () => void
}

/** Consumes a body. An object rather than a function, as `PassthroughSink` is. */
export interface BodyTaker {
  /**
   * Takes `bytes` between two positions, since a view would cost as much as decoding it. Returns false to pause, or a promise to pause
   * until it resolves.
   */
  takeBytes(bytes: Uint8Array, from: number, to: number): boolean | Promise<boolean>
}

/** Reserves memory for bytes. Returns the refusal if there isn't enough. */
export type TakeRoom = (bytes: number) => GatewayError | null

/** A response whose head has arrived. Its body is read in one of two ways. */
export interface Incoming {
  readonly status: number
  header(name: string): string | null
  /** Reads the body as text; null if it exceeds the limit, and the rest is dropped. Throws what `take` refuses and connection errors. */
  text(maxBytes: number, take: TakeRoom): Promise<string | null>
  /**
   * Resolves true at the body's end, and false once `taker` wants no more: calling again resumes. Throws connection errors and errors of
   * `taker`.
   */
  pump(taker: BodyTaker): Promise<boolean>
  /** Drops the rest. Idempotent. */
  cancel(): void
  /** Drops the rest, which should be short: if the body ends soon, the connection is kept. Idempotent. */
  leave(): void
}

export interface Exchange {
  /** Rejects with connection errors before the head, and with the reason of an `abort`. */
  answer: Promise<Incoming>
  /** Ends the request at any point. Idempotent. */
  abort(reason: Error): void
}

export interface Transport {
  send(outgoing: Outgoing): Exchange
  closeIdle(): void
}

export function withOwn(shared: Headers, own: Readonly<Record<string, string>>): Headers {
  const headers = new Headers(shared)
  for (const [name, value] of Object.entries(own)) headers.set(name, value)
  return headers
}
