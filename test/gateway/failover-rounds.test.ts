/**
 * Retry rounds if no upstream answers: after a pause, behind keep-alives, and not after a disconnect. Every call is
 * recorded.
 */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { toFrames } from '../support/frames.ts'
import { HELLO_COUNTED } from '../support/gateway.ts'
import { expectEnvelope } from '../support/scenario.ts'
import {
  answering,
  COUNTED,
  costAt,
  endWell,
  isOver,
  type Several,
  startSeveral,
} from '../support/several-upstreams.ts'
import type { Script, Seen } from '../support/upstream.ts'
import { type Behaviour, errorAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

const BEAT = ': keep-alive\n\n'
const SILENCE = 200

let several: Several
// A gateway per test: penalties would carry over.
beforeEach(async () => {
  several = await startSeveral({ config: { retries: 2, heartbeatMs: 50 } })
})
afterEach(() => endWell(several))

/** Fails in each of these ways, then answers. */
function failing(failures: Behaviour[], then: Script): Script {
  const left = [...failures]
  return (seen) => left.shift() ?? (typeof then === 'function' ? then(seen) : then)
}

const reset: Behaviour = { kind: 'reset' }
const answerCost = (name: 'first' | 'second') => costAt(name, COUNTED.prompt_tokens, COUNTED.completion_tokens)
const onlyRow = async () => (await several.app.settled(1))[0]

describe('if all of them fail', () => {
  test.each([false, true])('they are retried until one responds, stream: %p', async (stream) => {
    const { first, second, chat, calls } = several
    first.script(failing([errorAnswer(500), reset, errorAnswer(502)], answering('first')))
    second.script(failing([errorAnswer(503), errorAnswer(500)], answering('second')))
    const response = await chat({ stream })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-tollgate-upstream')).toBe('second')
    expect(response.headers.get('x-tollgate-attempts')).toBe('6')
    expect(await response.text()).toContain('second')
    const row = await onlyRow()
    expect(row).toMatchObject({ status: 'ok', upstream: 'second', attempts: 6, cost_nano_usd: answerCost('second') })
    const failed = { status: 'failed', cost_nano_usd: 0, prompt_tokens: 0 }
    expect(calls(row?.id ?? '')).toMatchObject([
      { number: 2, reason: 'fallback', upstream: 'second', ...failed, http_status: 503 },
      { number: 3, reason: 'retry', upstream: 'first', ...failed, error_code: 'connection' },
      { number: 4, reason: 'retry', upstream: 'second', ...failed, http_status: 500 },
      { number: 5, reason: 'retry', upstream: 'first', ...failed, http_status: 502 },
      { number: 6, reason: 'retry', upstream: 'second', status: 'ok', cost_nano_usd: answerCost('second') },
    ])
  })

  test('repeatedly, the client gets the last error, and pays nothing', async () => {
    const { first, second, chat, calls } = several
    for (const each of [first, second]) each.script(errorAnswer(500))
    const response = await chat()
    const text = await response.text()
    expect(response.status).toBe(502)
    expectEnvelope(response, text, { code: 'upstream_failed' })
    expect(text).toContain('`second` returned 500')
    const row = await onlyRow()
    expect(row).toMatchObject({ status: 'failed', attempts: 6, upstream: 'second', cost_nano_usd: 0, http_status: 502 })
    expect(calls(row?.id ?? '').map(({ reason }) => reason)).toEqual(['fallback', 'retry', 'retry', 'retry', 'retry'])
  })

  test('one with a smaller context is skipped, and the larger one is waited for', async () => {
    const { first, second, chat } = several
    first.script(failing([errorAnswer(500)], answering('first')))
    second.script({ kind: 'whole', status: 400, body: { error: { message: 'no', code: 'context_length_exceeded' } } })
    const response = await chat()
    expect(response.headers.get('x-tollgate-upstream')).toBe('first')
    expect(await onlyRow()).toMatchObject({ status: 'ok', attempts: 3, cost_nano_usd: answerCost('first') })
  })
})

describe('after heartbeats', () => {
  const slowly = (behaviour: Behaviour): Behaviour =>
    behaviour.kind === 'whole' || behaviour.kind === 'stream' ? { ...behaviour, delayMs: SILENCE } : behaviour

  test('a stream fails over to the next upstream, and through all of them again', async () => {
    const { first, second, chat } = several
    first.script(failing([slowly(errorAnswer(500))], slowly(errorAnswer(500))))
    second.script(failing([slowly(errorAnswer(500))], answering('second')))
    const response = await chat({ stream: true })
    const text = await response.text()
    expect(response.status).toBe(200)
    expect(text).toStartWith(BEAT)
    expect(toFrames(text.replaceAll(BEAT, ''))).toMatchObject({ done: true, content: 'this is second', error: null })
    expect(await onlyRow()).toMatchObject({ status: 'ok', attempts: 4, cost_nano_usd: answerCost('second') })
  })

  test('a stream without any response ends in an error frame', async () => {
    for (const each of [several.first, several.second]) each.script(slowly(errorAnswer(503)))
    const response = await several.chat({ stream: true })
    const text = await response.text()
    expect(response.status).toBe(200)
    expect(text).toStartWith(BEAT)
    expect(toFrames(text.replaceAll(BEAT, ''))).toMatchObject({ done: false, error: { code: 'server_is_overloaded' } })
    expect(await onlyRow()).toMatchObject({ status: 'failed', http_status: 200, attempts: 6, cost_nano_usd: 0 })
  })
})

describe('a client that disconnects', () => {
  test.each([
    [false, 499],
    [true, 200],
  ])('in the pause between two rounds ends the request, stream: %p', async (stream, httpStatus) => {
    const { first, chat } = several
    // A pause that the upstream requests.
    first.script(errorAnswer(429, 'slow down', { 'retry-after': '8' }))
    const client = new AbortController()
    const answered = chat({ model: 'acme/only', stream }, { signal: client.signal })
    const asked = answered.then((response) => response.text())
    await first.waitFor((all) => all.length === 1 && isOver(all), 'the first call')
    // A stream has its status with the first keep-alive.
    if (stream) await answered
    client.abort()
    await expect(asked).rejects.toThrow()
    const row = await onlyRow()
    expect(row).toMatchObject({ status: 'cut', error_code: 'client_closed_request', http_status: httpStatus })
    expect(row).toMatchObject({ attempts: 1, cost_nano_usd: 0, estimated: 0 })
    expect(first.requests).toHaveLength(1)
  })

  test.each([
    [false, 499],
    [true, 200],
  ])('while the second upstream is called ends that call, stream: %p', async (stream, httpStatus) => {
    const { first, second, chat, calls } = several
    first.script(errorAnswer(500))
    second.script({ kind: 'silent' })
    const client = new AbortController()
    const asked = chat({ stream }, { signal: client.signal }).then((response) => response.text())
    await second.waitFor((all) => all.length === 1, 'the second call')
    await Bun.sleep(100)
    client.abort()
    await expect(asked).rejects.toThrow()
    await second.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'its end')
    const row = await onlyRow()
    expect(row).toMatchObject({ status: 'cut', upstream: 'second', attempts: 2, http_status: httpStatus, estimated: 1 })
    // The first failed and is free; the second may bill its prompt.
    expect(row).toMatchObject({ prompt_tokens: HELLO_COUNTED, cost_nano_usd: costAt('second', HELLO_COUNTED, 0) })
    expect(calls(row?.id ?? '')).toMatchObject([{ status: 'cut', error_code: 'aborted', reason: 'fallback' }])
    expect([first.requests.length, second.requests.length]).toEqual([1, 1])
  })
})

describe('a request of many calls', () => {
  const numberOf = ({ headers }: Seen) => Number(headers['x-client-request-id']?.split('-')[1])

  test('whose first upstream fails at the third of four choices gets all from the second', async () => {
    const { first, second, chat, calls } = several
    const good = { ...wholeAnswer({ tokens: ['from the first'], usage: COUNTED }) }
    first.script((seen) => (numberOf(seen) === 3 ? { ...errorAnswer(500), delayMs: SILENCE } : good))
    const response = await chat({ n: 4, user: 'ann' })
    const answer: { choices: { message: { content: string } }[]; usage: unknown } = JSON.parse(await response.text())
    expect(answer.choices.map(({ message }) => message.content)).toEqual(Array(4).fill('this is second'))
    expect(response.headers.get('x-tollgate-attempts')).toBe('8')
    expect(second.requests.map(({ json }) => [json?.user, json?.n])).toEqual(Array(4).fill(['ann', undefined]))
    // The first wrote three choices, which it bills even if they are unused.
    const cost = 3 * answerCost('first') + 4 * answerCost('second')
    expect(answer.usage).toMatchObject({ prompt_tokens: 70, completion_tokens: 21, cost_nano_usd: cost })
    const row = await onlyRow()
    expect(row).toMatchObject({ status: 'ok', attempts: 8, upstream: 'second', user: 'ann', cost_nano_usd: cost })
    expect(calls(row?.id ?? '').map(({ upstream, reason, status }) => [upstream, reason, status])).toEqual([
      ['first', 'fan_out', 'ok'],
      ['first', 'fan_out', 'failed'],
      ['first', 'fan_out', 'ok'],
      ['second', 'fallback', 'ok'],
      ...Array(3).fill(['second', 'fan_out', 'ok']),
    ])
  })

  test('streamed, whose first upstream fails at the third of four before any token, does, too', async () => {
    const { first, second, chat, calls } = several
    const role = { kind: 'stream', steps: [toDelta({ role: 'assistant', content: '' })], end: 'hang' } as const
    first.script((seen) => (numberOf(seen) === 3 ? { ...errorAnswer(500), delayMs: 20 } : role))
    const response = await chat({ n: 4, stream: true, stream_options: { include_usage: true } })
    const { frames, done } = toFrames((await response.text()).replaceAll(BEAT, ''))
    expect(done).toBe(true)
    const said = frames.flatMap(({ choices }) => choices)
    for (const index of [0, 1, 2, 3]) {
      const own = said.filter((choice) => choice.index === index)
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe('this is second')
    }
    // Three calls of the first were abandoned midway: it may bill their prompts.
    const cost = 3 * costAt('first', HELLO_COUNTED, 0) + 4 * answerCost('second')
    expect(frames.at(-1)?.usage).toMatchObject({ completion_tokens: 12, cost_nano_usd: cost })
    const row = await onlyRow()
    expect(row).toMatchObject({ status: 'ok', attempts: 8, upstream: 'second', estimated: 1, cost_nano_usd: cost })
    expect(
      calls(row?.id ?? '').filter(({ upstream, status }) => upstream === 'first' && status === 'cut'),
    ).toHaveLength(2)
    expect(second.requests).toHaveLength(4)
  })

  test('whose first upstream fails at the second try of a schema gets its JSON from the second', async () => {
    const { first, second, chat, calls } = several
    first.script((seen) =>
      numberOf(seen) === 1 ? wholeAnswer({ tokens: ['{"age":"?"}'], usage: COUNTED }) : errorAnswer(500),
    )
    second.script(wholeAnswer({ tokens: ['{"age":3}'], usage: COUNTED }))
    const schema = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
    const response = await chat({
      response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema: closed(schema) } },
    })
    const text = await response.text()
    expect({ status: response.status, text }).toMatchObject({ status: 200 })
    expect(JSON.parse(text).choices[0].message.content).toBe('{"age":3}')
    const row = await onlyRow()
    const cost = answerCost('first') + answerCost('second')
    expect(row).toMatchObject({ status: 'ok', attempts: 3, upstream: 'second', cost_nano_usd: cost })
    expect(calls(row?.id ?? '')).toMatchObject([
      { upstream: 'first', reason: 'schema', status: 'failed', cost_nano_usd: 0 },
      { upstream: 'second', reason: 'fallback', status: 'ok' },
    ])
  })

  const closed = (schema: object) => ({ ...schema, additionalProperties: false })
})
