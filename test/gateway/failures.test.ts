/** Upstreams that fail before the first word: the status by the table of errors, streamed or not. */
import { describe, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { costOf, HELLO_COUNTED, HELLO_TOKENS, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { expectEnvelope } from '../support/scenario.ts'
import type { Script, Seen } from '../support/upstream.ts'
import { errorAnswer, toDelta } from '../support/upstream-answers.ts'

const gateway = forAllTests(() =>
  startGateway({ deadlines: 'headers: 300ms, first_token: 300ms, idle: 300ms, total_whole: 300ms' }),
)

interface Failure {
  name: string
  script: Script
  status: number
  type?: string
  code: string | null
  param?: string | null
  says: string
  headers?: Record<string, string>
  /** Default: both ways. */
  stream?: boolean
  /** If an upstream timed out and may have worked, its prompt is billed. Default: nothing. */
  tokens?: number
}

const failed = { type: 'server_error', code: 'upstream_failed' }
const overloaded = { status: 503, type: 'service_unavailable_error', code: 'server_is_overloaded' }
const timeout = { status: 504, type: 'server_error', code: 'upstream_timeout' }
const rejected = { type: 'invalid_request_error', code: 'string_above_max_length', param: 'messages[0].content' }
const rejection = { error: { message: 'Too long for me.', ...rejected } }
const detail = { detail: `no access with ${CREDENTIAL}` }
const echo = { error: { message: `bad key ${CREDENTIAL}`, code: 'x', param: null } }

const FAILURES: Failure[] = [
  ...[400, 413, 422].map((status) => ({
    name: `${status} about the request`,
    script: { kind: 'whole' as const, status, body: rejection },
    status,
    ...rejected,
    says: 'Too long for me.',
  })),
  {
    name: '400 with a number for a code, and our credential in its message',
    script: { kind: 'whole', status: 400, body: { error: { message: `no ${CREDENTIAL} here`, code: 1234 } } },
    status: 400,
    type: 'invalid_request_error',
    code: '1234',
    says: 'no … here',
  },
  ...[401, 402, 403, 404, 405].map((status) => ({
    name: `${status}, our own fault`,
    script: { kind: 'whole' as const, status, body: status === 403 ? detail : echo },
    status: 502,
    ...failed,
    says: `\`paid\` returned ${status}`,
  })),
  {
    name: '429 with a retry header',
    script: errorAnswer(429, 'slow down', { 'retry-after': '7' }),
    status: 429,
    type: 'requests',
    code: 'upstream_rate_limited',
    says: '`paid`',
    headers: { 'retry-after': '7' },
  },
  {
    name: '429 of an account that is not paid',
    script: {
      kind: 'whole',
      status: 429,
      body: {
        error: { message: 'You exceeded your current quota', type: 'insufficient_quota', code: 'insufficient_quota' },
      },
    },
    status: 502,
    ...failed,
    says: 'payment required on the provider account',
    headers: { 'x-should-retry': 'false' },
  },
  {
    name: '402 about the size of the request',
    script: errorAnswer(402, 'You requested up to 65536 tokens, but can only afford 3919.'),
    status: 502,
    ...failed,
    says: 'not enough credit on the provider account for this request; try a smaller `max_tokens`',
    headers: { 'x-should-retry': 'false' },
  },
  { name: '503', script: errorAnswer(503), ...overloaded, says: '503', headers: { 'retry-after': '5' } },
  { name: '529', script: errorAnswer(529), ...overloaded, says: '529', headers: { 'retry-after': '5' } },
  { name: '500', script: errorAnswer(500), status: 502, ...failed, says: '`paid` returned 500' },
  {
    name: 'a redirect',
    script: { kind: 'whole', status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' },
    status: 502,
    ...failed,
    says: '302',
  },
  { name: 'HTML with 200', script: { kind: 'whole', body: '<h1>hi</h1>' }, status: 502, ...failed, says: '`paid`' },
  { name: 'a bare error with 200', script: { kind: 'whole', body: echo }, status: 502, ...failed, says: '`paid`' },
  { name: 'an empty JSON object', script: { kind: 'whole', body: {} }, status: 502, ...failed, says: '`paid`' },
  { name: 'no choices', script: { kind: 'whole', body: { choices: [] } }, status: 502, ...failed, says: '`paid`' },
  {
    name: 'a closed connection',
    script: { kind: 'reset' },
    status: 502,
    ...failed,
    says: '`paid` is unreachable',
  },
  {
    name: 'silence',
    script: { kind: 'silent' },
    ...timeout,
    says: '`paid` took too long',
    stream: false,
    tokens: HELLO_COUNTED,
  },
  { name: 'silence', script: { kind: 'silent' }, ...timeout, says: 'headers timeout (0.3 s)', stream: true },
  {
    name: 'headers and then silence',
    script: { kind: 'stream', steps: [], end: 'hang' },
    ...timeout,
    says: 'first_token timeout (0.3 s)',
    stream: true,
    tokens: HELLO_COUNTED,
  },
  {
    name: 'a role and then silence',
    script: { kind: 'stream', steps: [toDelta({ role: 'assistant', content: '' })], end: 'hang' },
    ...timeout,
    says: 'first_token timeout (0.3 s)',
    stream: true,
    tokens: HELLO_COUNTED,
  },
  {
    name: 'a stream of an error',
    script: { kind: 'stream', steps: [echo] },
    status: 502,
    ...failed,
    says: '`paid`',
    stream: true,
  },
  {
    name: 'a stream that ends at once',
    script: { kind: 'stream', steps: [], end: 'eof' },
    status: 502,
    ...failed,
    says: 'ended its stream',
    stream: true,
  },
  {
    name: 'a stream of something else',
    script: { kind: 'stream', steps: ['data: hello\n\n'] },
    status: 502,
    ...failed,
    says: 'not JSON',
    stream: true,
  },
  {
    name: 'whole JSON to a stream',
    script: { kind: 'whole', body: {} },
    status: 502,
    ...failed,
    says: 'returned 200 with an invalid completion',
    stream: true,
  },
]

const BOTH = FAILURES.flatMap((row) =>
  (row.stream === undefined ? [true, false] : [row.stream]).map((stream) => ({ ...row, stream })),
)

describe('before the first token', () => {
  test.each(BOTH)('$name gives $status, stream: $stream', async (row) => {
    const { app, upstream, chat } = gateway
    upstream.script(row.script)
    // Clears penalties from the previous row.
    app.pass(60_000)
    const before = await app.count()
    const response = await chat({ stream: row.stream })
    const text = await response.text()
    expect({ status: response.status, text }).toMatchObject({ status: row.status })
    expectEnvelope(response, text, { type: row.type ?? '', code: row.code, param: row.param ?? null })
    expect(text).toContain(row.says)
    expect(text).not.toContain(CREDENTIAL)
    for (const [name, value] of Object.entries(row.headers ?? {})) expect(response.headers.get(name)).toBe(value)

    const ledger = (await app.settled(before + 1)).at(-1)
    expect(response.headers.get('x-request-id')).toBe(`req_${ledger?.id}`)
    const tokens = row.tokens ?? 0
    expect(ledger).toMatchObject({ status: 'failed', http_status: row.status, prompt_tokens: tokens })
    expect(ledger).toMatchObject({
      cost_nano_usd: costOf(tokens, 0),
      estimated: tokens > 0 ? 1 : 0,
      first_token_ms: null,
      attempts: 1,
      reserved_prompt_tokens: HELLO_TOKENS,
    })
    expect(ledger?.error_code).toBe(row.code)
  })
})

test("an upstream that isn't listening gives 502", async () => {
  const other = await startGateway()
  await other.upstream.stop()
  const response = await other.chat()
  expectEnvelope(response, await response.text(), failed)
  expect(response.status).toBe(502)
  expect(await other.app.settled(1)).toMatchObject([{ status: 'failed', http_status: 502 }])
  await other.app.stop()
})

test('no failure left an upstream connection open or a secret in the log', async () => {
  const isOver = (seen: Seen) => seen.answeredAtMs !== null || seen.abortedAtMs !== null
  await gateway.upstream.waitFor((all) => all.every(isOver), 'the end of every call')
  const text = await gateway.app.logText()
  for (const secret of gateway.app.secrets) expect(text).not.toContain(secret)
  expect(text).not.toContain('"level":"error"')
})
