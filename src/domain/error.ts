/**
 * Every failure that Tollgate names, and the one table that turns its kind into status, type and code, in the words of
 * OpenAI's error guide where it has some. Whoever throws knows the kind and the sentence; only `http/app.ts` turns an
 * error into bytes.
 */
import { type EndReason, type EndSignal, endReasonOf, mayReadOn } from './end-signal.ts'

interface Row {
  status: number
  type: string
  code: string | null
  headers?: Record<string, string>
}

const invalid = (status: number, code: string | null): Row => ({ status, type: 'invalid_request_error', code })

const rateLimit = (type: string, code: string): Row => ({ status: 429, type, code })

/** @param retryAfter seconds. */
const unavailable = (code: string, retryAfter: number): Row => ({
  status: 503,
  type: 'service_unavailable_error',
  code,
  headers: { 'retry-after': String(retryAfter) },
})

const failed = (status: number, code: string | null): Row => ({ status, type: 'server_error', code })

/** OpenAI's and Anthropic's client libraries obey it. */
const NO_RETRY = { 'x-should-retry': 'false' }
/** Claude Code sends a wrong key again for minutes, without a word, unless it is told that this is no use. */
const CHALLENGE = { 'www-authenticate': 'Bearer', ...NO_RETRY }

/** Loop Detected (RFC 5842, section 7.2). */
export const LOOP_STATUS = 508

const TABLE = {
  no_key: { ...invalid(401, null), headers: CHALLENGE },
  invalid_key: { ...invalid(401, 'invalid_api_key'), headers: CHALLENGE },
  /** The key may not be used from where the client is. */
  ip_not_allowed: { ...invalid(403, 'ip_not_allowed'), headers: NO_RETRY },
  model_not_found: invalid(404, 'model_not_found'),
  unknown_url: invalid(404, null),
  method_not_supported: invalid(405, 'method_not_supported'),
  /** Which protocol there is instead stands in a header, as RFC 9110, section 15.5.22, has it. */
  websocket_not_supported: { ...invalid(426, 'websocket_not_supported'), headers: { upgrade: 'HTTP/1.1' } },
  request_too_large: invalid(413, 'request_too_large'),
  unsupported_content_type: invalid(400, 'unsupported_content_type'),
  invalid_request: invalid(400, null),
  upstream_rejected: invalid(400, null),
  /** A key's own limits: of requests (or how many at a time), and of tokens. */
  request_limit: rateLimit('requests', 'rate_limit_exceeded'),
  token_limit: rateLimit('tokens', 'rate_limit_exceeded'),
  insufficient_quota: { ...rateLimit('insufficient_quota', 'insufficient_quota'), headers: NO_RETRY },
  upstream_rate_limited: rateLimit('requests', 'upstream_rate_limited'),
  model_not_ready: unavailable('model_not_ready', 5),
  /** A key holds as much of the server as it may while others are there. */
  over_share: { ...rateLimit('requests', 'rate_limit_exceeded'), headers: { 'retry-after': '1' } },
  overloaded: unavailable('server_is_overloaded', 1),
  ledger_unavailable: unavailable('ledger_unavailable', 5),
  /** The server stopped before the answer was complete. Codex gives up at `server_is_overloaded` and tries again at any other. */
  stopped: unavailable('server_stopping', 1),
  upstream_failed: failed(502, 'upstream_failed'),
  upstream_timeout: failed(504, 'upstream_timeout'),
  /** An upstream leads back to a server that the request has passed: whoever set it up has to correct its address. */
  loop_detected: { ...failed(LOOP_STATUS, 'loop_detected'), headers: NO_RETRY },
  /** A model did not write what `response_format` asks for, and was told so twice. */
  schema_not_met: { ...failed(502, 'schema_not_met'), headers: NO_RETRY },
  internal: failed(500, null),
  /** The body was too long on its way. */
  slow_upload: invalid(408, 'slow_upload'),
  /** The client left its answer unread for too long: a stream that says so instead of ending as if it were whole. */
  slow_reader: invalid(408, 'slow_reader'),
  /** The client left before its answer: nobody reads this status, the log line and the ledger do. */
  client_closed: invalid(499, 'client_closed_request'),
} satisfies Record<string, Row>

export type ErrorKind = keyof typeof TABLE

export interface ErrorDetail {
  /** Dotted path of the field at fault, such as `messages[2].content`. */
  param?: string | null
  /** Replaces the table's code, for the kinds that stand for many codes (`invalid_request`, `upstream_rejected`). */
  code?: string | null
  /** Replaces the table's status, for `upstream_rejected`. */
  status?: number
  headers?: Record<string, string>
  /** What clients of Anthropic's API read in `error.details`: an `error_code` and what belongs to it. */
  details?: Readonly<Record<string, unknown>>
  /** What its log line says beside, and its answer does not. */
  logged?: Readonly<Record<string, string>>
  cause?: unknown
}

/** The contract's error object, as it stands in a body and in a stream's error frame. */
export interface ErrorBody {
  error: {
    message: string
    type: string
    param: string | null
    code: string | null
  }
}

/** A failure that the client is told about. `message` is public: it must never hold a secret or a stack. */
export class GatewayError extends Error {
  readonly kind: ErrorKind
  readonly status: number
  readonly type: string
  readonly code: string | null
  readonly param: string | null
  readonly headers: Record<string, string>
  readonly details: ErrorDetail['details']
  readonly logged: ErrorDetail['logged']
  /** `req_…` of the request that it ended, once that is known. */
  requestId: string | null = null

  constructor(kind: ErrorKind, message: string, detail: ErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause })
    const row: Row = TABLE[kind]
    this.name = 'GatewayError'
    this.kind = kind
    this.status = detail.status ?? row.status
    this.type = row.type
    this.code = detail.code === undefined ? row.code : detail.code
    this.param = detail.param ?? null
    this.headers = { ...row.headers, ...detail.headers }
    this.details = detail.details
    this.logged = detail.logged
  }

  toBody(): ErrorBody {
    const { message, type, param, code } = this
    return { error: { message, type, param, code } }
  }
}

/** What a pure deciding step returns: the value, or the refusal that ends the request. */
export type Decision<T> = T | GatewayError

/**
 * How a call to an upstream failed.
 * - `connection`: no answer, or the connection broke
 * - `deadline`: ours passed; `deadline` names it
 * - `status`: the upstream answered with an error status, or an error inside a stream
 * - `broken`: it answered something that is not a completion, or a stream ended in the middle
 * - `aborted`: for a reason that is nobody's fault upstream; `end` names it
 */
export type UpstreamErrorKind = 'connection' | 'deadline' | 'status' | 'broken' | 'aborted'

export interface UpstreamErrorDetail {
  status?: number
  code?: string | null
  param?: string | null
  deadline?: string
  end?: EndReason
  retryable?: boolean
  retryAfterMs?: number
  isOwnLimit?: boolean
  isTooLong?: boolean
  isBusy?: boolean
  isSpoiled?: boolean
  cause?: unknown
}

/** A failed call. `message` is the upstream's or ours, with the upstream's credential already taken out. */
export class UpstreamError extends Error {
  readonly kind: UpstreamErrorKind
  readonly status: number | null
  readonly code: string | null
  readonly param: string | null
  readonly deadline: string | null
  /** Why we have ended it; null where we have not. */
  readonly end: EndReason | null
  readonly retryable: boolean
  readonly retryAfterMs: number | null
  /** Whether a limit of our own left no place, or the client left while the call waited: it was not sent. */
  readonly isOwnLimit: boolean
  /** Whether it wrote more than is read: it has worked, and charges for it, and others would write as much. */
  readonly isTooLong: boolean
  /** Whether it is well and has no room for one more just now. */
  readonly isBusy: boolean
  /** Whether it has worked, and what its model wrote could not be read: it is well, and once more it may do. */
  readonly isSpoiled: boolean
  /** Id of the upstream that failed, once somebody who knows it has said so. */
  upstream: string | null = null

  constructor(kind: UpstreamErrorKind, message: string, detail: UpstreamErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause })
    this.name = 'UpstreamError'
    this.kind = kind
    this.status = detail.status ?? null
    this.code = detail.code ?? null
    this.param = detail.param ?? null
    this.deadline = detail.deadline ?? null
    this.end = detail.end ?? (kind === 'deadline' ? kind : kind === 'aborted' ? 'superseded' : null)
    this.retryable = detail.retryable ?? (kind === 'connection' || kind === 'broken')
    this.retryAfterMs = detail.retryAfterMs ?? null
    this.isOwnLimit = detail.isOwnLimit ?? false
    this.isTooLong = detail.isTooLong ?? false
    this.isBusy = detail.isBusy ?? false
    this.isSpoiled = detail.isSpoiled ?? false
  }
}

/** What a client is told where `cause` is a fault of ours: the log has it under the request's id, the answer never. */
export const internalError = (cause: unknown) =>
  new GatewayError('internal', "Internal error: the server's log has the cause under this request id.", { cause })

/** What ends a call by us, in words. */
const ENDED: Readonly<Record<EndReason, string>> = {
  disconnected: 'the client left',
  stopped: 'the server stops',
  superseded: 'the answer is no longer wanted',
  deadline: 'it took too long',
}

/** What ends a call before its answer. @param message where more is known. */
export const endedBy = (end: EndReason, message = ENDED[end]) =>
  new UpstreamError('aborted', message, { retryable: false, end })

/** What ends a call whose signal has aborted. */
export const endOf = (signal: EndSignal) => endedBy(endReasonOf(signal) ?? 'disconnected')

/** The same before it was sent: nothing is paid for it, unless another call of the request is the reason. */
export function endOfUnsent(signal: EndSignal): UpstreamError {
  const end = endReasonOf(signal) ?? 'disconnected'
  return new UpstreamError('aborted', ENDED[end], { retryable: false, isOwnLimit: mayReadOn(signal), end })
}

/** What ends a call whose answer is longer than what is read. */
export const tooLong = (message: string) => new UpstreamError('broken', message, { retryable: false, isTooLong: true })

/**
 * What a call is told that waited in a queue of ours for so long: it was not sent.
 * @param retryAfterMs how long the queue is expected to take now.
 */
export const queuedTooLong = (waitedMs: number, retryAfterMs: number) =>
  new UpstreamError('deadline', `no slot became free within ${waitedMs / 1_000} s`, {
    ...{ deadline: 'queue', isOwnLimit: true, retryable: false, retryAfterMs },
  })

/** What an error says, whatever was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The code that the system or a library has given an error, such as `ENOENT` or `SQLITE_BUSY`; '' where it has none. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

/** Its code, or else what it calls itself. */
export const nameOf = (error: unknown): string => codeOf(error) || (error instanceof Error ? error.name : 'unknown')

/** The header `retry-after` for a wait: whole seconds, from 1 to the 60 that client libraries obey. */
export const toRetryAfter = (ms: number): string => String(Math.min(60, Math.max(1, Math.ceil(ms / 1_000))))
