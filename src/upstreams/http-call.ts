/** Backend of every HTTP upstream: sends a call, once more if the connection was at fault, with timeouts and client disconnects. */

import type { Deadlines } from '../domain/deadlines.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { endOfUnsent, GatewayError, nameOf, tooLong, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent, AnswerStream } from '../domain/events.ts'
import { parseJson, SLICE_CHARS, SlicedJson } from '../domain/json.ts'
import { forgetText } from '../domain/json-text.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import { EmbeddingsRequest } from '../domain/task.ts'
import { BytesStream, SseStream } from './answer-stream.ts'
import type { Authority, Backend, BackendCall } from './backend.ts'
import { toPublic, toPublicRequestId } from './credential-scrubbing.ts'
import { Deadline } from './deadline.ts'
import type {
  EndpointFormat,
  EndpointRequests,
  EndpointStream,
  EndpointWire,
  Expected,
  WireFormat,
} from './dialects/dialect.ts'
import { readFailure } from './dialects/errors.ts'
import { tooMuch, toParsedBytes, toWholeLimits } from './framing.ts'
import { FramingError } from './http1/head.ts'
import { askReadiness, toOwnHeaders, whileWanted } from './probe.ts'
import { sendAgain } from './shortage.ts'
import type { Exchange, Incoming, Transport } from './transport.ts'

export interface HttpOptions {
  maxEventBytes?: number
  authorityOf?(upstream: Upstream): Authority | null
}

export function createHttpBackend(
  format: WireFormat,
  transport: Transport,
  { maxEventBytes = 4 * 1024 * 1024, authorityOf = () => null }: HttpOptions = {},
): Backend {
  const run = (call: BackendCall, endpoint: EndpointFormat | null) =>
    new HttpCall(format, transport, call, maxEventBytes, authorityOf(call.target.upstream), endpoint).run()
  return {
    call(call) {
      const load = loaderOf(format, call)
      return load ? load().then((endpoint) => run(call, endpoint)) : run(call, null)
    },
    probe: (upstream, signal) => askReadiness(format, upstream, signal, authorityOf(upstream)),
  }
}

type Asking = Pick<BackendCall, 'body' | 'passthrough' | 'target'>

/** Functions to write a call and read its whole response, for batches. Throws if the format can't express the call. */
export async function loadCallFormat(format: WireFormat, call: Asking): Promise<CallFormat> {
  return toCallFormat(format, call, (await loaderOf(format, call)?.()) ?? null)
}

function loaderOf({ endpoints = {} }: WireFormat, { body }: Asking): (() => Promise<EndpointFormat>) | null {
  if (!(body instanceof EndpointRequest) || body instanceof EmbeddingsRequest) return null
  const load: (() => Promise<EndpointFormat>) | undefined = endpoints[body.endpoint as keyof EndpointRequests]
  if (load) return load
  throw new Error(`its dialect has no ${body.endpoint}`)
}

const MAX_WHOLE_BYTES = 64 * 1024 * 1024
const MAX_ERROR_BYTES = 64 * 1024
const EVENT_STREAM = 'text/event-stream'
const LINES = 'application/x-ndjson'

const HEADERS = {
  'content-type': 'application/json',
  // Compressed streams arrive in lumps.
  'accept-encoding': 'identity',
  // Some hosts refuse requests without one.
  'user-agent': 'tollgate',
}

/** One call. Its stream uses this object to end the call. */
export class HttpCall {
  readonly deadline: Deadline
  readonly maxEventBytes: number
  readonly #dialect: WireFormat
  readonly #reader: Pick<WireFormat, 'whole' | 'decoder'>
  readonly #call: BackendCall
  /** Null once the response has begun, to free memory: a stream may take an hour. */
  #wire: EndpointWire | null
  readonly #transport: Transport
  readonly #authority: Authority | null
  /** Null for chats and embeddings. */
  readonly #endpoint: EndpointFormat | null
  #granted: Readonly<Record<string, string>> | null = null
  #authorizing: AbortController | null = null
  #exchange: Exchange | null = null
  #reason: UpstreamError | null = null

  constructor(
    dialect: WireFormat,
    transport: Transport,
    call: BackendCall,
    maxEventBytes: number,
    authority: Authority | null,
    endpoint: EndpointFormat | null = null,
  ) {
    this.#dialect = dialect
    this.#endpoint = endpoint
    this.#transport = transport
    this.#call = call
    this.maxEventBytes = endpoint?.maxEventBytes ?? maxEventBytes
    this.#authority = authority
    // Before anything starts: errors here are bugs of ours, not the upstream's.
    const { wire, reader } = toCallFormat(dialect, call, endpoint)
    this.#wire = wire
    this.#reader = reader
    const { signal: client, observer, body } = call
    const deadlines = this.#deadlines
    const end = (error: UpstreamError) => this.abort(error)
    this.deadline = body.stream
      ? new Deadline({ name: 'headers', ms: deadlines.headers, totalMs: deadlines.total, end, client, observer })
      : new Deadline({ name: 'total_whole', ms: deadlines.totalWhole, end, client, observer })
  }

  async run(): Promise<Answer> {
    let response: Incoming
    let text: string
    try {
      if (this.#authority) this.#granted = await this.#authorize(this.#authority)
      try {
        response = await this.#send()
      } catch (error) {
        response = await sendAgain(error, {
          transport: this.#transport,
          send: () => this.#send(),
          isEnded: () => this.#reason !== null,
        })
      }
      // A retry encodes the request again.
      this.#wire = null
      const { body } = this.#call
      if (!(body instanceof EndpointRequest)) forgetText(body.messages)
      if (response.status !== 200) throw await this.#toFailure(response)
      const stream = this.#endpoint?.stream?.(mediaTypeOf(response), body as EndpointRequest, this.#call.target)
      if (stream) return this.#toEndpointStream(response, stream)
      if (this.#endpoint && body.stream) this.deadline.enter('first_token', this.#deadlines.firstToken)
      if (this.#call.body.stream && this.#endpoint === null) {
        this.deadline.enter('first_token', this.#call.deadlines.firstToken)
        if (mediaTypeOf(response) === this.#streamType) return this.#toStream(response)
        this.#mustBeJson(response)
        if (this.#call.passthrough)
          throw new UpstreamError('broken', 'returned a whole response to a streaming request')
      }
      text = await this.#readWhole(response)
    } catch (error) {
      this.deadline.stop()
      const failure = error instanceof GatewayError ? error : this.toError(error)
      this.#exchange?.abort(failure)
      throw failure
    }
    return this.#toWhole(response, text)
  }

  get #streamType(): string {
    return this.#dialect.framing === 'lines' ? LINES : EVENT_STREAM
  }

  get inTurn(): BackendCall['inTurn'] {
    return this.#call.inTurn
  }

  get wantsLogprobs(): boolean {
    const { body, passthrough } = this.#call
    return body.logprobs === true || Boolean(passthrough?.json.logprobs)
  }

  abort(error: UpstreamError): void {
    this.#reason ??= error
    this.#exchange?.abort(error)
    this.#authorizing?.abort(error)
  }

  /** Many calls may wait for one token; each waits no longer than its timeout and its client. */
  async #authorize(authority: Authority): Promise<Readonly<Record<string, string>> | null> {
    const { target, signal } = this.#call
    const granting = authority.headers(target.upstream, this.#wire as EndpointWire)
    if (!(granting instanceof Promise)) return granting
    this.#authorizing = new AbortController()
    const leave = () => this.abort(endOfUnsent(signal))
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    try {
      return await whileWanted(granting, this.#authorizing.signal)
    } catch (error) {
      if (this.#reason?.kind !== 'deadline') throw error
      const message = `${this.#reason.message} while waiting for its token endpoint`
      this.#reason = new UpstreamError('deadline', message, { deadline: 'token', retryable: true })
      throw this.#reason
    } finally {
      signal.removeEventListener('abort', leave)
      this.#authorizing = null
    }
  }

  toError(error: unknown): UpstreamError {
    if (this.#reason !== null) return this.#reason
    if (error instanceof UpstreamError) return error
    const name = nameOf(error)
    if (error instanceof FramingError) return new UpstreamError('connection', error.message, { cause: error })
    return name === 'ZlibError'
      ? new UpstreamError('broken', 'sent a body that does not match its content-encoding', { cause: error })
      : new UpstreamError('connection', `is unreachable or closed the connection (${name})`, { cause: error })
  }

  #send(): Promise<Incoming> {
    if (this.#reason !== null) throw this.#reason
    const { body, target, callId, hops, traceHeaders, observer } = this.#call
    const { path, body: text, rest, headers } = this.#wire as EndpointWire
    const { upstream } = target
    observer.sent()
    this.#exchange = this.#transport.send({
      upstream,
      path,
      headers: () => ({ ...HEADERS, ...toOwnHeaders(upstream), ...this.#dialect.headers(upstream) }),
      ownHeaders: this.#granted || traceHeaders ? { ...headers, ...this.#granted, ...traceHeaders } : headers,
      accept: this.#accepted(body),
      callId,
      hops,
      body: text,
      rest,
      resent: () => observer.sent(),
    })
    return this.#exchange.answer
  }

  #accepted(body: BackendCall['body']): string {
    const own = this.#endpoint?.accept?.(body as EndpointRequest, this.#call.target)
    return own ?? (body.stream ? this.#streamType : 'application/json')
  }

  /** A server that can't stream responds with JSON; anything else is invalid. */
  #mustBeJson(response: Incoming): void {
    const type = mediaTypeOf(response)
    if (type === 'application/json') return
    const quoted = toPublic(type, this.#call.target.upstream).slice(0, 100)
    throw new UpstreamError('broken', `returned ${quoted || 'no content type'} to a streaming request`)
  }

  async #readWhole(response: Incoming): Promise<string> {
    const most = this.#endpoint?.maxWholeBytes ?? MAX_WHOLE_BYTES
    const text = await response.text(most, this.#call.take)
    if (text === null) throw tooLong(`returned more than ${most / 1024 ** 2} MiB`)
    return text
  }

  async #toWhole(response: Incoming, text: string): Promise<Answer> {
    const { body, target } = this.#call
    if (this.#endpoint?.plain && mediaTypeOf(response) !== 'application/json') {
      this.deadline.stop()
      return this.#toAnswer(this.#endpoint.plain(text, body as EndpointRequest, target), null, response)
    }
    const isLong = text.length > SLICE_CHARS
    let json: unknown
    try {
      json = isLong ? await this.#parseInTurns(text) : parseJson(text)
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      const what = isEventStream(response) ? 'a stream that was not requested' : 'something that is not JSON'
      throw new UpstreamError('broken', `returned 200 with ${what}`)
    } finally {
      this.deadline.stop()
    }
    const read = () => this.#reader.whole(json, this.#expected(), text)
    return this.#toAnswer(isLong ? await this.#call.inTurn(read) : read(), null, response)
  }

  /** Other requests get turns between slices, and the call may end. Memory is reserved during parsing. */
  async #parseInTurns(text: string): Promise<unknown> {
    const { body, take, inTurn } = this.#call
    const sliced = new SlicedJson(text, toWholeLimits(body instanceof EmbeddingsRequest))
    let taken = 0
    while (!sliced.isDone) {
      const excess = await inTurn(() => (this.#reason === null ? sliced.next() : null))
      if (this.#reason !== null) throw this.#reason
      if (excess) throw tooMuch('returned JSON', excess)
      const bytes = toParsedBytes(sliced)
      const refusal = take(bytes - taken)
      if (refusal) throw refusal
      taken = bytes
    }
    return sliced.root
  }

  #toEndpointStream(response: Incoming, stream: EndpointStream): Answer {
    const { firstToken, idle } = this.#deadlines
    this.deadline.enter('first_token', firstToken)
    const rest =
      stream.framing === 'bytes'
        ? new BytesStream(this, response, stream.decoder, idle)
        : new SseStream(this, stream.pictures?.of(response, this) ?? response, stream.decoder, idle, stream.framing)
    const answer = this.#toAnswer([], rest, response)
    const contentType = response.header('content-type')
    if (stream.framing === 'bytes' && contentType)
      answer.contentType = toPublic(contentType, this.#call.target.upstream)
    return answer
  }

  /** Deadlines of the call, extended to the time that its endpoint may be silent. */
  get #deadlines(): Deadlines {
    const { body, deadlines } = this.#call
    const ms = body instanceof EndpointRequest ? body.leastSilenceMs : 0
    if (ms === 0) return deadlines
    const { headers, firstToken, idle, total, totalWhole } = deadlines
    const atLeast = (given: number) => Math.max(given, ms)
    return {
      ...{ headers: atLeast(headers), firstToken: atLeast(firstToken), idle: atLeast(idle) },
      ...{ total, totalWhole: atLeast(totalWhole) },
    }
  }

  #toStream(response: Incoming): Answer {
    const rest = new SseStream(
      this,
      response,
      this.#reader.decoder(this.#expected()),
      this.#call.deadlines.idle,
      this.#dialect.framing,
    )
    return this.#toAnswer([], rest, response)
  }

  #toAnswer(events: readonly AnswerEvent[], rest: AnswerStream | null, response: Incoming): Answer {
    const answer: Answer = { events, rest, upstreamRequestId: this.#requestIdOf(response) }
    if (this.#call.passthrough) answer.isPassthrough = true
    return answer
  }

  #requestIdOf(response: Incoming): string | null {
    return toPublicRequestId(response.header(this.#dialect.requestIdHeader), this.#call.target.upstream)
  }

  #expected(): Expected {
    const { target, body, callId } = this.#call
    return { target, choices: body.n ?? 1, logprobs: body.logprobs === true, callId, body }
  }

  /** If the error's body is truncated or there is no memory for it, the status is used. */
  async #toFailure(response: Incoming): Promise<UpstreamError> {
    let text: string | null = null
    if (response.status === 401) this.#authority?.refused(this.#call.target.upstream)
    try {
      text = await response.text(MAX_ERROR_BYTES, this.#call.take)
    } catch (error) {
      if (this.#reason !== null) throw error
    }
    return readFailure(this.#dialect, response.status, text ?? '', response, this.#call.target)
  }
}

export interface CallFormat {
  wire: EndpointWire
  reader: Pick<WireFormat, 'whole' | 'decoder'>
}

function toCallFormat(
  dialect: WireFormat,
  { passthrough, body, target }: Asking,
  endpoint: EndpointFormat | null,
): CallFormat {
  if (body instanceof EmbeddingsRequest) return toEmbeddingFormat(dialect, body, target)
  if (body instanceof EndpointRequest) {
    if (endpoint === null) throw new Error(`its dialect has no ${body.endpoint}`)
    const whole: WireFormat['whole'] = (json, _, text = '') => endpoint.whole(json, body, target, text)
    return { wire: endpoint.request(body, target), reader: { whole, decoder: dialect.decoder } }
  }
  if (passthrough === null) return { wire: dialect.request(body, target), reader: dialect }
  const format = dialect.passthrough[passthrough.endpoint]
  if (format === undefined) throw new Error(`no passthrough format for ${passthrough.endpoint}`)
  return { wire: format.request(passthrough, body, target), reader: format }
}

function toEmbeddingFormat({ embeddings, decoder }: WireFormat, asked: EmbeddingsRequest, target: Target): CallFormat {
  if (embeddings === null) throw new Error('its dialect has no embeddings')
  const whole: WireFormat['whole'] = (json, _, text = '') => embeddings.whole(json, asked, target, text)
  return { wire: embeddings.request(asked, target), reader: { whole, decoder } }
}

const isEventStream = (response: Incoming) => mediaTypeOf(response) === EVENT_STREAM

const mediaTypeOf = (response: Incoming) => (response.header('content-type')?.split(';')[0] ?? '').trim().toLowerCase()
