/** Structured output from a model without it, as clients and the ledger see it. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { startGateway, usageOf } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import type { Script } from '../support/upstream.ts'
import { streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const SCHEMA = {
  type: 'object',
  properties: { age: { type: 'integer' } },
  required: ['age'],
  additionalProperties: false,
}
const toFormat = (strict: boolean) => ({ type: 'json_schema', json_schema: { name: 'person', schema: SCHEMA, strict } })

let rows = 0
const gateway = forAllTests(startGateway)
beforeEach(async () => {
  rows = await gateway.app.count()
})

/** One text per call, the last one repeated. Returns the number of calls. */
function script(...texts: string[]): () => number {
  let calls = 0
  gateway.upstream.script(() => wholeAnswer({ tokens: [texts[Math.min(calls++, texts.length - 1)] ?? ''] }))
  return () => calls
}

const lastRow = async () => (await gateway.app.settled(rows + 1)).at(-1)

/** Returns a stream's data and its text. */
function read(stream: string) {
  const frames = stream.split('\n\n').flatMap((frame) => (frame.startsWith('data: ') ? [frame.slice(6)] : []))
  const chunks = frames.filter((frame) => frame !== '[DONE]').map((frame) => JSON.parse(frame))
  return { last: frames.at(-1), chunks, text: chunks.map((chunk) => chunk.choices?.[0]?.delta?.content ?? '').join('') }
}

describe('a response that is valid at the second try is delivered clean, and both calls are paid for', () => {
  test('whole', async () => {
    const calls = script('{"age":"three"}', 'Sorry!\n```json\n{"age":3,}\n```')
    const response = await gateway.chat({ response_format: toFormat(true) })
    const answer = JSON.parse(await response.text())
    expect(calls()).toBe(2)
    expect(answer.choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: '{"age":3}', refusal: null, annotations: [] },
        finish_reason: 'stop',
        logprobs: null,
      },
    ])
    expect(answer.usage).toEqual(usageOf(20, 2))
    expect(response.headers.get('x-tollgate-schema')).toBeNull()
    expect(await lastRow()).toMatchObject({ status: 'ok', prompt_tokens: 20, completion_tokens: 2, attempts: 2 })
  })

  test('streamed', async () => {
    const calls = script('{"age":"three"}', 'Sorry!\n```json\n{"age":3,}\n```')
    const response = await gateway.chat({
      response_format: toFormat(true),
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(response.headers.get('content-type')).toStartWith('text/event-stream')
    const { text, last, chunks } = read(await response.text())
    expect(calls()).toBe(2)
    expect({ text, last }).toEqual({ text: '{"age":3}', last: '[DONE]' })
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: usageOf(20, 2) })
    expect(await lastRow()).toMatchObject({ status: 'ok', prompt_tokens: 20, completion_tokens: 2, attempts: 2 })
  })
})

test.each([false, true])(
  'a strict schema that is not met is an error with its own status (streaming: %p)',
  async (stream) => {
    const calls = script('{"age":"three"}')
    const response = await gateway.chat({ response_format: toFormat(true), stream })
    expect(response.status).toBe(502)
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(JSON.parse(await response.text()).error).toMatchObject({
      type: 'server_error',
      code: 'schema_not_met',
      param: 'response_format',
    })
    expect(calls()).toBe(3)
    expect(await lastRow()).toMatchObject({
      status: 'failed',
      error_code: 'schema_not_met',
      prompt_tokens: 30,
      attempts: 3,
    })
  },
)

test.each([false, true])("one that isn't strict is delivered unchanged, and marked (streaming: %p)", async (stream) => {
  script('{"age":"three"}')
  const response = await gateway.chat({ response_format: toFormat(false), stream })
  expect(response.status).toBe(200)
  expect(response.headers.get('x-tollgate-schema')).toBe('unmet')
  const body = await response.text()
  const text = stream ? read(body).text : JSON.parse(body).choices[0].message.content
  expect(text).toBe('{"age":"three"}')
  expect(await lastRow()).toMatchObject({ status: 'ok', error_code: 'schema_not_met', attempts: 3 })
})

describe('a response of a hosted model with native schemas is delivered unchanged', () => {
  const said: [text: string, format: object, isMarked: boolean][] = [
    ['{"age":3}', toFormat(true), false],
    ['{"age":"three"}', toFormat(true), true],
    ['```json\n{"age":3}\n```', toFormat(true), true],
    ['{"age":"three"}', toFormat(false), false],
    ['', toFormat(true), true],
  ]
  test.each(said)('%j to %j; marked as unmet: %p', async (text, response_format, isMarked) => {
    const answer = { tokens: text.split(/(?<=:)/) }
    for (const stream of [false, true]) {
      const before = await gateway.app.count()
      const begun = Promise.withResolvers<void>()
      const { steps } = streamAnswer(answer)
      const [role = '', first = '', ...rest] = steps
      gateway.upstream.script(
        stream
          ? { ...streamAnswer(answer), steps: [role, first, { until: begun.promise }, ...rest] }
          : wholeAnswer(answer),
      )
      const response = await gateway.chat({ model: 'acme/typed', response_format, stream })
      begun.resolve()
      const body = await response.text()
      expect(stream ? read(body).text : JSON.parse(body).choices[0].message.content).toBe(text)
      // A stream's header is sent before its end is known.
      expect(response.headers.get('x-tollgate-schema')).toBe(isMarked && !stream ? 'unmet' : null)
      const code = isMarked ? 'schema_not_met' : null
      expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({
        status: 'ok',
        error_code: code,
        attempts: 1,
      })
    }
  })

  const exempt: [string, Script][] = [
    ['cut off', wholeAnswer({ tokens: ['{"age"'], finish: 'length' })],
    ['a stream that is cut off', streamAnswer({ tokens: ['{"age"'], finish: 'length' })],
  ]
  test.each(exempt)("and isn't checked if it is %s", async (what, answer) => {
    gateway.upstream.script(answer)
    const stream = what.includes('stream')
    const response = await gateway.chat({ model: 'acme/typed', response_format: toFormat(true), stream })
    await response.text()
    expect(await lastRow()).toMatchObject({ status: 'ok', error_code: null })
  })
})

test('a local server with native schemas is checked, and called again for invalid output', async () => {
  const calls = script('{"age":"three"}', '{"age":3}')
  const response = await gateway.chat({ model: 'local/typed', response_format: toFormat(true) })
  expect(JSON.parse(await response.text()).choices[0].message.content).toBe('{"age":3}')
  expect(calls()).toBe(2)
  expect(gateway.upstream.requests.at(-1)?.json?.response_format).toEqual(toFormat(true))
})

test('each of several choices is checked separately', async () => {
  const calls = script('{"age":1}', 'none', '{"age":2}')
  const response = await gateway.chat({ response_format: toFormat(true), n: 2 })
  const { choices } = JSON.parse(await response.text())
  expect(calls()).toBe(3)
  expect(choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1])
  const ages = choices.map((choice: { message: { content: string } }) => JSON.parse(choice.message.content).age)
  expect(ages.sort()).toEqual([1, 2])
})

test('a schema that only the compiler finds invalid is rejected, and no upstream gets the request', async () => {
  const calls = script('{}')
  const json_schema = { name: 'person', schema: { properties: { age: { nullable: true } } } }
  const response = await gateway.chat({ response_format: { type: 'json_schema', json_schema } })
  expect(response.status).toBe(400)
  expect(JSON.parse(await response.text()).error).toEqual({
    message: 'Invalid schema for response_format \'person\': "nullable" cannot be used without "type".',
    type: 'invalid_request_error',
    param: 'response_format',
    code: null,
  })
  expect(calls()).toBe(0)
  expect(await lastRow()).toMatchObject({ status: 'failed', http_status: 400, cost_nano_usd: 0 })
})
