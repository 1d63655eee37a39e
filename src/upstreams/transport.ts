/**
 * How a request goes to an upstream and its answer comes back, below every dialect: `http-call.ts` sends by it. Two do: our own
 * HTTP/1.1 over sockets (`http1/`), and `fetch` (`fetch.ts`) for what that one does not do, such as proxies.
 */
import type { GatewayError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'

export interface Outgoing {
  upstream: Upstream
  /** Below the upstream's base URL. */
  path: string
  /** Headers of every request to the upstream, by lower-case name: always the same ones for one upstream. */
  headers: () => Readonly<Record<string, string>>
  /** Those of this request alone; nearly none has any. */
  ownHeaders?: Readonly<Record<string, string>> | undefined
  accept: string
  /** Sent as `x-client-request-id`. */
  callId: string
  /** Sent as `x-tollgate-hops`: `domain/task.ts`. */
  hops: string
  /** JSON text. */
  body: string
  /** Told where it goes out once more, over another connection. */
  resent?: () => void
}

/** Takes a body. An object, and no function, as `PassthroughSink` is. */
export interface BodyTaker {
  /**
   * Takes a piece, in the order of the bytes: what stands in `bytes` from one place up to another. (A view of it would cost as much
   * as to make text of it.) False: no more for now. A promise: no more until it resolves.
   */
  takeBytes(bytes: Uint8Array, from: number, to: number): boolean | Promise<boolean>
}

/** Takes room for bytes that are to be held. Returns the refusal where there is none. */
export type TakeRoom = (bytes: number) => GatewayError | null

/** An answer whose head has come. Its body is read in one of the two ways. */
export interface Incoming {
  readonly status: number
  /** @param name in lower case. */
  header(name: string): string | null
  /**
   * Reads the body as text up to a limit; null, and the rest given up, where it is longer. Throws what `take` refuses, and
   * what broke the connection.
   */
  text(maxBytes: number, take: TakeRoom): Promise<string | null>
  /**
   * Hands over the body as it comes. Resolves true once all of it was, and false once `taker` wants no more: called again, it
   * goes on there. Throws what broke the connection, and what it throws.
   */
  pump(taker: BodyTaker): Promise<boolean>
  /** Gives up what is left of it. Idempotent. */
  cancel(): void
  /** Nothing more is wanted, and its end should be near: the connection is kept where that comes soon. Idempotent. */
  leave(): void
}

export interface Exchange {
  /** Rejects with what broke the connection before the head was there, and with the reason of an `abort`. */
  answer: Promise<Incoming>
  /** Ends it, wherever it stands. Idempotent. */
  abort(reason: Error): void
}

export interface Transport {
  send(outgoing: Outgoing): Exchange
  /** Closes connections that nobody uses: somebody needs their files. */
  closeIdle(): void
}

/** The request's own win over shared ones of the same name. */
export function withOwn(shared: Headers, own: Readonly<Record<string, string>>): Headers {
  const headers = new Headers(shared)
  for (const [name, value] of Object.entries(own)) headers.set(name, value)
  return headers
}
