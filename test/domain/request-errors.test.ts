import { expect, test } from 'bun:test'
import { explainError, toReason } from '../../src/domain/request-errors.ts'

const failed = {
  status: 'failed',
  http_status: 502,
  error_code: 'upstream_failed',
  upstream: 'acme',
  reason: null,
} as const

test.each([
  [{ reason: 'status 401' }, 'upstream', 'Upstream acme returned 401.'],
  [
    { reason: 'connection', status: 'cut' },
    'upstream',
    'Upstream acme refused or closed the connection during the response.',
  ],
  [{ reason: 'deadline first_token', error_code: 'upstream_timeout' }, 'upstream', 'Upstream acme took too long.'],
  [
    { error_code: 'server_is_overloaded', reason: 'status 529' },
    'upstream',
    'Upstream acme is overloaded: it returned 529.',
  ],
  [{ error_code: 'server_is_overloaded' }, 'limit', 'The request waited too long for a free slot of upstream acme.'],
  [
    { error_code: 'insufficient_quota', http_status: 429 },
    'limit',
    'The budget was spent before the response was complete.',
  ],
  [
    { error_code: 'client_closed_request', http_status: 499 },
    'client',
    'The client disconnected before the response was complete.',
  ],
  [{ error_code: 'invalid_value', http_status: 400 }, 'client', 'Upstream acme rejected the request with 400.'],
  [{ error_code: 'of_a_newer_version', http_status: 502 }, 'upstream', 'Upstream acme failed.'],
  [
    { status: 'abandoned', error_code: null },
    'tollgate',
    'The server ended before the request finished. The reserve was charged.',
  ],
] as const)('%j names who is at fault, and what happened', (fields, fault, what) => {
  expect(explainError({ ...failed, ...fields })).toMatchObject({ fault, what })
})

test("the advice follows from the upstream's status", () => {
  const toNext = (status: number) => explainError({ ...failed, reason: `status ${status}` })?.next
  expect([401, 402, 500].map(toNext)).toEqual([
    'Check the credential of upstream acme.',
    'Check the balance of the account that upstream acme uses.',
    'Check upstream acme, or add another route to the model.',
  ])
})

test("a request that succeeded or is in progress has no error; one that didn't meet its schema has", () => {
  const ok = { ...failed, status: 'ok', http_status: 200, error_code: null } as const
  expect([ok, { ...ok, status: 'open' } as const].map(explainError)).toEqual([null, null])
  expect(explainError({ ...ok, error_code: 'schema_not_met' })?.fault).toBe('upstream')
})

test("the reason is the upstream's, not that Tollgate ended the call", () => {
  const call = { status: 'failed', httpStatus: 503, errorCode: 'status' } as const
  expect(toReason(call)).toBe('status 503')
  expect(toReason({ ...call, errorCode: 'aborted' })).toBeNull()
  expect(toReason({ ...call, status: 'ok' })).toBeNull()
})
