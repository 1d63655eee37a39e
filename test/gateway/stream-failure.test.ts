/** How a failed call is reported to the client. */
import { describe, expect, test } from 'bun:test'
import { GatewayError, UpstreamError } from '../../src/domain/error.ts'
import { toGatewayError } from '../../src/gateway/delivery.ts'

const status = (code: number, retryAfterMs?: number) =>
  new UpstreamError('status', 'its own words', {
    status: code,
    code: 'theirs',
    param: 'messages',
    retryable: code >= 429,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })

const TABLE: [string, unknown, { kind: string; status: number; code: string | null; param: string | null }][] = [
  ['a 400', status(400), { kind: 'upstream_rejected', status: 400, code: 'theirs', param: 'messages' }],
  ['a 413', status(413), { kind: 'upstream_rejected', status: 413, code: 'theirs', param: 'messages' }],
  ['a 422', status(422), { kind: 'upstream_rejected', status: 422, code: 'theirs', param: 'messages' }],
  ...[401, 402, 403, 404, 405, 409, 418, 500, 502, 504].map((code): (typeof TABLE)[number] => [
    `a ${code}`,
    status(code),
    { kind: 'upstream_failed', status: 502, code: 'upstream_failed', param: null },
  ]),
  ['a 429', status(429), { kind: 'upstream_rate_limited', status: 429, code: 'upstream_rate_limited', param: null }],
  ['a 503', status(503), { kind: 'overloaded', status: 503, code: 'server_is_overloaded', param: null }],
  ['a 529', status(529), { kind: 'overloaded', status: 503, code: 'server_is_overloaded', param: null }],
  [
    'a deadline',
    new UpstreamError('deadline', 'the idle timeout passed', { deadline: 'idle' }),
    { kind: 'upstream_timeout', status: 504, code: 'upstream_timeout', param: null },
  ],
  [
    'a broken connection',
    new UpstreamError('connection', 'could not be reached'),
    { kind: 'upstream_failed', status: 502, code: 'upstream_failed', param: null },
  ],
  [
    'nonsense',
    new UpstreamError('broken', 'answered nonsense'),
    { kind: 'upstream_failed', status: 502, code: 'upstream_failed', param: null },
  ],
  [
    'a client that left',
    new UpstreamError('aborted', 'the client left'),
    { kind: 'client_closed', status: 499, code: 'client_closed_request', param: null },
  ],
  ['a bug', new TypeError('x is not a function'), { kind: 'internal', status: 500, code: null, param: null }],
]

test.each(TABLE)('%s is reported with its own status, type, and code', (_, cause, expected) => {
  const error = toGatewayError(cause, 'paid')
  expect(error).toMatchObject(expected)
  expect(error.message).not.toContain('is not a function')
})

test('a rejection of ours passes unchanged', () => {
  const own = new GatewayError('ledger_unavailable', 'no place')
  expect(toGatewayError(own, 'paid')).toBe(own)
})

describe('retry-after', () => {
  test.each([
    [undefined, '5'],
    [0, '1'],
    [1_400, '2'],
    [3_600_000, '60'],
  ])('of %p ms is sent as %s', (ms, header) => {
    for (const code of [429, 503]) expect(toGatewayError(status(code, ms), 'paid').headers['retry-after']).toBe(header)
  })
})

test("a request that an upstream’s limits can never cover isn't retried", () => {
  const never = new UpstreamError('status', 'more tokens than a minute has', { status: 429, retryable: false })
  const { headers } = toGatewayError(never, 'paid')
  expect(headers).toEqual({ 'x-should-retry': 'false' })
})
