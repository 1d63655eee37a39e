/** Failures of a Gemini upstream, and interrupted streams. */
import { describe, expect, test } from 'bun:test'
import { checkError, checkStream } from '../support/contract.ts'
import { inPieces } from '../support/cuts.ts'
import { createGemini, GEMINI_USAGE, googleError, toEvent } from '../support/gemini-upstream.ts'
import { forAllTests } from '../support/lifetime.ts'
import type { Behaviour, Stream } from '../support/upstream-answers.ts'
import { KEY, startGemini } from './gemini-gateway.ts'

const gateway = forAllTests(() => startGemini(createGemini(() => ({ text: 'Hello' }), { key: KEY })))

const hello = { messages: [{ role: 'user', content: 'Hello' }] }
const ofQuota = (quotaId: string, retryDelay: string) => [
  { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [{ quotaId }] },
  { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
]
const badKey = googleError(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', [
  { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID', domain: 'googleapis.com' },
])

async function fail(behaviour: Behaviour, body: Record<string, unknown> = {}) {
  gateway.app.pass(24 * 60 * 60_000)
  gateway.upstream.script(behaviour)
  return gateway.fail({ ...hello, ...body })
}

describe.each([{ stream: false }, { stream: true }])('called with %p', (way) => {
  test.each([
    {
      name: 'a limit by the minute names its wait, which no header does',
      behaviour: googleError(
        429,
        'RESOURCE_EXHAUSTED',
        'You exceeded your current quota.',
        ofQuota('PerMinute', '34.4s'),
      ),
      error: { status: 429, code: 'upstream_rate_limited' },
      wait: '35',
    },
    {
      name: 'a quota by the day is longer than clients are told to wait',
      behaviour: googleError(429, 'RESOURCE_EXHAUSTED', 'Quota.', ofQuota('GenerateRequestsPerDayPerProject', '3s')),
      error: { status: 429, code: 'upstream_rate_limited' },
      wait: '60',
    },
    {
      name: 'a wrong key is a fault of the configuration, though it is a 400',
      behaviour: badKey,
      error: { status: 502, code: 'upstream_failed', message: expect.stringContaining('api_key') },
    },
    {
      name: 'an account that may not be served from here is one, too',
      behaviour: googleError(400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.'),
      error: { status: 502, code: 'upstream_failed' },
    },
    {
      name: 'a model that is not there is one, too',
      behaviour: googleError(404, 'NOT_FOUND', 'models/x is not found for API version v1beta'),
      error: { status: 502, code: 'upstream_failed' },
    },
    {
      name: 'a prompt that is too long is told in the classic sentence',
      behaviour: googleError(
        400,
        'INVALID_ARGUMENT',
        'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      ),
      error: { status: 400, code: 'context_length_exceeded', param: 'messages' },
    },
    {
      name: 'what is wrong with the request is for its client to read',
      behaviour: googleError(400, 'INVALID_ARGUMENT', 'Unable to process input image.'),
      error: { status: 400, code: 'INVALID_ARGUMENT', message: expect.stringContaining('input image') },
    },
    {
      name: 'words of its client that are quoted say nothing of the account',
      behaviour: googleError(
        400,
        'INVALID_ARGUMENT',
        'Unknown name "enable billing" at \'tools[0]\': Cannot find field.',
      ),
      error: { status: 400, code: 'INVALID_ARGUMENT' },
    },
    {
      name: 'an overloaded model says so',
      behaviour: googleError(503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.'),
      error: { status: 503, code: 'server_is_overloaded' },
    },
    {
      name: 'a list around an error is read, too',
      behaviour: { kind: 'whole', status: 400, body: [{ error: { code: 400, message: 'Too odd.' } }] },
      error: { status: 400, code: null, message: expect.stringContaining('Too odd.') },
    },
    {
      name: 'the page of a proxy is not quoted',
      behaviour: { kind: 'whole', status: 502, body: '<html>Bad gateway</html>' },
      error: { status: 502, code: 'upstream_failed', message: expect.not.stringContaining('html') },
    },
    {
      name: 'an answer that is none is no answer',
      behaviour: { kind: 'whole', body: { usageMetadata: {} } },
      error: { status: 502, code: 'upstream_failed' },
    },
  ] satisfies { name: string; behaviour: Behaviour; error: object; wait?: string }[])('$name', async (row) => {
    const { headers, ...error } = await fail(row.behaviour, way)
    expect(error).toMatchObject(row.error)
    if ('wait' in row) expect(headers.get('retry-after')).toBe(row.wait)
  })
})

const chunk = (text: string, more: object = {}) =>
  toEvent({
    candidates: [{ content: { role: 'model', parts: [{ text }] }, index: 0, ...more }],
    usageMetadata: GEMINI_USAGE,
  })

async function play(steps: Stream['steps'], end: Stream['end'] = 'eof') {
  gateway.app.pass(24 * 60 * 60_000)
  gateway.upstream.script({ kind: 'stream', steps, end })
  const report = await gateway.ask({ ...hello, stream: true, stream_options: { include_usage: true } })
  if (!('error' in report)) throw new Error('that was no stream')
  return report
}

describe('a stream', () => {
  test.each([
    ['ends without a reason', [chunk('one')]],
    ['says an error', [chunk('one'), toEvent({ error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } })]],
    ['ends in a malformed call', [chunk('one'), chunk('', { finishReason: 'MALFORMED_FUNCTION_CALL' })]],
    ['is no JSON any more', [chunk('one'), 'data: {"candid\r\n\r\n']],
  ])(
    'that %s after its first token is reported as interrupted, and billed for its reported usage',
    async (_, steps) => {
      const before = await gateway.app.count()
      const report = await play(steps)
      expect(report).toMatchObject({ error: { code: expect.any(String) }, choices: [{ content: 'one', finish: null }] })
      expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({ status: 'cut', prompt_tokens: 40 })
    },
  )

  test("isn't blocked by chunks without candidates, content, or parts, and the last usage counts", async () => {
    const report = await play([
      toEvent({ usageMetadata: { trafficType: 'ON_DEMAND' } }),
      toEvent({ candidates: [] }),
      toEvent({ candidates: [{ index: 0 }], usageMetadata: { promptTokenCount: 1, totalTokenCount: 1 } }),
      toEvent({ candidates: [{ content: { role: 'model' } }] }),
      chunk('one'),
      toEvent({ candidates: [{ finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 55, totalTokenCount: 55 } }),
      toEvent({ usageMetadata: { promptTokenCount: 257, candidatesTokenCount: 8, totalTokenCount: 265 } }),
    ])
    expect(report).toMatchObject({
      choices: [{ content: 'one', finish: 'stop' }],
      usage: { prompt: 257, completion: 8, cached: 0, reasoning: 0 },
    })
  })

  test('may be interrupted at any byte: complete it has all text, and otherwise it is reported as interrupted', async () => {
    const text = [
      toEvent({ candidates: [{ content: { parts: [{ text: 'Think', thought: true }] } }] }),
      chunk('Grüße 🌍'),
      toEvent({
        candidates: [{ content: { parts: [{ functionCall: { name: 'clock' }, thoughtSignature: 'c2ln' }] } }],
      }),
      chunk('', { finishReason: 'STOP' }),
    ].join('')
    const bytes = Buffer.from(text)
    const last = bytes.lastIndexOf('data: ')
    for (let at = 1; at < bytes.length; at += 7) {
      const [head = bytes] = inPieces(bytes, [at])
      const whole = await play(inPieces(bytes, [at]))
      expect(whole.choices).toMatchObject([
        { content: 'Grüße 🌍', reasoning: 'Think', toolCalls: [{ function: { name: 'clock' } }], finish: 'tool_calls' },
      ])
      if (at < last) {
        gateway.app.pass(24 * 60 * 60_000)
        gateway.upstream.script({ kind: 'stream', steps: [head], end: 'eof' })
        const response = await gateway.post({ ...hello, stream: true })
        const text = await response.text()
        // Before the first word a status can still be sent.
        if (response.status !== 200) checkError(response.status, response.headers, text)
        else expect(checkStream(text).error).toMatchObject({ code: 'upstream_failed' })
      }
    }
  })
})
