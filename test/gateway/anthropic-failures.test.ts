/** How Anthropic's failures reach chat clients, and what they cost. */
import { describe, expect, test } from 'bun:test'
import { errorMessage, failingStream, PING, streamMessage, toSteps } from '../support/anthropic-answers.ts'
import { CREDENTIAL } from '../support/app.ts'
import { checkStream } from '../support/contract.ts'
import { forAllTests } from '../support/lifetime.ts'
import { reading } from '../support/several-upstreams.ts'
import type { Script } from '../support/upstream.ts'
import { startAnthropic } from './anthropic.ts'

const gateway = forAllTests(startAnthropic)

const LIMITS = {
  'anthropic-ratelimit-requests-limit': '50',
  'anthropic-ratelimit-tokens-remaining': '0',
  'anthropic-organization-id': 'org-secret',
  'retry-after': '7',
}

interface Failure {
  name: string
  script: Script
  status: number
  code: string | null
  says?: string
  retryAfter?: string
}

const error = (status: number, type: string, message: string) => errorMessage(status, type, message, LIMITS)

const FAILURES: Failure[] = [
  {
    name: 'a field at fault',
    script: error(400, 'invalid_request_error', 'messages.0.content: Field required'),
    status: 400,
    code: null,
    says: 'Field required',
  },
  {
    name: 'a prompt that is too long',
    script: error(400, 'invalid_request_error', 'prompt is too long: 208310 tokens > 200000 maximum'),
    status: 400,
    code: 'context_length_exceeded',
    says: 'maximum context length is 200000 tokens',
  },
  { name: 'a wrong key', script: error(401, 'authentication_error', 'invalid'), status: 502, code: 'upstream_failed' },
  { name: 'an account to pay', script: error(402, 'billing_error', 'Pay'), status: 502, code: 'upstream_failed' },
  { name: 'a forbidden model', script: error(403, 'permission_error', 'No'), status: 502, code: 'upstream_failed' },
  {
    name: 'a model of no name',
    script: error(404, 'not_found_error', 'model: x'),
    status: 502,
    code: 'upstream_failed',
  },
  {
    name: 'a page of a proxy',
    script: { kind: 'whole', status: 413, body: '<html><h1>413</h1></html>' },
    status: 413,
    code: 'request_too_large',
  },
  {
    name: 'a limit',
    script: error(429, 'rate_limit_error', 'Number of requests'),
    status: 429,
    code: 'upstream_rate_limited',
    retryAfter: '7',
  },
  { name: 'a failure of its own', script: error(500, 'api_error', 'Oops'), status: 502, code: 'upstream_failed' },
  {
    name: 'an overload',
    script: error(529, 'overloaded_error', 'Overloaded'),
    status: 503,
    code: 'server_is_overloaded',
    retryAfter: '7',
  },
]

describe.each([false, true])('with stream %p, ', (stream) => {
  test.each(FAILURES)('$name has its own status', async ({ script, status, code, says = '', retryAfter }) => {
    gateway.app.pass(120_000)
    gateway.upstream.script(script)
    const response = await gateway.post({ stream })
    const text = await response.text()
    expect({ status: response.status, ...JSON.parse(text).error }).toMatchObject({ status, code })
    expect(text).toContain(says)
    if (retryAfter) expect(response.headers.get('retry-after')).toBe(retryAfter)
    for (const name of response.headers.keys()) expect(name).not.toStartWith('anthropic')
    expect(text + JSON.stringify([...response.headers])).not.toMatch(/org-secret|<html/)
    expect(text).not.toContain(CREDENTIAL)
    const row = (await gateway.app.settled(await gateway.app.count())).at(-1)
    expect(row).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
    // The client may have got another status.
    const [call] = reading(gateway.app, (sqlite) =>
      sqlite.query<object, [string]>('SELECT * FROM calls WHERE request_id = ?').all(row?.id ?? ''),
    )
    expect(call).toMatchObject({ error_code: 'status', ...('status' in script && { http_status: script.status }) })
  })
})

const EARLY: [string, string, number, string][] = [
  ['overloaded_error', 'Overloaded', 503, 'server_is_overloaded'],
  ['rate_limit_error', 'Slow down', 429, 'upstream_rate_limited'],
  ['invalid_request_error', 'messages: wrong', 400, 'null'],
  ['api_error', 'Oops', 502, 'upstream_failed'],
]

test.each(EARLY)('a stream that begins with %s has its own status', async (type, message, status, code) => {
  gateway.app.pass(120_000)
  gateway.upstream.script(failingStream(type, message, [PING]))
  const response = await gateway.post({ stream: true })
  const text = await response.text()
  expect([response.status, String(JSON.parse(text).error.code)]).toEqual([status, code])
})

test('a failure within a stream is reported as one, and the output so far is paid for', async () => {
  gateway.app.pass(120_000)
  const usage = { input_tokens: 1_000, output_tokens: 50 }
  const steps = toSteps({ blocks: [{ text: 'One two three' }], usage })
  gateway.upstream.script(failingStream('overloaded_error', 'Overloaded', steps.slice(0, 4)))
  const text = await (await gateway.post({ stream: true })).text()
  const { choices, error: failure } = checkStream(text)
  expect(choices[0]?.content).toBe('One t')
  expect(failure).toMatchObject({ code: 'server_is_overloaded' })
  const row = (await gateway.app.settled(await gateway.app.count())).at(-1)
  expect(row).toMatchObject({ status: 'cut', prompt_tokens: 1_000, estimated: 1 })
  expect(row?.cost_nano_usd).toBeGreaterThan(1_000 * 3_000)
})

test('unsupported features are rejected with the field, at no cost', async () => {
  gateway.app.pass(120_000)
  for (const [body, param, code] of [
    [{ logprobs: true }, 'logprobs', 'unsupported_parameter'],
    [
      { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }] }] },
      'messages[0].content[0]',
      'unsupported_value',
    ],
  ] as const) {
    const asked = gateway.upstream.requests.length
    expect(await gateway.refused(body)).toMatchObject({ status: 400, code, param })
    expect(gateway.upstream.requests).toHaveLength(asked)
    const row = (await gateway.app.settled(await gateway.app.count())).at(-1)
    expect(row).toMatchObject({ cost_nano_usd: 0 })
  }
})

test('a client that disconnects ends its stream', async () => {
  gateway.app.pass(120_000)
  const { steps } = streamMessage({ blocks: [{ text: 'One two three' }] })
  gateway.upstream.script({ kind: 'stream', steps: [...steps].slice(0, 4), end: 'hang' })
  const controller = new AbortController()
  const response = await gateway.post({ stream: true }, controller.signal)
  await response.body?.getReader().read()
  controller.abort()
  await gateway.upstream.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'the end of the call')
})

test("a call has the provider's request ID", async () => {
  gateway.app.pass(120_000)
  gateway.play({ blocks: [{ text: 'Hi' }] })
  await gateway.ask()
  const rows = await gateway.app.settled(await gateway.app.count())
  expect(rows.at(-1)?.upstream_request_id).toBe('req_upstream')
})

describe('money', () => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } }

  test.each([false, true])(
    "of a conversation with cache and reasoning is the provider's published amount (stream %p)",
    async (stream) => {
      gateway.app.pass(120_000)
      // Prompt tokens: 1,200 new, 8,000 cached, 3,000 written for an hour, and 500 for five minutes.
      const usage = {
        input_tokens: 1_200,
        cache_read_input_tokens: 8_000,
        cache_creation_input_tokens: 3_500,
        cache_creation: { ephemeral_5m_input_tokens: 500, ephemeral_1h_input_tokens: 3_000 },
        output_tokens: 777,
        output_tokens_details: { thinking_tokens: 333 },
      }
      gateway.play({ blocks: [{ thought: 'Hm.' }, { text: 'Yes.' }], usage })
      const report = await gateway.ask({
        stream,
        reasoning_effort: 'high',
        messages: [
          { role: 'system', content: 'Be brief.', ...hour },
          { role: 'user', content: 'Well?', ...mark },
        ],
        ...(stream ? { stream_options: { include_usage: true } } : {}),
      })
      expect(report.usage).toEqual({ prompt: 12_700, completion: 777, cached: 8_000, reasoning: 333 })
      // USD 3, 0.30, 3.75, 6, and 15 per million tokens: 3,600 + 2,400 + 1,875 + 18,000 + 11,655 = 37,530 microdollars.
      const row = (await gateway.app.settled(await gateway.app.count())).at(-1)
      expect(row).toMatchObject({
        cost_nano_usd: 37_530_000,
        estimated: 0,
        prompt_tokens: 12_700,
        completion_tokens: 777,
      })
    },
  )

  test('of a compaction within the call includes both', async () => {
    gateway.app.pass(120_000)
    const iterations = [
      { type: 'compaction', input_tokens: 100, cache_read_input_tokens: 55_096, output_tokens: 83 },
      { type: 'message', input_tokens: 181, output_tokens: 8 },
    ]
    gateway.play({ blocks: [{ text: 'Hello!' }], usage: { input_tokens: 181, output_tokens: 8, iterations } })
    await gateway.ask()
    // 281 x 3 + 55,096 x 0.3 + 91 x 15 = 843 + 16,528.8 + 1,365 microdollars.
    const row = (await gateway.app.settled(await gateway.app.count())).at(-1)
    expect(row).toMatchObject({ cost_nano_usd: 18_736_800, prompt_tokens: 55_377, completion_tokens: 91 })
  })
})
