/** Structured output on targets without it, over scripted calls and the real checking thread. */
import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { PlannedCall } from '../../src/accounting/call.ts'
import { GatewayError, UpstreamError } from '../../src/domain/error.ts'
import type { Answer } from '../../src/domain/events.ts'
import type { Feature } from '../../src/domain/models.ts'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { createChecker } from '../../src/gateway/structured-checker.ts'
import { enforce } from '../../src/gateway/structured-output.ts'
import { textOf } from '../../src/gateway/structured-plan.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { toTarget } from '../support/snapshot.ts'
import { toExpected } from '../support/transcript.ts'

// Slow checks take longer under load.
setDefaultTimeout(60_000)

const SCHEMA = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
}
type Format = NonNullable<CanonicalRequest['response_format']> | null

const OBJECT: Format = { type: 'json_object' }
const toFormat = (strict: boolean, schema: Record<string, unknown> = SCHEMA): Format => ({
  type: 'json_schema',
  json_schema: { name: 'person', schema, strict },
})
const ANN = '{"name":"Ann","age":3}'
const NEARLY = '{"name":"Ann","age":"three"}'

type Scripted = string | { finish_reason?: string; message: Record<string, unknown> } | Error

function toAnswer(scripted: Exclude<Scripted, Error>): Answer {
  const fields = typeof scripted === 'string' ? { message: { content: scripted } } : scripted
  const choice = { index: 0, finish_reason: 'stop', logprobs: null, ...fields }
  const events = openai.whole({ choices: [choice] }, toExpected())
  return { events, rest: null, upstreamRequestId: 'up-1' }
}

/** Marks a response that doesn't match its schema. */
function unmet(scripted: Exclude<Scripted, Error>): Answer {
  const answer = toAnswer(scripted)
  return { ...answer, events: answer.events.toSpliced(-1, 0, { kind: 'unmet', choice: 0 }) }
}

interface Options {
  format?: Format
  features?: Feature[]
  body?: Partial<CanonicalRequest>
  /** Gets the number of each call before its response. */
  onCall?(call: number, controller: AbortController): void
}

type ChatCall = PlannedCall & { body: CanonicalRequest }

async function run(calls: Scripted[], { format = toFormat(true), features = [], body = {}, onCall }: Options = {}) {
  const asks: ChatCall[] = []
  const controller = new AbortController()
  const ask: ChatCall = {
    target: { ...toTarget(), features },
    passthrough: null,
    body: {
      model: 'acme/large',
      messages: [{ role: 'user', content: 'Who?' }],
      stream: true,
      ...body,
      response_format: format,
    },
    reason: 'fallback',
    signal: controller.signal,
  }
  const before = structuredClone(ask.body)
  const dispatch = enforce(
    async (given) => {
      asks.push(given as ChatCall)
      onCall?.(asks.length, controller)
      const scripted = calls[asks.length - 1]
      if (scripted === undefined) throw new Error('one call too many')
      if (scripted instanceof Error) throw scripted
      return toAnswer(scripted)
    },
    shared,
    'key',
  )
  const outcome = await dispatch(ask).then(
    (answer) => ({ answer, error: null }),
    (error: unknown) => ({ answer: null, error }),
  )
  expect(ask.body).toEqual(before)
  return { ...outcome, asks, ask }
}

const shared = createChecker()
afterAll(() => shared.close())

const contentOf = (answer: Answer | null) => answer && textOf(answer.events)

describe('a request passes unchanged', () => {
  const through: [string, Options][] = [
    ['without a format', { format: null }],
    ['that asks for text', { format: { type: 'text' } }],
    ['to a target that keeps to schemas', { features: ['structured_outputs'] }],
    [
      'to one with a JSON mode that it speaks of',
      { format: OBJECT, features: ['json_mode'], body: { messages: [{ role: 'user', content: 'JSON!' }] } },
    ],
  ]
  test.each(through)('%s', async (_, options) => {
    const { asks, ask, answer } = await run(['as it is'], options)
    expect(asks).toHaveLength(1)
    expect(asks[0]).toBe(ask)
    expect(contentOf(answer)).toBe('as it is')
  })

  test('except for a word that a JSON mode requires', async () => {
    const { asks, ask } = await run(['{}'], { format: OBJECT, features: ['json_mode'] })
    expect(asks[0]?.body).toEqual({
      ...ask.body,
      messages: [{ role: 'system', content: 'Answer with a JSON object.' }, ...ask.body.messages],
    })
  })
})

describe('a valid response', () => {
  const right: [string, string, string][] = [
    ['is delivered', ANN, ANN],
    ['is freed from what stands around it', `Sure:\n\`\`\`json\n${ANN}\n\`\`\`\nBye.`, ANN],
    ['is mended', "{'name': 'Ann', 'age': 3,}", '{"name": "Ann", "age": 3}'],
    ['is found among others', `Such as ${NEARLY}, so: ${ANN}`, ANN],
  ]
  test.each(right)('%s', async (_, written, delivered) => {
    const { asks, ask, answer } = await run([written])
    expect(asks).toHaveLength(1)
    expect(asks[0]).toMatchObject({ reason: 'fallback', signal: ask.signal, target: ask.target })
    expect(asks[0]?.body).not.toHaveProperty('stream')
    expect(asks[0]?.body).not.toHaveProperty('response_format')
    expect(answer).toEqual(toAnswer(delivered))
  })

  test('keeps its reasoning', async () => {
    const { answer } = await run([`<think>Hm, {"name":1}.</think>\n${ANN}`])
    expect(answer).toEqual(toAnswer({ message: { content: ANN, reasoning_content: 'Hm, {"name":1}.' } }))
  })

  test('may use a JSON mode', async () => {
    const { asks } = await run([ANN], { features: ['json_mode'] })
    expect(asks[0]?.body.response_format).toEqual({ type: 'json_object' })
  })

  test('is any object, if any object was requested', async () => {
    const { answer, asks } = await run(['Two things: [1, 2] and {"a": [1]}'], { format: OBJECT })
    expect(contentOf(answer)).toBe('{"a": [1]}')
    expect(asks[0]?.body).not.toHaveProperty('response_format')
  })
})

test('an invalid response is shown to the model with its error, twice at most', async () => {
  const { asks, answer } = await run(['I am not sure.', NEARLY, ANN])
  expect(contentOf(answer)).toBe(ANN)
  expect(answer).not.toHaveProperty('schema')
  expect(asks.map(({ reason }) => reason)).toEqual(['fallback', 'schema', 'schema'])
  const [first, second, third] = asks.map(({ body }) => body.messages)
  expect(first?.map(({ role }) => role)).toEqual(['system', 'user'])
  expect(second?.slice(0, 2)).toEqual(first ?? [])
  expect(second?.[2]).toEqual({ role: 'assistant', content: 'I am not sure.' })
  expect(second?.[3]?.content).toContain('not accepted: no JSON found.')
  expect(third?.slice(0, 2)).toEqual(first ?? [])
  expect(third?.[2]).toEqual({ role: 'assistant', content: NEARLY })
  expect(third?.[3]?.content).toContain('not accepted: /age must be integer.')
  expect(third).toHaveLength(4)
})

describe('a response that stays invalid', () => {
  const refused: [string, Scripted[], Format, string][] = [
    [
      'of a strict schema',
      [NEARLY, NEARLY, NEARLY],
      toFormat(true),
      'JSON matching schema `person`. Problem with its last response: /age must be integer.',
    ],
    ['that never was JSON', ['no', 'no', 'never'], toFormat(false), 'no JSON found.'],
    [
      'that never was an object',
      ['no', '[1]', '3'],
      OBJECT,
      'a JSON object. Problem with its last response: not a JSON object.',
    ],
  ]
  test.each(refused)('%s is rejected', async (_, calls, format, sentence) => {
    const { error, asks } = await run(calls, { format })
    expect(asks).toHaveLength(3)
    expect(error).toBeInstanceOf(GatewayError)
    expect(error).toMatchObject({
      kind: 'schema_not_met',
      status: 502,
      code: 'schema_not_met',
      param: 'response_format',
      headers: { 'x-should-retry': 'false' },
    })
    expect((error as GatewayError).message).toStartWith('Model `acme/large` did not return ')
    expect((error as GatewayError).message).toEndWith(sentence)
  })

  test("for a schema that isn't strict is the last JSON, and is marked", async () => {
    const { answer, asks } = await run(['{"name":1}', `\`\`\`\n${NEARLY}\n\`\`\``, 'I give up.'], {
      format: toFormat(false),
    })
    expect(asks).toHaveLength(3)
    expect(answer).toEqual(unmet(NEARLY))
  })

  const failures: [string, boolean, Error, 'unmet' | 'thrown'][] = [
    ['not strict, when a further call fails', false, new UpstreamError('status', 'busy', { status: 429 }), 'unmet'],
    ['strict, when a further call fails', true, new UpstreamError('status', 'busy', { status: 429 }), 'thrown'],
    ['not strict, when the client leaves', false, new UpstreamError('aborted', 'left'), 'thrown'],
    ['not strict, when the ledger fails', false, new GatewayError('ledger_unavailable', 'full'), 'thrown'],
  ]
  test.each(failures)('%s', async (_, strict, failure, how) => {
    const { answer, error } = await run([NEARLY, failure], { format: toFormat(strict) })
    if (how === 'thrown') expect(error).toBe(failure)
    else expect(answer).toEqual(unmet(NEARLY))
  })
})

describe('a response is delivered unchanged, at once', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }
  const untouched: [string, Scripted][] = [
    ['when it was cut short', { finish_reason: 'length', message: { content: '```json\n{"name":' } }],
    ['when it was filtered', { finish_reason: 'content_filter', message: { content: '' } }],
    ['when it is a refusal', { message: { refusal: 'I cannot.' } }],
    ['when it calls a tool', { finish_reason: 'tool_calls', message: { tool_calls: [call] } }],
    ['when it calls a function', { finish_reason: 'function_call', message: { function_call: call.function } }],
  ]
  test.each(untouched)('%s', async (_, scripted) => {
    const first = await run([scripted], { body: { tools: [{ type: 'function', function: { name: 'look' } }] } })
    expect(first.asks).toHaveLength(1)
    expect(first.answer).toEqual(toAnswer(scripted as string))
    const second = await run([NEARLY, scripted])
    expect(second.asks).toHaveLength(2)
    expect(second.answer).toEqual(toAnswer(scripted as string))
  })
})

test('no further call is made for a disconnected client', async () => {
  const { asks, error } = await run([NEARLY, ANN], { onCall: (_, controller) => controller.abort() })
  expect(asks).toHaveLength(1)
  expect(error).toMatchObject({ name: 'UpstreamError', kind: 'aborted' })
})

describe('an invalid schema is rejected before any call', () => {
  const wrong: [string, Record<string, unknown>, string][] = [
    ['of an unknown type', { type: 'text' }, '/type must be'],
    ['that refers elsewhere', { $ref: 'http://localhost/schema.json' }, "can't resolve reference"],
    ['with a broken pattern', { properties: { a: { pattern: '[' } } }, 'Invalid regular expression'],
  ]
  test.each(wrong)('%s', async (_, schema, part) => {
    const { asks, error } = await run([], { format: toFormat(false, schema) })
    expect(asks).toEqual([])
    expect(error).toMatchObject({ kind: 'invalid_request', status: 400, code: null, param: 'response_format' })
    expect((error as GatewayError).message).toStartWith(`Invalid schema for response_format 'person': `)
    expect((error as GatewayError).message).toContain(part)
  })
})

describe('a hostile schema', () => {
  /** Compares every pair of items. */
  const schema = { type: 'array', uniqueItems: true }
  const list = JSON.stringify(Array.from({ length: 60_000 }, (_, i) => ({ i })))

  test('costs only its own client, and only the check; a model with native structured output is trusted', async () => {
    const checker = createChecker({ judgeMs: 500 })
    let calls = 0
    const dispatch = enforce(
      async () => {
        calls++
        return toAnswer(list)
      },
      checker,
      'key',
    )
    const ask = (strict: boolean, of: Record<string, unknown>, target = toTarget()) =>
      dispatch({
        target,
        body: { model: 'm', messages: [{ role: 'user', content: 'Who?' }], response_format: toFormat(strict, of) },
        passthrough: null,
        reason: 'first',
        signal: new AbortController().signal,
      })
    const [loose, strict, harmless] = await Promise.allSettled([
      ask(false, schema),
      ask(true, schema),
      ask(true, { type: 'array' }),
    ])
    expect(loose).toMatchObject({ status: 'fulfilled', value: unmet(list) })
    expect(strict).toMatchObject({ status: 'rejected', reason: { kind: 'schema_not_met' } })
    expect(harmless).toMatchObject({ status: 'fulfilled', value: toAnswer(list) })
    const [local, hosted] = [toTarget({ local: true }), toTarget()]
    for (const target of [local, hosted].map((target) => ({
      ...target,
      features: ['structured_outputs'] as Feature[],
    })))
      expect(await ask(true, schema, target)).toEqual(toAnswer(list))
    expect(calls).toBe(5)
    checker.close()
  })
})
