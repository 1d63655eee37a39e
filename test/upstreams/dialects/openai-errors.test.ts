/** Every form of error that servers of the OpenAI format send, and the resulting error for clients. */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import { readFailure } from '../../../src/upstreams/dialects/errors.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { toTarget } from '../../support/snapshot.ts'
import { toExpected } from '../../support/transcript.ts'

const CREDENTIAL = 'our own secret'
const target = toTarget({ credential: CREDENTIAL })

const expected = { ...toExpected(), target }

function headersOf(fields: Record<string, string>) {
  const headers = new Headers(fields)
  return { header: (name: string) => headers.get(name) }
}

/** The error at the start of a stream. */
function inStream(data: string, name: string | null = null): UpstreamError | null {
  const events: AnswerEvent[] = []
  openai.decoder(expected).event({ name, data }, events)
  const [first] = events
  return first?.kind === 'failure' ? first.error : null
}

/** The error of a whole response. */
function inWhole(json: unknown): UpstreamError | null {
  try {
    openai.whole(json, expected)
    return null
  } catch (error) {
    if (error instanceof UpstreamError) return error
    throw error
  }
}

const fastApi = [
  { loc: ['body', 'messages', 0, 'content'], msg: 'field required', type: 'missing' },
  { loc: ['body', 'n'], msg: 'too many' },
]
const paths = 'messages[0].content: field required; n: too many'

const SHAPES: [
  name: string,
  json: object,
  expected: { message?: string; code?: string | null; param?: string; status?: number },
][] = [
  ['the usual shape', { error: { message: 'm', code: 'c', param: 'p' } }, { message: 'm', code: 'c', param: 'p' }],
  ['a number for a code', { error: { message: 'm', code: 429 } }, { message: 'm', code: '429', status: 429 }],
  ['a number in text', { error: { message: 'm', code: '503' } }, { message: 'm', status: 503 }],
  ['a code of its own', { error: { message: 'm', code: 1302 } }, { message: 'm', code: '1302', status: 500 }],
  ['a type that stands for a status', { error: { message: 'm', type: 'overloaded_error' } }, { status: 503 }],
  ['a code that stands for a status', { error: { message: 'm', code: 'context_length_exceeded' } }, { status: 400 }],
  ['a text', { error: 'm' }, { message: 'm' }],
  ['a text, with a sentence beside it', { error: 'bad', message: 'm', code: 'c' }, { message: 'm', code: 'c' }],
  ['a flag', { error: true, message: 'm' }, { message: 'm' }],
  ['an empty object', { error: {} }, { message: 'gave no reason' }],
  [
    'vLLM’s',
    { object: 'error', message: 'm', type: 'BadRequestError', param: null, code: 400 },
    { message: 'm', status: 400 },
  ],
  [
    'Mistral’s',
    { object: 'error', message: { detail: fastApi }, type: 'invalid_request_error' },
    { message: paths, param: 'messages[0].content' },
  ],
  ['FastAPI’s', { detail: 'm' }, { message: 'm' }],
  ['FastAPI’s list', { detail: fastApi }, { message: paths, param: 'messages[0].content' }],
  ['a list of errors', { errors: [{ message: 'a' }, 'b'] }, { message: 'a; b' }],
  ['a bare one', { message: 'm', code: 'c' }, { message: 'm', code: 'c' }],
  ['a lonely sentence', { message: 'm' }, { message: 'm' }],
  ['a type', { type: 'error', error: { type: 'overloaded_error', message: 'm' } }, { message: 'm', status: 503 }],
  ['our credential', { error: { message: `key ${CREDENTIAL}`, code: CREDENTIAL } }, { message: 'key …', code: null }],
]

describe('an error in', () => {
  test.each(SHAPES)(
    '%s is the same in a stream, in a whole answer and in the body of an error',
    (_, json, expected) => {
      const text = JSON.stringify(json)
      for (const failure of [inStream(text), inStream(text, 'error'), inWhole(json)]) {
        expect(failure).toMatchObject({ kind: 'status', ...expected })
      }
      const body = readFailure(openai, 418, text, headersOf({}), target)
      expect(body).toMatchObject({ kind: 'status', ...expected, status: 418 })
    },
  )

  test.each([
    [
      'a chunk as OpenRouter writes it',
      { error: { message: 'm', code: 502 }, choices: [{ index: 0, delta: { content: '' }, finish_reason: 'error' }] },
    ],
    ['a choice', { choices: [{ index: 0, error: { message: 'm', code: 502 }, finish_reason: 'error' }] }],
  ])('%s', (_, json) => {
    for (const failure of [inStream(JSON.stringify(json)), inWhole(json)]) {
      expect(failure).toMatchObject({ message: 'm', status: 502 })
    }
  })

  test.each([
    ['text', 'it broke', 'it broke'],
    ['markup', '<h1>no</h1>', 'gave no reason'],
    ['nothing', '', 'gave no reason'],
    ['a list', '[{"error":{"message":"m"}}]', 'm'],
  ])('an event of that name with %s, or the body of an error status', (_, text, message) => {
    expect(inStream(text, 'error')?.message).toBe(message)
    expect(readFailure(openai, 500, text, headersOf({}), target).message).toBe(message)
  })

  test.each([
    ['code', { code: { toString: 1, valueOf: 1 } }],
    ['status', { status: { toString: 1, valueOf: 1 } }],
    ['place', { detail: [{ loc: ['body', { toString: 1 }] }] }],
    ['code, which is none of a status', { code: 'constructor' }],
  ])('an odd %s is passed over', (_, odd) => {
    const error = { message: 'm', ...odd }
    expect(inStream(JSON.stringify({ error }))).toMatchObject({ message: 'm', status: 500 })
    expect(inWhole({ error })).toMatchObject({ message: 'm', status: 500 })
    expect(readFailure(openai, 502, JSON.stringify({ error }), headersOf({}), target)).toMatchObject({ status: 502 })
  })

  test.each([
    ['an error that is null', { error: null, choices: [] }],
    ['a ping', { type: 'ping' }],
    ['a report', { message: 'loading', progress: 0.5 }],
    ['a message beside choices', { message: 'm', code: 'c', choices: [{ index: 0, delta: {} }] }],
  ])('%s is none', (_, json) => {
    expect(inStream(JSON.stringify(json))).toBeNull()
  })
})

const SENT = 'Sat, 21 Nov 2026 23:59:00 GMT'
const LATER = 'Sun, 22 Nov 2026 00:00:30 GMT'

describe('the body of an error status', () => {
  const fail = (status: number, text: string, headers: Record<string, string> = {}) =>
    readFailure(openai, status, text, headersOf(headers), target)

  test('never shows any part of our credential, wherever its message is truncated', () => {
    const { message } = fail(400, JSON.stringify({ error: { message: `${'x'.repeat(995)}${CREDENTIAL}` } }))
    expect(message).not.toContain(CREDENTIAL.slice(0, 4))
  })

  test('never shows our credential in its code or param', () => {
    const { code, param } = fail(400, JSON.stringify({ error: { message: 'm', code: CREDENTIAL, param: CREDENTIAL } }))
    expect(`${code} ${param}`).not.toContain(CREDENTIAL)
  })

  test.each([
    [{ 'retry-after': '3' }, 3_000],
    [{ 'retry-after-ms': '250', 'retry-after': '3' }, 250],
    [{ 'retry-after': 'soon' }, null],
    [{ 'retry-after': '-1' }, null],
    [{ 'retry-after': LATER, date: SENT }, 90_000],
    [{ 'retry-after': SENT, date: LATER }, 0],
    [{ 'retry-after': LATER }, null],
    [{ 'retry-after': LATER, date: 'today' }, null],
    [{ 'retry-after': '-1', date: SENT }, null],
    [{ 'retry-after': 'soon', date: SENT }, null],
    [{ 'retry-after': '3', date: SENT }, 3_000],
    [{}, null],
  ] as [Record<string, string>, number | null][])('with %j may be retried after %p ms', (headers, expected) => {
    expect(fail(429, '{}', headers).retryAfterMs).toBe(expected)
  })

  test.each([
    [400, false],
    [401, false],
    [404, false],
    [408, true],
    [409, true],
    [429, true],
    [500, true],
    [503, true],
  ])('of %d: another try may help is %p', (status, expected) => {
    expect(fail(status, '{}').retryable).toBe(expected)
  })
})
