/** The OpenAI dialect, as pure functions. Over real sockets it is in `test/chat`. */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { CanonicalRequest } from '../../../src/domain/request.ts'
import { DEFAULT_OPTIONS } from '../../../src/domain/settings.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { toTarget } from '../../support/snapshot.ts'

const CREDENTIAL = 'our own secret'
const target = toTarget({ credential: CREDENTIAL })
const body: CanonicalRequest = { model: 'fast', messages: [{ role: 'user', content: 'Hi' }] }

function failureOf(run: () => unknown): UpstreamError {
  try {
    run()
  } catch (error) {
    if (error instanceof UpstreamError) return error
  }
  throw new Error('it did not fail')
}

describe('a request', () => {
  const sent = (extra: Record<string, unknown>) => JSON.parse(openai.request({ ...body, ...extra }, target).body)

  test('goes out under the upstream’s own model name, with our credential', () => {
    const { path, headers } = openai.request(body, target)
    expect({ path, headers }).toEqual({ path: '/chat/completions', headers: { authorization: `Bearer ${CREDENTIAL}` } })
    expect(sent({})).toEqual({ ...body, model: 'large-v1' })
    expect(openai.request(body, toTarget()).headers).toEqual({})
  })

  test('always asks a stream for usage, and a whole answer never', () => {
    expect(sent({ stream: true }).stream_options).toEqual({ include_usage: true })
    const options = { include_usage: false, include_obfuscation: false }
    expect(sent({ stream: true, stream_options: options }).stream_options).toEqual({ ...options, include_usage: true })
    expect(sent({ stream: false, stream_options: null })).not.toContainKey('stream_options')
  })

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
  ])('to an upstream with %j turns %j into %j', (options, asked, expected) => {
    const particular = toTarget({ options: { ...DEFAULT_OPTIONS, ...options } })
    const { body: text } = openai.request({ ...body, ...asked }, particular)
    expect(JSON.parse(text)).toEqual({ ...body, model: 'large-v1', ...expected })
  })

  test('leaves the canonical body as it was', () => {
    const frozen = Object.freeze({ ...body, stream: true })
    openai.request(frozen, target)
    expect(frozen).toEqual({ ...body, stream: true })
  })
})

describe('a stream', () => {
  const play = (...data: string[]) => {
    const decoder = openai.decoder(target)
    return [...data.flatMap((each) => decoder.event({ name: null, data: each })), ...decoder.end()].map((event) =>
      'failure' in event ? event.failure.kind : Object.keys(event)[0],
    )
  }
  const word = '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
  const finish = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
  const usage = '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}'

  test.each([
    ['that is complete', [word, finish, usage, '[DONE]'], ['chunk', 'chunk', 'usage', 'done']],
    ['with [DONE] and no finish', [word, '[DONE]'], ['chunk', 'done']],
    ['with a finish and no [DONE]', [word, finish], ['chunk', 'chunk', 'done']],
    ['with neither', [word], ['chunk', 'broken']],
    ['of nothing', [], ['broken']],
    ['that goes on after its end', [word, '[DONE]', word], ['chunk', 'done']],
    ['with an error', [word, '{"error":{"message":"x"}}', word], ['chunk', 'status']],
    ['with "error": null', ['{"error":null,"choices":[]}', finish], ['chunk', 'done']],
    ['of something else', [word, '<html>'], ['chunk', 'broken']],
    ['without choices', ['{}', '{"choices":null}', finish], ['chunk', 'done']],
    ['with blanks around its end', [word, ' [DONE] ', word], ['chunk', 'done']],
    ['with heartbeats for data', ['', ': keepalive', word, ' ', finish], ['chunk', 'chunk', 'done']],
    ['of events that one line end parts', [`${word}\n${finish}\n[DONE]`], ['chunk', 'chunk', 'done']],
    ['of an event over two lines', [word.replace('[{', '[\n{'), '[DONE]'], ['chunk', 'done']],
    ['of events of which one is no JSON', [`${word}\nx`], ['broken']],
    [
      'with finishes that are none',
      [word.replace('null', '""'), word.replace('null', '"null"')],
      ['chunk', 'chunk', 'broken'],
    ],
    ['that finishes one choice of two', [word, finish.replace('0', '1')], ['chunk', 'chunk', 'broken']],
    [
      'with a number that is none',
      [word.replace('null', 'null,"logprobs":{"content":[{"logprob":NaN}]}'), finish],
      ['chunk', 'chunk', 'done'],
    ],
    ['that finishes in an error', [word, finish.replace('stop', 'error'), '[DONE]'], ['chunk', 'status']],
    ['with zeros before its usage', [usage.replaceAll('1', '0'), finish, usage], ['chunk', 'usage', 'done']],
  ])('%s', (_, data, expected) => {
    expect(play(...data)).toEqual(expected)
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
  expect(failureOf(() => openai.completion(json, target)).kind as string).toBe(kind)
})
