/** Explains what went wrong with a request, who is at fault, and what to do: one sentence each, for the dashboard, commands, and CSV. */
import type { RequestStatus } from './report-filters.ts'

/** `limit`: a limit or budget that an administrator set. */
export type Fault = 'client' | 'limit' | 'upstream' | 'tollgate'

interface Failed {
  status: RequestStatus
  http_status: number | null
  error_code: string | null
  upstream: string
  /** As in the log: `status 503`, `connection`, `broken`, `deadline first_token`. */
  reason: string | null
}

export interface ErrorText {
  fault: Fault
  what: string
  next: string
}

type Explain = (failed: Failed) => ErrorText

const always =
  (fault: Fault, what: string, next: string): Explain =>
  () => ({ fault, what, next })

const statusOf = (reason: string | null): number | null => {
  const [, digits] = /^status (\d{3})$/.exec(reason ?? '') ?? []
  return digits === undefined ? null : Number(digits)
}

const MEANT: Readonly<Record<string, string>> = {
  connection: 'refused or closed the connection',
  broken: 'sent an invalid or incomplete response',
  deadline: 'took too long',
}

/** `returned 503`. */
export function toUpstreamFailure(reason: string | null): string {
  const status = statusOf(reason)
  return status === null ? (MEANT[reason?.split(' ')[0] ?? ''] ?? 'failed') : `returned ${status}`
}

const AGAIN = 'Send the request again.'

function toUpstreamAdvice({ upstream, reason }: Failed): string {
  switch (statusOf(reason)) {
    case 401:
    case 403:
      return `Check the credential of upstream ${upstream}.`
    case 402:
      return `Check the balance of the account that upstream ${upstream} uses.`
    case 404:
      return `Check the base URL of upstream ${upstream} and the name of its model.`
    default:
      return `Check upstream ${upstream}, or add another route to the model.`
  }
}

const ofUpstream: Explain = (failed) => ({
  fault: 'upstream',
  what: `Upstream ${failed.upstream} ${toUpstreamFailure(failed.reason)}${failed.status === 'cut' ? ' during the response' : ''}.`,
  next: toUpstreamAdvice(failed),
})

function ofOverload({ upstream, reason }: Failed): ErrorText {
  const status = statusOf(reason)
  if (status === null)
    return {
      fault: 'limit',
      what: `The request waited too long for a free slot of upstream ${upstream}.`,
      next: 'Raise the concurrency of the upstream, or send fewer requests at once.',
    }
  return {
    fault: 'upstream',
    what: `Upstream ${upstream} is overloaded: it returned ${status}.`,
    next: 'Try again later, or add another route to the model.',
  }
}

const ERRORS: Readonly<Record<string, Explain>> = {
  upstream_failed: ofUpstream,
  upstream_timeout: ({ upstream }) => ({
    fault: 'upstream',
    what: `Upstream ${upstream} took too long.`,
    next: 'Check the upstream, or raise its deadlines in the catalog.',
  }),
  upstream_rate_limited: ({ upstream }) => ({
    fault: 'upstream',
    what: `Upstream ${upstream} returned 429: its rate limit was reached.`,
    next: 'Raise the limit at the provider, add another route, or send fewer requests.',
  }),
  server_is_overloaded: ofOverload,
  model_not_ready: always(
    'upstream',
    'No upstream of the model was available.',
    'Check the upstreams of the model, or try again later.',
  ),
  loop_detected: ({ upstream }) => ({
    fault: 'upstream',
    what: 'The request returned to a Tollgate server that it had already passed.',
    next: `Correct the base URL of upstream ${upstream}.`,
  }),
  schema_not_met: always(
    'upstream',
    'No response of the model met the JSON schema.',
    'Simplify the schema, or use another model.',
  ),
  context_length_exceeded: always(
    'client',
    'The prompt is too long for the model.',
    'Shorten the prompt, or use a model with a larger context window.',
  ),
  client_closed_request: always(
    'client',
    'The client disconnected before the response was complete.',
    'If that was not intended, raise the timeout of the client.',
  ),
  slow_reader: always(
    'client',
    'The client read nothing for too long, so Tollgate stopped the response.',
    'Read the response faster, or raise `serve --send-timeout`.',
  ),
  insufficient_quota: always(
    'limit',
    'The budget was spent before the response was complete.',
    'Raise the budget of the key or its team, or wait until it resets.',
  ),
  rate_limit_exceeded: always(
    'limit',
    'The key or its team reached a rate or concurrency limit.',
    'Raise the limit, or send fewer requests at once.',
  ),
  server_stopping: always('tollgate', 'The server stopped before the response was complete.', AGAIN),
  abandoned: always('tollgate', 'The server ended before the request finished. The reserve was charged.', AGAIN),
  ledger_unavailable: always(
    'tollgate',
    "Tollgate couldn't record the request, so it called no upstream.",
    'Check the disk of the server: `tollgate doctor`.',
  ),
  internal: always('tollgate', 'Tollgate had an internal error.', 'Search the server log for the request ID.'),
}

/** Upstreams have their own codes for requests they reject. */
function ofOther(failed: Failed): ErrorText {
  const { http_status: status, upstream } = failed
  if (status === null || status < 400 || status >= 500) return ofUpstream(failed)
  return {
    fault: 'client',
    what: `Upstream ${upstream} rejected the request with ${status}.`,
    next: 'Correct the request. The response told the client what is wrong with it.',
  }
}

/** Null without an error. */
export function explainError(failed: Failed): ErrorText | null {
  const { status, error_code: code } = failed
  if (status === 'open' || (status === 'ok' && code === null)) return null
  const known = Object.hasOwn(ERRORS, code ?? status) ? ERRORS[code ?? status] : undefined
  return (known ?? ofOther)(failed)
}

/** Why the upstream failed, from its call. Null if it didn't, or Tollgate ended the call. */
export function toReason({ status, httpStatus, errorCode }: EndedCall): string | null {
  if (status === 'ok' || status === 'open') return null
  if (errorCode === 'status') return `status ${httpStatus}`
  return errorCode !== null && Object.hasOwn(MEANT, errorCode) ? errorCode : null
}

interface EndedCall {
  status: RequestStatus
  httpStatus: number | null
  errorCode: string | null
}
