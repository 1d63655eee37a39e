/** The OpenAI dialect, as pure functions. Over real sockets it is in `test/chat`. */
import { describe, expect, test } from 'bun:test'
import { openai, toUsage } from '../../src/backends/dialects/openai.ts'
import { UpstreamError } from '../../src/error.ts'
import type { ChatRequest } from '../../src/wire/request.ts'
import { toTarget } from '../support/snapshot.ts'

const CREDENTIAL = 'our own secret'
const target = toTarget({ credential: CREDENTIAL })
const body: ChatRequest = { model: 'fast', messages: [{ role: 'user', content: 'Hi' }] }

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

  test('leaves the canonical body as it was', () => {
    const frozen = Object.freeze({ ...body, stream: true })
    openai.request(frozen, target)
    expect(frozen).toEqual({ ...body, stream: true })
  })
})

describe('usage', () => {
  const read = (usage: unknown) => {
    const found = toUsage(usage)
    return found && [found.prompt, found.cacheRead, found.cacheWrite, found.completion, found.reasoning]
  }
  const plain = { prompt_tokens: 10, completion_tokens: 5 }

  test.each([
    ['plain', plain, [10, 0, 0, 5, 0]],
    ['cached', { ...plain, prompt_tokens_details: { cached_tokens: 8 } }, [10, 8, 0, 5, 0]],
    ['written', { ...plain, prompt_tokens_details: { cached_tokens: 6, cache_write_tokens: 9 } }, [10, 6, 4, 5, 0]],
    ['reasoned', { ...plain, completion_tokens_details: { reasoning_tokens: 3 } }, [10, 0, 0, 5, 3]],
    ['overstated', { ...plain, completion_tokens_details: { reasoning_tokens: 99 } }, [10, 0, 0, 5, 5]],
    ['with nulls', { ...plain, prompt_tokens_details: null, completion_tokens_details: null }, [10, 0, 0, 5, 0]],
    ['fractional', { prompt_tokens: 9.6, completion_tokens: 5 }, [10, 0, 0, 5, 0]],
    ['negative parts', { ...plain, prompt_tokens_details: { cached_tokens: -1 } }, [10, 0, 0, 5, 0]],
    ['beyond all sense', { prompt_tokens: 1e300, completion_tokens: 5 }, null],
    ['not a number', { prompt_tokens: Number.NaN, completion_tokens: 5 }, null],
    ['half', { prompt_tokens: 10 }, null],
    ['negative', { prompt_tokens: -1, completion_tokens: 5 }, null],
    ['text', { prompt_tokens: '10', completion_tokens: 5 }, null],
    ['null', null, null],
    ['a list', [], null],
  ])('that is %s', (_, usage, expected) => {
    expect(read(usage)).toEqual(expected)
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
  ])('%s', (_, data, expected) => {
    expect(play(...data)).toEqual(expected)
  })
})

describe('a failure', () => {
  const fail = (status: number, text: string, headers: Record<string, string> = {}) =>
    openai.failure(status, text, new Headers(headers), target)

  test.each([
    ['the usual shape', '{"error":{"message":"m","code":"c","param":"p"}}', { message: 'm', code: 'c', param: 'p' }],
    ['a number for a code', '{"error":{"message":"m","code":400}}', { message: 'm', code: '400', param: null }],
    ['an error that is text', '{"error":"m"}', { message: 'm', code: null }],
    ['FastAPI', '{"detail":"m"}', { message: 'm', code: null }],
    ['HTML', '<h1>no</h1>', { message: 'gave no reason' }],
    ['nothing', '', { message: 'gave no reason' }],
    ['our credential', `{"error":{"message":"key ${CREDENTIAL}"}}`, { message: 'key …' }],
  ])('in %s', (_, text, expected) => {
    expect(fail(400, text)).toMatchObject({ kind: 'status', status: 400, ...expected })
  })

  test('never shows even a part of our credential, wherever its message is cut', () => {
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

test.each([
  ['a text', 'hello', 'broken'],
  ['a list', [], 'broken'],
  ['no choices', { choices: [] }, 'broken'],
  ['an error', { error: { message: 'm', code: 429 } }, 'status'],
])('a 200 with %s is a failure', (_, json, kind) => {
  expect(failureOf(() => openai.completion(json, target)).kind as string).toBe(kind)
})
