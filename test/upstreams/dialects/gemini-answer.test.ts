import { expect, test } from 'bun:test'
import type { FinishReason } from '@google/genai'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { Expected } from '../../../src/upstreams/dialects/dialect.ts'
import { readFailure } from '../../../src/upstreams/dialects/errors.ts'
import { PartialArgs } from '../../../src/upstreams/dialects/gemini/candidate.ts'
import { gemini } from '../../../src/upstreams/dialects/gemini/gemini.ts'
import { toTarget } from '../../support/snapshot.ts'

const expected = (more: Partial<Expected> = {}): Expected => ({
  target: toTarget({ dialect: 'gemini', credential: 'a secret of ours' }),
  choices: 1,
  logprobs: false,
  callId: '0199-1',
  body: {},
  ...more,
})

function decode(chunks: readonly unknown[], more: Partial<Expected> = {}): AnswerEvent[] {
  const decoder = gemini.decoder(expected(more))
  const out: AnswerEvent[] = []
  for (const chunk of chunks) decoder.event({ name: null, data: JSON.stringify(chunk) }, out)
  decoder.end(out)
  return out
}

const saying = (parts: unknown, more: object = {}) => ({ candidates: [{ content: { parts }, ...more }] })
const STOP = saying([{ text: '' }], { finishReason: 'STOP' })

test('arguments that arrive in pieces are sent as one, once the call is complete', () => {
  const events = decode([
    saying([{ functionCall: { name: 'weather', willContinue: true }, thoughtSignature: 'c2ln' }]),
    saying([
      {
        functionCall: {
          partialArgs: [{ jsonPath: '$.city', stringValue: 'Os', willContinue: true }],
          willContinue: true,
        },
      },
    ]),
    saying([{ functionCall: { partialArgs: [{ jsonPath: '$.city', stringValue: 'lo' }], willContinue: true } }]),
    saying([{ functionCall: {} }]),
    saying([{ functionCall: { name: 'clock' } }]),
    STOP,
  ])
  const of = (index: number) => ({ choice: 0, index })
  expect(events).toEqual([
    { kind: 'tool', ...of(0), id: expect.any(String), name: 'weather', type: 'function' },
    {
      kind: 'reasoning',
      choice: 0,
      text: '',
      details: [
        {
          type: 'reasoning.encrypted',
          data: 'c2ln',
          id: expect.any(String),
          format: 'google-gemini-v1',
          signer: 'paid/large-v1',
          index: 0,
        },
      ],
    },
    { kind: 'arguments', ...of(0), text: '{"city":"Oslo"}' },
    { kind: 'tool', ...of(1), id: expect.any(String), name: 'clock', type: 'function' },
    { kind: 'arguments', ...of(1), text: '{}' },
    { kind: 'finish', choice: 0, reason: 'tool_calls' },
    { kind: 'done' },
  ])
})

test("calls of Google's own tools are hidden from clients, and not sent back", () => {
  const search = { toolCall: { toolType: 'GOOGLE_SEARCH_WEB', id: 'x' }, thoughtSignature: 'c2ln' }
  const events = decode([
    saying([search, { toolResponse: { id: 'x' }, thoughtSignature: 'c2ln' }, { text: 'Hi' }]),
    STOP,
  ])
  expect(events).toEqual([
    { kind: 'text', choice: 0, text: 'Hi' },
    { kind: 'finish', choice: 0, reason: 'stop' },
    { kind: 'done' },
  ])
})

test('an unfinished call in a truncated response has valid JSON as arguments', () => {
  const events = decode([
    saying([{ functionCall: { name: 'weather', willContinue: true } }]),
    saying([{ functionCall: { partialArgs: [{ jsonPath: '$.a', numberValue: 1 }], willContinue: true } }], {
      finishReason: 'MAX_TOKENS',
    }),
  ])
  expect(events.slice(1)).toEqual([
    { kind: 'arguments', choice: 0, index: 0, text: '{"a":1}' },
    { kind: 'finish', choice: 0, reason: 'length' },
    { kind: 'done' },
  ])
})

test.each([
  [
    [
      { jsonPath: '$.stops[0].name', stringValue: 'A' },
      { jsonPath: '$.stops[1].name', stringValue: 'B' },
    ],
    { stops: [{ name: 'A' }, { name: 'B' }] },
  ],
  [
    [
      { jsonPath: '$.on', boolValue: false },
      { jsonPath: '$.n', nullValue: 'NULL_VALUE' },
    ],
    { on: false, n: null },
  ],
  [[{ jsonPath: "$['a b'].c", numberValue: 0 }], { 'a b': { c: 0 } }],
  [[{ jsonPath: '$.list[900000]', numberValue: 1 }], { list: [] }],
  [[{ jsonPath: '$.constructor.name', stringValue: 'x' }], { constructor: { name: 'x' } }],
  [[{ jsonPath: '$', stringValue: 'x' }, { stringValue: 'y' }, null, 5], {}],
])('%p are the arguments %p', (items, args) => {
  const partial = new PartialArgs()
  partial.take(items)
  expect(JSON.parse(partial.toJson())).toEqual(args)
  expect(Reflect.get({}, 'x')).toBeUndefined()
})

test('a path that would change all objects changes none', () => {
  const partial = new PartialArgs()
  partial.take([{ jsonPath: '$.__proto__.polluted', stringValue: 'yes' }])
  expect(Reflect.get({}, 'polluted')).toBeUndefined()
  expect(partial.toJson()).toBe('{"__proto__":{"polluted":"yes"}}')
})

test('candidates keep their indexes, and one beyond the requested number is dropped', () => {
  const events = decode(
    [
      {
        candidates: [
          { index: 1, content: { parts: [{ text: 'B' }] }, finishReason: 'STOP' },
          { content: { parts: [{ text: 'A' }] }, index: 0, finishReason: 'MAX_TOKENS' },
          { index: 7, content: { parts: [{ text: 'no' }] } },
        ],
      },
    ],
    { choices: 2 },
  )
  expect(events).toEqual([
    { kind: 'text', choice: 1, text: 'B' },
    { kind: 'text', choice: 0, text: 'A' },
    { kind: 'finish', choice: 0, reason: 'length' },
    { kind: 'finish', choice: 1, reason: 'stop' },
    { kind: 'done' },
  ])
})

test('the service tier is reported once, in the terms of prices and in those of clients', () => {
  const events = decode([
    { ...saying([{ text: 'a' }]), usageMetadata: { trafficType: 'ON_DEMAND_FLEX' } },
    { ...STOP, usageMetadata: { trafficType: 'ON_DEMAND_FLEX' } },
  ])
  expect(events.filter(({ kind }) => kind === 'mode' || kind === 'origin')).toEqual([
    { kind: 'mode', mode: 'flex' },
    { kind: 'origin', origin: { service_tier: 'flex' } },
  ])
})

test('half of a character is dropped, and values of a wrong type are ignored', () => {
  const events = decode([
    saying([
      { text: 'a\ud83d' },
      null,
      5,
      { text: 7 },
      { inlineData: { mimeType: 'image/png' } },
      { functionCall: 'x' },
    ]),
    saying('parts'),
    { candidates: 'none', promptFeedback: 'x' },
    STOP,
  ])
  expect(events).toEqual([
    { kind: 'text', choice: 0, text: 'a\ufffd' },
    { kind: 'finish', choice: 0, reason: 'stop' },
    { kind: 'done' },
  ])
})

test('a name that every object has is an unknown name', () => {
  const word = 'constructor'
  const events = decode([
    {
      ...saying([{ text: 'a' }], { finishReason: word }),
      usageMetadata: { serviceTier: word, trafficType: '__proto__' },
    },
  ])
  expect(events).toEqual([
    { kind: 'mode', mode: word },
    { kind: 'text', choice: 0, text: 'a' },
    { kind: 'finish', choice: 0, reason: 'stop' },
    { kind: 'done' },
  ])
  expect(() => gemini.whole({ error: { status: word } }, expected())).toThrow('gave no reason')
  const { status } = readFailure(
    gemini,
    418,
    JSON.stringify({ error: { status: word } }),
    { header: () => null },
    expected().target,
  )
  expect(status).toBe(418)
})

test('duplicate IDs are made unique', () => {
  const call = { functionCall: { name: 'clock', id: 'same' } }
  const ids = decode([saying([call, call]), STOP]).flatMap((event) => (event.kind === 'tool' ? event.id : []))
  expect(ids).toEqual(['same', expect.stringMatching(/^call_/)])
})

test('an error is masked before it is returned', () => {
  const body = JSON.stringify({ error: { code: 400, message: 'bad key a secret of ours', status: 'INVALID_ARGUMENT' } })
  const error = readFailure(gemini, 400, body, { header: () => null }, expected().target)
  expect(error).toMatchObject({ status: 400, code: 'INVALID_ARGUMENT', retryable: false })
  expect(error.message).not.toContain('secret')
  for (const whole of [{ error: { message: 'x', status: 'UNAVAILABLE' } }, [{ error: { code: 503 } }]])
    expect(() => gemini.whole(whole, expected())).toThrow(UpstreamError)
})

test.each([
  [200, 'ready'],
  [400, 'refused'],
  [403, 'refused'],
  [404, 'unknown'],
  [500, 'degraded'],
])('a probe that is answered with %p finds it %p', (status, state) => {
  expect(gemini.probe.readiness(status)).toMatchObject({ state })
})

/** Every finish reason of Google's library, and the client's; null: the upstream failed. */
const ENDS: Record<`${FinishReason}`, string | null> = {
  FINISH_REASON_UNSPECIFIED: 'stop',
  STOP: 'stop',
  OTHER: 'stop',
  NO_IMAGE: 'stop',
  IMAGE_OTHER: 'stop',
  MAX_TOKENS: 'length',
  CONTINUATION: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  LANGUAGE: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  IMAGE_PROHIBITED_CONTENT: 'content_filter',
  IMAGE_RECITATION: 'content_filter',
  MALFORMED_FUNCTION_CALL: null,
  UNEXPECTED_TOOL_CALL: null,
  TOO_MANY_TOOL_CALLS: null,
  MALFORMED_RESPONSE: null,
}

test.each(Object.entries(ENDS))('finish reason %s becomes %p', (word, reason) => {
  const last = decode([saying([{ text: 'a' }]), saying([], { finishReason: word })]).slice(1)
  if (reason === null) expect(last).toEqual([{ kind: 'failure', error: expect.any(UpstreamError) }])
  else expect(last).toEqual([{ kind: 'finish', choice: 0, reason: reason as 'stop' }, { kind: 'done' }])
})
