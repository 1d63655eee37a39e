/**
 * One call to an HTTP upstream: `fetch` with deadlines and the client's leaving, up to the answer: a whole one, or a stream
 * that `sse-stream.ts` goes on reading. Called by `http.ts`.
 */
import { GatewayError, UpstreamError } from '../domain/error.ts'
import type { Answer } from '../domain/events.ts'
import { parseJson } from '../domain/json.ts'
import type { BackendCall, Dialect, Expected, WireRequest } from './backend.ts'
import { Deadline } from './deadline.ts'
import { nameOf } from './network-messages.ts'
import { SseStream } from './sse-stream.ts'
import { readErrorText, readText } from './text.ts'

const MAX_WHOLE_BYTES = 64 * 1024 * 1024
const EVENT_STREAM = 'text/event-stream'

/** Controllers of calls that ended well, for the next ones: a new one costs a call as much as reading its JSON. */
const idle: AbortController[] = []
const MAX_IDLE = 256

export class HttpCall {
  readonly #dialect: Dialect
  readonly #call: BackendCall
  readonly #maxEventBytes: number
  readonly #wire: WireRequest
  readonly #controller = idle.pop() ?? new AbortController()
  readonly deadline: Deadline
  /** Why we ended the call, if we did. */
  #reason: UpstreamError | null = null

  constructor(dialect: Dialect, call: BackendCall, maxEventBytes: number) {
    this.#dialect = dialect
    this.#call = call
    this.#maxEventBytes = maxEventBytes
    // Before anything is begun: what throws here is a mistake of our own, and no failure of the upstream.
    this.#wire = dialect.request(call.body, call.target)
    const { deadlines, signal: client, body } = call
    const end = (error: UpstreamError) => this.abort(error)
    this.deadline = body.stream
      ? new Deadline({ name: 'headers', ms: deadlines.headers, totalMs: deadlines.total, end, client })
      : new Deadline({ name: 'total_whole', ms: deadlines.totalWhole, end, client })
  }

  /** Makes the call. See `Backend.call`. */
  async run(): Promise<Answer> {
    let response: Response
    let text: string
    try {
      response = await this.#fetch()
      if (response.status !== 200) throw await this.#toFailure(response)
      if (this.#call.body.stream && isEventStream(response)) return this.#toStream(response)
      if (this.#call.body.stream) this.#mustBeJson(response)
      text = await this.#readWhole(response)
    } catch (error) {
      this.deadline.stop()
      if (!(error instanceof GatewayError)) throw this.toFailure(error)
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

  /** Names what broke the call off. */
  toFailure(error: unknown): UpstreamError {
    return this.#reason ?? toUpstreamError(error)
  }

  #fetch(): Promise<Response> {
    const { body, target, callId } = this.#call
    const { path, headers, body: text } = this.#wire
    return fetch(`${target.upstream.baseUrl}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: body.stream ? EVENT_STREAM : 'application/json',
        // A compressed stream arrives in lumps.
        'accept-encoding': 'identity',
        'x-client-request-id': callId,
        ...headers,
      },
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
      throw new UpstreamError('broken', `answered a stream with ${type || 'no content type'}`)
    }
    this.deadline.enter('first_token', this.#call.deadlines.firstToken)
  }

  async #readWhole(response: Response): Promise<string> {
    const text = await readText(response, MAX_WHOLE_BYTES, this.#call.take)
    if (text === null) throw new UpstreamError('broken', 'answered with more than 64 MiB')
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
      const what =
        mediaTypeOf(response) === EVENT_STREAM ? 'a stream, which nobody asked for' : 'something that is not JSON'
      throw new UpstreamError('broken', `answered 200 with ${what}`)
    }
    const events = this.#dialect.whole(json, this.#expected())
    return { events, rest: null, upstreamRequestId: requestIdOf(response) }
  }

  #toStream(response: Response): Answer {
    const { body } = response
    if (!body) throw new UpstreamError('broken', 'answered a stream with nothing')
    const { deadlines } = this.#call
    this.deadline.enter('first_token', deadlines.firstToken)
    const decoder = this.#dialect.decoder(this.#expected())
    const rest = new SseStream({
      call: this,
      body,
      decoder,
      maxEventBytes: this.#maxEventBytes,
      idleMs: deadlines.idle,
    })
    return { events: [], rest, upstreamRequestId: requestIdOf(response) }
  }

  #expected(): Expected {
    const { target, body, callId } = this.#call
    return { target, choices: body.n ?? 1, logprobs: body.logprobs === true, callId }
  }

  async #toFailure(response: Response): Promise<UpstreamError> {
    const text = await readErrorText(response, this.#call.take)
    return this.#dialect.failure(response.status, text ?? '', response.headers, this.#call.target)
  }
}

const isEventStream = (response: Response) =>
  response.headers.get('content-type')?.startsWith(EVENT_STREAM) || mediaTypeOf(response) === EVENT_STREAM

/** The media type of a response, without its parameters; '' where it says none. */
const mediaTypeOf = (response: Response) =>
  (response.headers.get('content-type')?.split(';')[0] ?? '').trim().toLowerCase()

function toUpstreamError(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error
  if (nameOf(error) === 'ZlibError') {
    return new UpstreamError('broken', 'sent something that its content-encoding does not fit', { cause: error })
  }
  return new UpstreamError('connection', `could not be reached or broke the connection (${nameOf(error)})`, {
    cause: error,
  })
}

/** How the upstream calls the request. */
const requestIdOf = (response: Response) => response.headers.get('x-request-id')?.slice(0, 128) ?? null
