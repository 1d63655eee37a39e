/** API errors, with status, type, and code as in OpenAI's error guide. Only `http/app.ts` writes them. */
import { type EndReason, type EndSignal, endReasonOf, mayReadOn } from './end-signal.ts'
import { keysOf } from './json.ts'
import { CLIENT_CLOSED } from './report-filters.ts'

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

/** Obeyed by OpenAI's and Anthropic's client libraries. */
const NO_RETRY = { 'x-should-retry': 'false' }
/** Claude Code silently retries a wrong key for minutes without this. */
const CHALLENGE = { 'www-authenticate': 'Bearer', ...NO_RETRY }

/** Loop Detected (RFC 5842, section 7.2). */
export const LOOP_STATUS = 508

const TABLE = {
  no_key: { ...invalid(401, null), headers: CHALLENGE },
  invalid_key: { ...invalid(401, 'invalid_api_key'), headers: CHALLENGE },
  ip_not_allowed: { ...invalid(403, 'ip_not_allowed'), headers: NO_RETRY },
  model_not_found: invalid(404, 'model_not_found'),
  unknown_url: invalid(404, null),
  method_not_supported: invalid(405, 'method_not_supported'),
  /** RFC 9110, section 15.5.22. */
  websocket_not_supported: { ...invalid(426, 'websocket_not_supported'), headers: { upgrade: 'HTTP/1.1' } },
  request_too_large: invalid(413, 'request_too_large'),
  unsupported_content_type: invalid(400, 'unsupported_content_type'),
  invalid_request: invalid(400, null),
  upstream_rejected: invalid(400, null),
  /** A key's own limits. */
  request_limit: rateLimit('requests', 'rate_limit_exceeded'),
  token_limit: rateLimit('tokens', 'rate_limit_exceeded'),
  insufficient_quota: { ...rateLimit('insufficient_quota', 'insufficient_quota'), headers: NO_RETRY },
  upstream_rate_limited: rateLimit('requests', 'upstream_rate_limited'),
  model_not_ready: unavailable('model_not_ready', 5),
  /** The fair-share limit. */
  over_share: { ...rateLimit('requests', 'rate_limit_exceeded'), headers: { 'retry-after': '1' } },
  overloaded: unavailable('server_is_overloaded', 1),
  ledger_unavailable: unavailable('ledger_unavailable', 5),
  /** Codex gives up at `server_is_overloaded` but retries other codes. */
  stopped: unavailable('server_stopping', 1),
  upstream_failed: failed(502, 'upstream_failed'),
  upstream_timeout: failed(504, 'upstream_timeout'),
  loop_detected: { ...failed(LOOP_STATUS, 'loop_detected'), headers: NO_RETRY },
  /** Even after two corrections. */
  schema_not_met: { ...failed(502, 'schema_not_met'), headers: NO_RETRY },
  /** Files and batches. */
  storage_full: { ...failed(507, 'storage_full'), headers: NO_RETRY },
  internal: failed(500, null),
  slow_upload: invalid(408, 'slow_upload'),
  /** Ends the stream, so that it does not look complete. */
  slow_reader: invalid(408, 'slow_reader'),
  /** Only for the log and the ledger. */
  client_closed: invalid(499, CLIENT_CLOSED),
} satisfies Record<string, Row>

export type ErrorKind = keyof typeof TABLE
export const ERROR_KINDS = keysOf(TABLE)

export const toErrorRow = (kind: ErrorKind): Pick<Row, 'status' | 'code'> => TABLE[kind]

export interface ErrorDetail {
  /** Such as `messages[2].content`. */
  param?: string | null
  /** Overrides the table, for kinds with many codes. */
  code?: string | null
  /** Overrides the table. */
  status?: number
  headers?: Record<string, string>
  /** Anthropic's `error.details`: an `error_code` and its data. */
  details?: Readonly<Record<string, unknown>>
  /** Only for the log line. */
  logged?: Readonly<Record<string, string>>
  /** The known key that was rejected. */
  key?: RejectedKey
  cause?: unknown
}

export interface RejectedKey {
  readonly id: string
  readonly teamId: string | null
}

export interface ErrorBody {
  error: {
    message: string
    type: string
    param: string | null
    code: string | null
  }
}

/** `message` is public: never a secret or a stack. */
export class GatewayError extends Error {
  readonly kind: ErrorKind
  readonly status: number
  readonly type: string
  readonly code: string | null
  readonly param: string | null
  readonly headers: Record<string, string>
  readonly details: ErrorDetail['details']
  readonly logged: ErrorDetail['logged']
  readonly key: ErrorDetail['key']
  /** `req_…`, once known. */
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
    this.key = detail.key
  }

  toBody(): ErrorBody {
    const { message, type, param, code } = this
    return { error: { message, type, param, code } }
  }
}

/** A value, or the error that ends the request. */
export type Decision<T> = T | GatewayError

export function orThrow<T>(decision: Decision<T>): T {
  if (decision instanceof GatewayError) throw decision
  return decision
}

/**
 * - `connection`: no response, or the connection broke
 * - `deadline`: a timeout of ours; `deadline` names it
 * - `status`: an error status, or an error inside a stream
 * - `broken`: an invalid or interrupted response
 * - `aborted`: ended by us; `end` says why
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

/** `message` has the credential removed. */
export class UpstreamError extends Error {
  readonly kind: UpstreamErrorKind
  readonly status: number | null
  readonly code: string | null
  readonly param: string | null
  readonly deadline: string | null
  /** null if we did not end it. */
  readonly end: EndReason | null
  readonly retryable: boolean
  readonly retryAfterMs: number | null
  /** Not sent: our own limit, or the client disconnected in the queue. */
  readonly isOwnLimit: boolean
  /** Exceeded our size limit: charged, and other upstreams would return as much. */
  readonly isTooLong: boolean
  /** Healthy, but at capacity. */
  readonly isBusy: boolean
  /** Worked, but its output could not be parsed: a retry may help. */
  readonly isSpoiled: boolean
  /** ID, once known. */
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

/** Only the log has `cause`. */
export const internalError = (cause: unknown) =>
  new GatewayError('internal', 'Internal error. See the server log for this request ID.', { cause })

const ENDED: Readonly<Record<EndReason, string>> = {
  disconnected: 'the client disconnected',
  stopped: 'the server is shutting down',
  superseded: 'the response is no longer needed',
  deadline: 'it timed out',
}

/** @param message replaces the default. */
export const endedBy = (end: EndReason, message = ENDED[end]) =>
  new UpstreamError('aborted', message, { retryable: false, end })

export const endOf = (signal: EndSignal) => endedBy(endReasonOf(signal) ?? 'disconnected')

/** For unsent calls: free, unless another call of the request is the reason. */
export function endOfUnsent(signal: EndSignal): UpstreamError {
  const end = endReasonOf(signal) ?? 'disconnected'
  return new UpstreamError('aborted', ENDED[end], { retryable: false, isOwnLimit: mayReadOn(signal), end })
}

export const tooLong = (message: string) => new UpstreamError('broken', message, { retryable: false, isTooLong: true })

/** @param retryAfterMs expected duration of the queue. */
export const queuedTooLong = (waitedMs: number, retryAfterMs: number) =>
  new UpstreamError('deadline', `no slot became free within ${waitedMs / 1_000} s`, {
    ...{ deadline: 'queue', isOwnLimit: true, retryable: false, retryAfterMs },
  })

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Such as `ENOENT` or `SQLITE_BUSY`; '' if none. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

export const nameOf = (error: unknown): string => codeOf(error) || (error instanceof Error ? error.name : 'unknown')

/** Whole seconds, up to the 60 that client libraries obey. */
export const toRetryAfter = (ms: number): string => String(Math.min(60, Math.max(1, Math.ceil(ms / 1_000))))
