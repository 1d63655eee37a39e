/**
 * Requests by the runtime's `fetch`, which knows proxies and whatever else its environment asks for, and costs more. See
 * `transport.ts`.
 */
import { UpstreamError } from '../domain/error.ts'
import { HOPS_HEADER } from '../domain/task.ts'
import { readText } from './pieces.ts'
import {
  type BodyTaker,
  type Exchange,
  type Incoming,
  type Outgoing,
  type TakeRoom,
  type Transport,
  withOwn,
} from './transport.ts'

/** @param places how many requests may be under way at a time: `fetch` itself would have any more wait, and tell nobody. */
export function createFetchTransport(places = Number.POSITIVE_INFINITY): Transport {
  let underWay = 0
  /**
   * Headers of the next request to an upstream, made once in its life and changed for each, whose own `fetch` copies at once: to
   * make them anew would take a request as long as its JSON.
   */
  const nextHeaders = new WeakMap<Outgoing['upstream'], Headers>()
  const headersOf = ({ upstream, headers }: Outgoing): Headers =>
    nextHeaders.getOrInsertComputed(upstream, () => new Headers(headers()))

  return {
    send(outgoing) {
      if (underWay >= places) return REFUSING
      const { ownHeaders } = outgoing
      const shared = headersOf(outgoing)
      const headers = ownHeaders ? withOwn(shared, ownHeaders) : shared
      headers.set('accept', outgoing.accept)
      headers.set('x-client-request-id', outgoing.callId)
      headers.set(HOPS_HEADER, outgoing.hops)
      const url = `${outgoing.upstream.baseUrl}${outgoing.path}`
      const exchange = new FetchExchange(url, headers, outgoing.body, () => underWay--)
      underWay++
      return exchange
    },
    closeIdle() {},
  }
}

/** Controllers of requests that ended well, for the next ones: a new one costs a request as much as reading its JSON. */
const idle: AbortController[] = []
const MAX_IDLE = 256

class FetchExchange implements Exchange {
  readonly answer: Promise<Incoming>
  /** Null once it is over, and may be another one's. */
  #controller: AbortController | null
  readonly #onEnd: () => void

  /** @param onEnd called once, when nothing of it is under way any more. */
  constructor(url: string, headers: Headers, body: string, onEnd: () => void) {
    const controller = idle.pop() ?? new AbortController()
    const { signal } = controller
    this.#controller = controller
    this.#onEnd = onEnd
    this.answer = this.#answer(fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal }))
  }

  abort(reason: Error): void {
    this.#end()?.abort(reason)
  }

  async #answer(response: Promise<Response>): Promise<Incoming> {
    try {
      return new FetchIncoming(await response, (isWhole) => this.#release(isWhole))
    } catch (error) {
      this.#end()
      throw error
    }
  }

  /** @param isWhole whether its answer was read to its end: then nothing holds the signal any more. */
  #release(isWhole: boolean): void {
    const controller = this.#end()
    if (isWhole && controller && !controller.signal.aborted && idle.length < MAX_IDLE) idle.push(controller)
  }

  #end(): AbortController | null {
    const controller = this.#controller
    this.#controller = null
    if (controller) this.#onEnd()
    return controller
  }
}

/** In place of a request for which there is no place. */
const REFUSING: Exchange = {
  get answer() {
    const message = 'as many calls as `fetch` may make at a time are under way'
    return Promise.reject(
      new UpstreamError('status', message, { status: 429, isOwnLimit: true, retryable: true, retryAfterMs: 1_000 }),
    )
  },
  abort() {},
}

class FetchIncoming implements Incoming {
  readonly status: number
  readonly #response: Response
  readonly #release: (isWhole: boolean) => void
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null

  constructor(response: Response, release: (isWhole: boolean) => void) {
    this.status = response.status
    this.#response = response
    this.#release = release
  }

  header(name: string): string | null {
    return this.#response.headers.get(name)
  }

  async text(maxBytes: number, take: TakeRoom): Promise<string | null> {
    // Of a compressed body it states the wrong length, and a few kilobytes may hold gigabytes.
    const isPlain = this.header('content-encoding') === null
    const stated = isPlain ? Number(this.header('content-length') ?? Number.NaN) : Number.NaN
    if (stated <= maxBytes) {
      const refusal = take(stated)
      if (refusal) throw refusal
      const text = await this.#response.text()
      this.#release(true)
      return text
    }
    return readText(this, maxBytes, take)
  }

  async pump(taker: BodyTaker): Promise<boolean> {
    if (this.#response.body === null) return true
    this.#reader ??= this.#response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
    for (;;) {
      const { done, value } = await this.#reader.read()
      if (done) {
        this.#release(true)
        return true
      }
      const went = taker.takeBytes(value, 0, value.length)
      if (went !== true && !(await went)) return false
    }
  }

  cancel(): void {
    const ended = this.#reader ? this.#reader.cancel() : this.#response.body?.cancel()
    ended?.catch(() => {})
    this.#release(false)
  }

  leave(): void {
    this.cancel()
  }
}
