/** Requests to models that are rejected before they have a row in the ledger: which errors are counted, and what they mean. */
import type { ErrorKind } from './error.ts'
import { keysOf } from './json.ts'

/** Explanation of each counted error; null for errors that are never counted. */
const MEANINGS = {
  no_key: 'No API key was sent.',
  invalid_key: 'The API key is unknown, revoked, expired, or rotated.',
  ip_not_allowed: "The client's address is not allowed for the key.",
  model_not_found: 'The model does not exist, or the key may not call it.',
  request_too_large: 'The request body was too large.',
  unsupported_content_type: 'The request body was not JSON.',
  invalid_request: 'The request had an invalid or unsupported field.',
  request_limit: 'A limit on requests or concurrency was reached.',
  token_limit: 'A limit on tokens per minute was reached.',
  insufficient_quota: 'The rest of a budget did not cover the request.',
  over_share: 'The key used more than its fair share of the server.',
  upstream_rate_limited: 'The upstreams of the model were rate-limited.',
  model_not_ready: 'No upstream of the model was ready.',
  overloaded: 'The server was at capacity.',
  ledger_unavailable: 'The server could not record usage.',
  stopped: 'The server was shutting down.',
  upstream_failed: 'The upstreams of the model failed.',
  upstream_timeout: 'The upstreams of the model timed out.',
  loop_detected: 'The request came back to a server it had passed.',
  slow_upload: 'The client sent the request body too slowly.',
  internal: 'The server failed.',
  client_closed: null,
  method_not_supported: null,
  schema_not_met: null,
  slow_reader: null,
  storage_full: null,
  unknown_url: null,
  upstream_rejected: null,
  websocket_not_supported: null,
} as const satisfies Record<ErrorKind, string | null>

export type RefusalCode = { [Kind in ErrorKind]: (typeof MEANINGS)[Kind] extends null ? never : Kind }[ErrorKind]

export const isRefusalCode = (text: string): text is RefusalCode =>
  Object.hasOwn(MEANINGS, text) && MEANINGS[text as ErrorKind] !== null

export const REFUSAL_CODES: readonly RefusalCode[] = keysOf(MEANINGS).filter(isRefusalCode)

/** '' for codes of a newer version. */
export const toRefusalMeaning = (code: string): string => (isRefusalCode(code) ? MEANINGS[code] : '')
