/**
 * The backend of every upstream that is reached over HTTP: a dialect over `fetch`, with deadlines and the client's leaving,
 * up to the answer: a whole one, or a stream that `sse.ts` goes on reading. Nothing here knows a provider.
 */
import { GatewayError, tooLong, UpstreamError } from '../domain/error.ts'
import type { Answer } from '../domain/events.ts'
import { parseJson } from '../domain/json.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Backend, BackendCall, Dialect, Expected, WireRequest } from './backend.ts'
import { Deadline } from './deadline.ts'
import { toPublic, toPublicRequestId } from './failure.ts'
import { askReadiness } from './probe.ts'
import { nameOf, sendAgain } from './shortage.ts'
import { SseStream } from './sse.ts'

export interface HttpOptions {
  /** Of one event in a stream; a longer one breaks it off. */
  maxEventBytes?: number
}

export function createHttpBackend(dialect: Dialect, { maxEventBytes = 4 * 1024 * 1024 }: HttpOptions = {}): Backend {
  return {
    call: (call) => new HttpCall(dialect, call, maxEventBytes).run(),
    probe: (upstream, signal) => askReadiness(dialect, upstream, signal),
  }
}

const MAX_WHOLE_BYTES = 64 * 1024 * 1024
/** Nobody reads more of an error. */
const MAX_ERROR_BYTES = 64 * 1024
const EVENT_STREAM = 'text/event-stream'

/** Controllers of calls that ended well, for the next ones: a new one costs a call as much as reading its JSON. */
const idle: AbortController[] = []
const MAX_IDLE = 256

/** One call, and what its stream needs to end it. */
export class HttpCall {
  readonly deadline: Deadline
  readonly maxEventBytes: number
  readonly #dialect: Dialect
  readonly #call: BackendCall
  readonly #wire: WireRequest
  readonly #controller = idle.pop() ?? new AbortController()
  /** Why we ended the call, if we did. */
  #reason: UpstreamError | null = null

  constructor(dialect: Dialect, call: BackendCall, maxEventBytes: number) {
    this.#dialect = dialect
    this.#call = call
    this.maxEventBytes = maxEventBytes
    // Before anything is begun: what throws here is a mistake of our own, and no failure of the upstream.
    this.#wire = dialect.request(call.body, call.target)
    const { deadlines, signal: client, payer, body } = call
    const end = (error: UpstreamError) => this.abort(error)
    this.deadline = body.stream
      ? new Deadline({ name: 'headers', ms: deadlines.headers, totalMs: deadlines.total, end, client, payer })
      : new Deadline({ name: 'total_whole', ms: deadlines.totalWhole, end, client, payer })
  }

  /** Makes the call. See `Backend.call`. */
  async run(): Promise<Answer> {
    let response: Response
    let text: string
    try {
      try {
        response = await this.#fetch()
      } catch (error) {
        response = await sendAgain(
          error,
          () => this.#fetch(),
          () => this.#reason !== null,
        )
      }
      if (response.status !== 200) throw await this.#toFailure(response)
      if (this.#call.body.stream) {
        if (isEventStream(response)) return this.#toStream(response)
        this.#mustBeJson(response)
      }
      text = await this.#readWhole(response)
    } catch (error) {
      this.deadline.stop()
      if (!(error instanceof GatewayError)) throw this.toError(error)
      // We have no room for it: nobody reads on.
      this.abort(new UpstreamError('aborted', error.message, { retryable: false }))
      throw error
    }
    return this.#toWhole(response, text)
  }

  abort(error: UpstreamError): void {
    this.#reason ??= error
    this.#controller.abort(error)
  }

  /** Names what broke the call off: our own reason, or what the connection threw. */
  toError(error: unknown): UpstreamError {
    if (this.#reason !== null) return this.#reason
    if (error instanceof UpstreamError) return error
    const name = nameOf(error)
    return name === 'ZlibError'
      ? new UpstreamError('broken', 'sent something that its content-encoding does not fit', { cause: error })
      : new UpstreamError('connection', `could not be reached or broke the connection (${name})`, { cause: error })
  }

  #fetch(): Promise<Response> {
    const { body, target, callId } = this.#call
    const { path, body: text } = this.#wire
    const headers = headersOf(target.upstream, this.#dialect)
    headers.set('accept', body.stream ? EVENT_STREAM : 'application/json')
    headers.set('x-client-request-id', callId)
    return fetch(`${target.upstream.baseUrl}${path}`, {
      method: 'POST',
      headers,
      body: text,
      redirect: 'manual',
      signal: this.#controller.signal,
    })
  }

  /** A server that cannot stream answers whole, with JSON. Anything else is no answer. */
  #mustBeJson(response: Response): void {
    const type = mediaTypeOf(response)
    if (type !== 'application/json') {
      response.body?.cancel().catch(() => {})
      const quoted = toPublic(type, this.#call.target.upstream).slice(0, 100)
      throw new UpstreamError('broken', `answered a stream with ${quoted || 'no content type'}`)
    }
    this.deadline.enter('first_token', this.#call.deadlines.firstToken)
  }

  async #readWhole(response: Response): Promise<string> {
    const text = await readText(response, MAX_WHOLE_BYTES, this.#call.take)
    if (text === null) throw tooLong('answered with more than 64 MiB')
    this.deadline.stop()
    // The answer was read to its end, and nothing holds the signal any more.
    if (this.#reason === null && idle.length < MAX_IDLE) idle.push(this.#controller)
    return text
  }

  #toWhole(response: Response, text: string): Answer {
    let json: unknown
    try {
      json = parseJson(text)
    } catch {
      const what = isEventStream(response) ? 'a stream, which nobody asked for' : 'something that is not JSON'
      throw new UpstreamError('broken', `answered 200 with ${what}`)
    }
    const events = this.#dialect.whole(json, this.#expected())
    return { events, rest: null, upstreamRequestId: this.#requestIdOf(response) }
  }

  #toStream(response: Response): Answer {
    if (!response.body) throw new UpstreamError('broken', 'answered a stream with nothing')
    const { firstToken, idle: idleMs } = this.#call.deadlines
    this.deadline.enter('first_token', firstToken)
    const rest = new SseStream(this, response.body, this.#dialect.decoder(this.#expected()), idleMs)
    return { events: [], rest, upstreamRequestId: this.#requestIdOf(response) }
  }

  /** How the upstream calls the request. */
  #requestIdOf(response: Response): string | null {
    return toPublicRequestId(response.headers.get(this.#dialect.requestIdHeader), this.#call.target.upstream)
  }

  #expected(): Expected {
    const { target, body, callId } = this.#call
    return { target, choices: body.n ?? 1, logprobs: body.logprobs === true, callId }
  }

  /** Where there is no room for the body of an error, its status still tells the most. */
  async #toFailure(response: Response): Promise<UpstreamError> {
    let text: string | null = null
    try {
      text = await readText(response, MAX_ERROR_BYTES, this.#call.take)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
    }
    if (text === null) response.body?.cancel().catch(() => {})
    return this.#dialect.failure(response.status, text ?? '', response.headers, this.#call.target)
  }
}

/**
 * Headers of the next call to an upstream, made once in its life and changed for each call, whose own `fetch` copies at once:
 * to make them anew would take a call as long as its JSON.
 */
const nextHeaders = new WeakMap<Upstream, Headers>()

const headersOf = (upstream: Upstream, dialect: Dialect): Headers =>
  nextHeaders.getOrInsertComputed(
    upstream,
    // A compressed stream arrives in lumps.
    () =>
      new Headers({ 'content-type': 'application/json', 'accept-encoding': 'identity', ...dialect.headers(upstream) }),
  )

const isEventStream = (response: Response) => mediaTypeOf(response) === EVENT_STREAM

/** The media type of a response, without its parameters; '' where it says none. */
const mediaTypeOf = (response: Response) =>
  (response.headers.get('content-type')?.split(';')[0] ?? '').trim().toLowerCase()

/**
 * Reads a body up to a limit; null, and the rest given up, where it is longer.
 * @param take counts its bytes in; what it refuses is thrown.
 */
async function readText(response: Response, maxBytes: number, take: BackendCall['take']): Promise<string | null> {
  // Of a compressed body it states the wrong length, and a few kilobytes may hold gigabytes.
  const isPlain = response.headers.get('content-encoding') === null
  const stated = isPlain ? Number(response.headers.get('content-length') ?? Number.NaN) : Number.NaN
  if (stated <= maxBytes) {
    const refusal = take(stated)
    if (refusal) throw refusal
    return response.text()
  }
  const utf8 = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const piece of response.body ?? []) {
    bytes += piece.length
    if (bytes > maxBytes) return null
    const refusal = take(piece.length)
    if (refusal) throw refusal
    text += utf8.decode(piece, { stream: true })
  }
  return text + utf8.decode()
}
