/** The OpenAI format, as pure functions. `test/gateway` tests it over real sockets. */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { RouteSettings } from '../../../src/domain/models.ts'
import type { CanonicalRequest } from '../../../src/domain/request.ts'
import { DEFAULT_OPTIONS } from '../../../src/upstreams/dialects/dialects.ts'
import { ItemNumbers } from '../../../src/upstreams/dialects/openai/delta.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { toTarget } from '../../support/snapshot.ts'
import { toExpected, toShape } from '../../support/transcript.ts'

const CREDENTIAL = 'our own secret'
const target = toTarget({ credential: CREDENTIAL })
const expected = { ...toExpected(toShape({ choices: 2 })), target }
const body: CanonicalRequest = { model: 'fast', messages: [{ role: 'user', content: 'Hi' }] }

function failureOf(run: () => unknown): UpstreamError {
  try {
    run()
  } catch (error) {
    if (error instanceof UpstreamError) return error
  }
  throw new Error('it did not fail')
}

test('images next to an empty content are returned, each with its index', () => {
  const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
  const decoder = openai.decoder(expected)
  const out: AnswerEvent[] = []
  const delta = { content: '', images: [picture] }
  for (const choice of [{ delta }, { delta }, { delta: {}, finish_reason: 'stop' }])
    decoder.event({ name: null, data: JSON.stringify({ choices: [{ index: 0, ...choice }] }) }, out)
  decoder.end(out)
  expect(out).toEqual([
    { kind: 'images', choice: 0, items: [{ ...picture, index: 0 }] },
    { kind: 'images', choice: 0, items: [{ ...picture, index: 1 }] },
    { kind: 'finish', choice: 0, reason: 'stop' },
    { kind: 'done' },
  ])
})

describe('a request', () => {
  const sent = (extra: Record<string, unknown>) => JSON.parse(openai.request({ ...body, ...extra }, target).body)

  test('has the upstream’s model name, and our credential', () => {
    expect(openai.request(body, target).path).toBe('/chat/completions')
    expect(sent({})).toEqual({ ...body, model: 'large-v1' })
    expect(openai.headers(target.upstream)).toEqual({ authorization: `Bearer ${CREDENTIAL}` })
    expect(openai.headers(toTarget().upstream)).toEqual({})
  })

  test('always requests usage of a stream, and never of a whole response', () => {
    expect(sent({ stream: true }).stream_options).toEqual({ include_usage: true })
    const options = { include_usage: false, include_obfuscation: false }
    expect(sent({ stream: true, stream_options: options }).stream_options).toEqual({ ...options, include_usage: true })
    expect(sent({ stream: false, stream_options: null })).not.toContainKey('stream_options')
  })

  const six = { temperature: 1, top_p: 0.5, top_k: 5, reasoning_effort: 'xhigh' }
  test.each<[RouteSettings, object, object]>([
    [{}, six, six],
    [{ sampling: false }, six, { reasoning_effort: 'xhigh' }],
    [{ efforts: ['low', 'high'] }, { reasoning_effort: 'xhigh' }, { reasoning_effort: 'high' }],
    [{ efforts: ['low', 'high'] }, { reasoning_effort: 'medium' }, { reasoning_effort: 'high' }],
    [{ efforts: ['low', 'high'] }, { reasoning_effort: 'minimal' }, { reasoning_effort: 'low' }],
    [{ efforts: ['low'] }, { reasoning_effort: 'none' }, { reasoning_effort: 'none' }],
    [{ thinking_off: false }, { reasoning_effort: 'none' }, {}],
    [{ thinking_off: false }, { reasoning_effort: 'low' }, { reasoning_effort: 'low' }],
    [{ thinking_off: false, efforts: ['high', 'low'] }, { reasoning_effort: 'none' }, { reasoning_effort: 'low' }],
    [{ efforts: ['low', 'medium', 'max'] }, { reasoning_effort: 'high' }, { reasoning_effort: 'medium' }],
    [{ thinking: 'none' }, { reasoning_effort: 'low', reasoning: { exclude: true } }, { reasoning: { exclude: true } }],
  ])('by a route with %j turns %j into %j', (options, asked, expected) => {
    const { body: text } = openai.request({ ...body, ...asked } as CanonicalRequest, { ...target, options })
    expect(JSON.parse(text)).toEqual({ ...body, model: 'large-v1', ...expected })
  })

  test('no message is modified in place, since another upstream may get the request', () => {
    const messages = [
      { role: 'developer' as const, content: 'A', name: 'x' },
      { role: 'user' as const, content: 'B' },
    ]
    const before = structuredClone(messages)
    const options = { ...DEFAULT_OPTIONS, developer_role: 'system' as const, drop: ['messages.name'] }
    const { body: text } = openai.request({ ...body, messages }, toTarget({ options }))
    expect(JSON.parse(text).messages).toEqual([{ role: 'system', content: 'A' }, messages[1]])
    expect(messages).toEqual(before)
  })

  const SWITCHED = { effort_fields: { none: { thinking: { type: 'disabled' } } } }
  test.each([
    [{ max_tokens_field: 'max_tokens' as const }, { max_completion_tokens: 9 }, { max_tokens: 9 }],
    [{ max_tokens_field: 'max_completion_tokens' as const }, { max_tokens: 9 }, { max_completion_tokens: 9 }],
    [{ max_tokens_field: 'max_tokens' as const }, { max_tokens: 9 }, { max_tokens: 9 }],
    [{ max_tokens_field: 'max_tokens' as const }, {}, {}],
    [{}, { max_completion_tokens: 9 }, { max_completion_tokens: 9 }],
    [{}, { max_tokens: 9 }, { max_tokens: 9 }],
    [{ n: false }, { n: 1 }, {}],
    [{}, { n: 3 }, { n: 3 }],
    [{ user: false }, { user: 'ann' }, {}],
    [{}, { user: 'ann' }, { user: 'ann' }],
    [{}, { top_k: 5, reasoning: { effort: 'low' } }, { top_k: 5, reasoning: { effort: 'low' } }],
    [{ drop: ['seed', 'stream_options.x', 'nothing'] }, { seed: 1, top_k: 5 }, { top_k: 5 }],
    [{ rename: { seed: 'random_seed' } }, { seed: 1 }, { random_seed: 1 }],
    [{ rename: { seed: 'random_seed' } }, { seed: 1, random_seed: 2 }, { random_seed: 2 }],
    [{ extra_body: { top_k: 1 } }, { top_k: 5 }, { top_k: 1 }],
    [{ effort_fields: { none: {} } }, { reasoning_effort: 'none' }, {}],
    [{ effort_fields: { none: {} } }, { reasoning_effort: 'high' }, { reasoning_effort: 'high' }],
    [{ effort_fields: {} }, { reasoning: { effort: 'low' } }, { reasoning_effort: 'low' }],
    [{ effort_fields: {} }, { reasoning: { enabled: true } }, { reasoning_effort: 'medium' }],
    [{ effort_fields: {} }, { reasoning: { exclude: true } }, {}],
    [{ effort_fields: {} }, { thinking: { type: 'disabled' } }, { reasoning_effort: 'none' }],
    [{ effort_fields: { low: { think: 1 } } }, { reasoning_effort: 'low', think: 2 }, { think: 2 }],
    [{}, { thinking: { type: 'disabled' } }, { thinking: { type: 'disabled' } }],
    [SWITCHED, { thinking: { type: 'enabled', keep: 'all' } }, { thinking: { type: 'enabled', keep: 'all' } }],
    [SWITCHED, { thinking: { type: 'adaptive' }, reasoning_effort: 'high' }, { reasoning_effort: 'high' }],
    [{ stream_options: false }, { stream: true, stream_options: { include_usage: true } }, { stream: true }],
  ])('to an upstream with %j turns %j into %j', (options, asked, expected) => {
    const particular = toTarget({ options: { ...DEFAULT_OPTIONS, ...options } })
    const { body: text } = openai.request({ ...body, ...asked } as CanonicalRequest, particular)
    expect(JSON.parse(text)).toEqual({ ...body, model: 'large-v1', ...expected })
  })

  test('leaves the canonical body unchanged', () => {
    const frozen = Object.freeze({ ...body, stream: true })
    openai.request(frozen, target)
    expect(frozen).toEqual({ ...body, stream: true })
  })
})

describe('a stream', () => {
  const play = (...data: string[]): string[] => {
    const decoder = openai.decoder(expected)
    const events: AnswerEvent[] = []
    for (const each of data) decoder.event({ name: null, data: each }, events)
    decoder.end(events)
    return events.map((event) => (event.kind === 'failure' ? event.error.kind : event.kind))
  }
  const word = '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
  const finish = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
  const usage = '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}'

  test.each([
    ['that is complete', [word, finish, usage, '[DONE]'], ['text', 'usage', 'finish', 'done']],
    ['with [DONE] and no finish', [word, '[DONE]'], ['text', 'finish', 'done']],
    ['with a finish and no [DONE]', [word, finish], ['text', 'finish', 'done']],
    ['with neither', [word], ['text', 'broken']],
    ['of nothing', [], ['broken']],
    ['that goes on after its end', [word, '[DONE]', word], ['text', 'finish', 'done']],
    ['with an error', [word, '{"error":{"message":"x"}}', word], ['text', 'status']],
    [
      'with what Azure thinks of the prompt before all',
      ['{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}', word, finish],
      ['text', 'finish', 'done'],
    ],
    ['with "error": null', ['{"error":null,"choices":[]}', finish], ['finish', 'done']],
    ['of something else', [word, '<html>'], ['text', 'broken']],
    ['without choices', ['{}', '{"choices":null}', finish], ['finish', 'done']],
    ['with blanks around its end', [word, ' [DONE] ', word], ['text', 'finish', 'done']],
    ['with heartbeats for data', ['', ': keepalive', word, ' ', finish], ['text', 'finish', 'done']],
    ['of events that one line end parts', [`${word}\n${finish}\n[DONE]`], ['text', 'finish', 'done']],
    ['of an event over two lines', [word.replace('[{', '[\n{'), '[DONE]'], ['text', 'finish', 'done']],
    ['of events of which one is no JSON', [`${word}\nx`], ['broken']],
    [
      'with finishes that are none',
      [word.replace('null', '""'), word.replace('null', '"null"')],
      ['text', 'text', 'broken'],
    ],
    ['that finishes one choice of two', [word, finish.replace('0', '1')], ['text', 'broken']],
    [
      'with a number that is none',
      [word.replace('null', 'null,"logprobs":{"content":[{"logprob":NaN}]}'), finish],
      ['text', 'finish', 'done'],
    ],
    ['that finishes in an error', [word, finish.replace('stop', 'error'), '[DONE]'], ['text', 'status']],
    ['with zeros before its usage', [usage.replaceAll('1', '0'), finish, usage], ['usage', 'finish', 'done']],
  ])('%s', (_, data, kinds) => {
    expect(play(...data)).toEqual(kinds)
  })
})

test.each([
  ['a text', 'hello', 'broken'],
  ['a list', [], 'broken'],
  ['no choices', { choices: [] }, 'broken'],
  ['a choice that is none', { choices: [null] }, 'broken'],
  ['an error', { error: { message: 'm', code: 429 } }, 'status'],
  ['a choice that failed', { choices: [{ message: { content: 'a' }, finish_reason: 'error' }] }, 'status'],
])('a 200 with %s is a failure', (_, json, kind) => {
  expect(failureOf(() => openai.whole(json, expected)).kind as string).toBe(kind)
})

test('items next to the text get a new index if theirs is invalid', () => {
  const list = [
    { type: 'a', index: -5 },
    { type: 'b', index: 1e300 },
    { type: 'c', index: 0.5 },
    { type: 'd', index: 7 },
  ]
  const numbers = new ItemNumbers(true)
  expect(numbers.take([...list, { type: 'e' }, { type: 'b' }])).toEqual(
    [0, 1, 2, 7, 8, 1].map((index, at) => ({ type: 'abcdeb'[at], index })),
  )
})
