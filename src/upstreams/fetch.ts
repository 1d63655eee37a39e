/** Sends requests with the runtime's `fetch`, which supports proxies and other environment settings but costs more. */
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

/** @param places maximum concurrent requests: beyond its own limit, `fetch` would queue silently. */
export function createFetchTransport(places = Number.POSITIVE_INFINITY): Transport {
  let underWay = 0
  /** Created once and changed for each request, which `fetch` copies at once: creating headers takes as long as the request's JSON. */
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
      const exchange = new FetchExchange(url, headers, toBody(outgoing), () => underWay--)
      underWay++
      return exchange
    },
    closeIdle() {},
  }
}

function toBody({ body, rest = [] }: Outgoing): string | Blob {
  const pieces = [body, ...rest]
  return pieces.every((piece) => typeof piece === 'string') ? pieces.join('') : new Blob(pieces as Bun.BlobPart[])
}

/** Controllers of successful requests, reused because a new one costs as much as reading the request's JSON. */
const idle: AbortController[] = []
const MAX_IDLE = 256

class FetchExchange implements Exchange {
  readonly answer: Promise<Incoming>
  #controller: AbortController | null
  readonly #onEnd: () => void

  /** @param onEnd called once, when no part of the request is in flight anymore. */
  constructor(url: string, headers: Headers, body: string | Blob, onEnd: () => void) {
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

  /** @param isWhole true if the response was read to its end, so nothing holds the signal anymore. */
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

const REFUSING: Exchange = {
  get answer() {
    const message = 'the limit of concurrent `fetch` calls is reached'
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
    // `content-length` of a compressed body is wrong, and a few kilobytes may expand to gigabytes.
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
