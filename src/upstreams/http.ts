/**
 * The backend of every upstream that is reached over HTTP: `fetch` with deadlines and the client's abort, and the
 * dialect's decoder over the body. Nothing here knows a provider.
 */

import type { BackendAnswer } from '../domain/answer.ts'
import { GatewayError, UpstreamError } from '../domain/error.ts'
import { parseJson } from '../domain/json.ts'
import type { Backend, BackendCall, Dialect, WireRequest } from './backend.ts'
import { createDeadline, type Deadline } from './deadline.ts'
import { nameOf } from './network-messages.ts'
import { askReadiness } from './probe.ts'
import { readEvents } from './read-events.ts'
import { readErrorText, readText } from './text.ts'

const MAX_WHOLE_BYTES = 64 * 1024 * 1024

export interface HttpOptions {
  /** Of one event in a stream; a longer one breaks it off. */
  maxEventBytes?: number
}

export function createHttpBackend(dialect: Dialect, { maxEventBytes = 4 * 1024 * 1024 }: HttpOptions = {}): Backend {
  return {
    async chat(call) {
      // Outside of the try: what throws here is no failure of the upstream.
      const wire = dialect.request(call.body, call.target)
      const line = openLine(call)
      try {
        const response = await send(wire, call, line)
        if (response.status !== 200) throw await toFailure(dialect, call, response)
        if (call.body.stream && isEvents(response)) return streamed(dialect, call, response, line, maxEventBytes)
        if (call.body.stream) beginWhole(call, response, toType(response), line)
        const text = await readText(response, MAX_WHOLE_BYTES, call.take)
        if (text !== null) line.release()
        return toWhole(dialect, call, response, text)
      } catch (error) {
        line.close()
        // We have no room for it: nobody reads on.
        if (error instanceof GatewayError) line.abort(new UpstreamError('aborted', error.message, { retryable: false }))
        throw error instanceof GatewayError ? error : (line.reason() ?? toUpstreamError(error))
      }
    },
    probe: (upstream, signal) => askReadiness(dialect.probe, upstream, signal),
  }
}

/** The call's way to be ended: one controller that both the client's leaving and a deadline pull. */
interface Line {
  signal: AbortSignal
  deadline: Deadline
  /** Why we ended the call, if we did. */
  reason(): UpstreamError | null
  abort(error: UpstreamError): void
  close(): void
  /** Closes it for good: the answer was read to its end, and nothing holds the signal any more. */
  release(): void
}

/** Controllers of calls that ended well, for the next ones: a new one costs a call as much as reading its JSON. */
const idle: AbortController[] = []
const MAX_IDLE = 256

function openLine({ signal, deadlines, body }: BackendCall): Line {
  const controller = idle.pop() ?? new AbortController()
  let reason: UpstreamError | null = null
  const abort = (error: UpstreamError) => {
    reason ??= error
    controller.abort(error)
  }
  const deadline = body.stream
    ? createDeadline('headers', deadlines.headers, deadlines.total, abort, signal)
    : createDeadline('total_whole', deadlines.totalWhole, Number.POSITIVE_INFINITY, abort, signal)
  return {
    signal: controller.signal,
    deadline,
    reason: () => reason,
    abort,
    close: deadline.stop,
    release() {
      deadline.stop()
      if (reason === null && idle.length < MAX_IDLE) idle.push(controller)
    },
  }
}

function send(wire: WireRequest, call: BackendCall, line: Line): Promise<Response> {
  return fetch(`${call.target.upstream.baseUrl}${wire.path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: call.body.stream ? 'text/event-stream' : 'application/json',
      // A compressed stream arrives in lumps.
      'accept-encoding': 'identity',
      'x-client-request-id': call.callId,
      ...wire.headers,
    },
    body: wire.body,
    redirect: 'manual',
    signal: line.signal,
  })
}

const EVENTS = 'text/event-stream'

const isEvents = (response: Response) =>
  response.headers.get('content-type')?.startsWith(EVENTS) || toType(response) === EVENTS

/** The media type of a response, without its parameters; '' where it says none. */
const toType = (response: Response) => (response.headers.get('content-type')?.split(';')[0] ?? '').trim().toLowerCase()

/** A server that cannot stream answers whole, with JSON. Anything else is no answer. */
function beginWhole(call: BackendCall, response: Response, type: string, line: Line): void {
  if (type !== 'application/json') {
    response.body?.cancel().catch(() => {})
    throw new UpstreamError('broken', `answered a stream with ${type || 'no content type'}`)
  }
  line.deadline.enter('first_token', call.deadlines.firstToken)
}

function toWhole(dialect: Dialect, call: BackendCall, response: Response, text: string | null): BackendAnswer {
  if (text === null) throw new UpstreamError('broken', 'answered with more than 64 MiB')
  let json: unknown
  try {
    json = parseJson(text)
  } catch {
    const what = toType(response) === EVENTS ? 'a stream, which nobody asked for' : 'something that is not JSON'
    throw new UpstreamError('broken', `answered 200 with ${what}`)
  }
  return { kind: 'whole', ...dialect.completion(json, call.target), ...requestIdOf(response) }
}

function streamed(
  dialect: Dialect,
  call: BackendCall,
  response: Response,
  line: Line,
  maxEventBytes: number,
): BackendAnswer {
  const { body } = response
  if (!body) throw new UpstreamError('broken', 'answered a stream with nothing')
  line.deadline.enter('first_token', call.deadlines.firstToken)
  const reading = {
    decoder: dialect.decoder(call.target),
    maxEventBytes,
    onBytes: line.deadline.touch,
    onPause: line.deadline.pause,
    onBegin: () => line.deadline.enter('idle', call.deadlines.idle),
    onEnd: line.close,
    fail(error: unknown) {
      const failure = line.reason() ?? toUpstreamError(error)
      line.abort(failure)
      return failure
    },
  }
  return { kind: 'stream', events: readEvents(body, reading), ...requestIdOf(response) }
}

async function toFailure(dialect: Dialect, call: BackendCall, response: Response): Promise<UpstreamError> {
  const text = await readErrorText(response, call.take)
  return dialect.failure(response.status, text ?? '', response.headers, call.target)
}

function toUpstreamError(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error
  if (nameOf(error) === 'ZlibError') {
    return new UpstreamError('broken', 'sent something that its content-encoding does not fit', { cause: error })
  }
  return new UpstreamError('connection', `could not be reached or broke the connection (${nameOf(error)})`, {
    cause: error,
  })
}

function requestIdOf(response: Response): { upstreamRequestId?: string } {
  const id = response.headers.get('x-request-id')
  return id === null ? {} : { upstreamRequestId: id.slice(0, 128) }
}
