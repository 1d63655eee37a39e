/** Each rule of whole responses, errors, and headers has a case that breaks it. */
import { describe, expect, test } from 'bun:test'
import { checkError, checkHeaders, checkWhole } from './contract.ts'

type Fields = Record<string, unknown>

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const call = { id: 'c0', type: 'function', function: { name: 'f', arguments: '' } }
const failure = { message: 'It broke.', type: 'server_error', param: null, code: 'upstream_failed' }
const named = (check: number | string) => new RegExp(`^${typeof check === 'number' ? `check ${check}` : check}: `)

const MESSAGE = { role: 'assistant', content: 'Hello', refusal: null, annotations: [] }
const CHOICE = { index: 0, message: MESSAGE, logprobs: null, finish_reason: 'stop' }
const WHOLE = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_700_000_000,
  model: 'acme/large',
  choices: [CHOICE],
  usage,
}
const withChoice = (more: Fields) => ({ ...WHOLE, choices: [{ ...CHOICE, ...more }] })
const withMessage = (more: Fields, finish = 'stop') =>
  withChoice({ message: { ...MESSAGE, ...more }, finish_reason: finish })
const without = (key: string, value: Fields) =>
  Object.fromEntries(Object.entries(value).filter(([each]) => each !== key))

describe('a whole response breaks the contract by', () => {
  test.each<[check: number | string, what: string, answer: unknown]>([
    [2, 'tool_calls that are empty', withMessage({ tool_calls: [] })],
    [
      2,
      'arguments that are an object',
      withMessage({ tool_calls: [{ ...call, function: { name: 'f', arguments: {} } }] }, 'tool_calls'),
    ],
    [3, 'calls that end in stop', withMessage({ tool_calls: [call] })],
    [4, 'no finish', withChoice({ finish_reason: null })],
    [6, 'an error that is null', { ...WHOLE, error: null }],
    [7, 'tool_calls that are null', withMessage({ tool_calls: null })],
    [7, 'no role', withMessage({ role: undefined })],
    [10, 'reasoning under one name', withMessage({ reasoning_content: 'hm' })],
    [17, 'no refusal', withChoice({ message: without('refusal', MESSAGE) })],
    [17, 'no annotations', withChoice({ message: without('annotations', MESSAGE) })],
    [17, 'no content', withChoice({ message: without('content', MESSAGE) })],
    [17, 'no logprobs', { ...WHOLE, choices: [without('logprobs', CHOICE)] }],
    [17, 'no choices', { ...WHOLE, choices: [] }],
    [17, 'no usage', without('usage', WHOLE)],
    [17, 'content in parts', withMessage({ content: [{ type: 'text', text: 'a' }] })],
    [21, 'choices out of order', withChoice({ index: 1 })],
    [21, 'more choices than asked for', { ...WHOLE, choices: [CHOICE, { ...CHOICE, index: 1 }] }],
    [
      22,
      'logprobs without bytes',
      withChoice({ logprobs: { content: [{ token: 'a', logprob: -1, top_logprobs: [] }], refusal: null } }),
    ],
    [25, 'half of a character', withMessage({ content: '\ud83d' })],
    [25, 'another model', { ...WHOLE, model: 'large-v1' }],
    ['an object', 'another object', { ...WHOLE, object: 'chat.completion.chunk' }],
    ['a whole answer', 'a key that is the upstream’s', { ...WHOLE, timings: {} }],
  ])('(%p) %s', (check, _, answer) => {
    expect(() => checkWhole(answer, { model: 'acme/large' })).toThrow(named(check))
  })

  test('and one that follows it is read as its client reads it', () => {
    expect(checkWhole(JSON.stringify(withMessage({ content: 'Hello', tool_calls: [call] }, 'tool_calls')))).toEqual({
      identity: { id: 'chatcmpl-1', created: 1_700_000_000, model: 'acme/large' },
      choices: [
        {
          index: 0,
          content: 'Hello',
          reasoning: '',
          refusal: '',
          toolCalls: [call],
          functionCall: null,
          finish: 'tool_calls',
          logprobs: null,
        },
      ],
      usage: { prompt: 3, completion: 2, cached: 0, reasoning: 0 },
    } as never)
  })
})

const ID = { 'x-request-id': `req_${'0'.repeat(32)}` }
const JSON_TYPE = { ...ID, 'content-type': 'application/json' }
const STREAM = {
  ...ID,
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}
const invalid = { type: 'invalid_request_error', code: null }

describe('an error or its headers break the contract by', () => {
  test.each<[check: number, what: string, status: number, headers: Record<string, string>, error: Fields]>([
    [11, 'a page', 502, { ...ID, 'content-type': 'text/html' }, {}],
    [11, 'a number for a code', 502, JSON_TYPE, { code: 502 }],
    [11, 'no way to send a key', 401, JSON_TYPE, invalid],
    [11, 'nothing that is allowed', 405, JSON_TYPE, invalid],
    [13, 'a limit without a time', 429, JSON_TYPE, { type: 'requests', code: 'rate_limit_exceeded' }],
    [
      13,
      'a spent budget that is tried again',
      429,
      JSON_TYPE,
      { type: 'insufficient_quota', code: 'insufficient_quota' },
    ],
    [13, 'a wait that is too long', 503, { ...JSON_TYPE, 'retry-after': '90' }, {}],
    [13, 'an overload without a time', 503, JSON_TYPE, {}],
    [14, 'an unknown model that is a 400', 400, JSON_TYPE, { ...invalid, code: 'model_not_found' }],
    [14, 'an overflow in other words', 400, JSON_TYPE, { ...invalid, code: 'context_length_exceeded' }],
    [15, 'a client’s fault that is a 500', 500, JSON_TYPE, invalid],
    [15, 'a server’s fault that is a 400', 400, JSON_TYPE, {}],
    [19, 'no request id', 502, { 'content-type': 'application/json' }, {}],
  ])('(%p) %s', (check, _, status, headers, error) => {
    const body = JSON.stringify({ error: { ...failure, ...error } })
    expect(() => checkError(status, new Headers(headers), body)).toThrow(named(check))
  })

  test.each<[check: number, what: string, headers: Record<string, string>]>([
    [16, 'a stream that is compressed', { ...STREAM, 'content-encoding': 'gzip' }],
    [16, 'a stream with a length', { ...STREAM, 'content-length': '9' }],
    [16, 'a stream that a proxy may hold back', without('x-accel-buffering', STREAM) as Record<string, string>],
    [16, 'a stream that a proxy may change', { ...STREAM, 'cache-control': 'no-cache' }],
    [16, 'a stream of JSON', { ...STREAM, 'content-type': 'application/json' }],
  ])('(%p) %s', (check, _, headers) => {
    expect(() => checkHeaders('stream', new Headers(headers))).toThrow(named(check))
  })

  test('and one that follows it is returned', () => {
    checkHeaders('stream', new Headers(STREAM))
    expect(checkError(502, new Headers(JSON_TYPE), JSON.stringify({ error: failure }))).toEqual(failure as never)
  })
})
