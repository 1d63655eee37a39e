import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { countTokens, toTokens } from '../../src/demo/reply.ts'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Choice } from '../../src/formats/chat/answer.ts'
import { type Asked, askWhole, chunksOf, demo, join, nextOf, openStream, readStream, say, toCall } from './asking.ts'

const WEATHER = {
  type: 'function' as const,
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
const CODE = { type: 'custom' as const, custom: { name: 'code' } }
const BOTH = say('Ask the weather, then write code.')
const SCHEMA = { type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer' } } }

const REQUESTS: Record<string, Asked> = {
  'plain text': {},
  'two choices': { n: 2 },
  'a stop sequence': { stop: ['think', 'It does'] },
  'a cut': { max_tokens: 7 },
  'a stop at once': { stop: 'This' },
  'a forced tool': { tools: [WEATHER], tool_choice: 'required' },
  'parallel calls': { messages: BOTH, tools: [WEATHER, CODE] },
  'a legacy function': { functions: [WEATHER.function], function_call: { name: 'weather' } },
  'a schema': { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA } } },
  'JSON mode': { response_format: { type: 'json_object' } },
  reasoning: { reasoning_effort: 'high' },
  'a refusal': { messages: say('[refuse]') },
  'filtered text': { messages: say('[filter]') },
  logprobs: { logprobs: true, top_logprobs: 3 },
}

/** Counts the content of a response that a client can read. */
const countRead = (choices: readonly Choice[]) =>
  choices
    .flatMap(({ message: { content, refusal, reasoning, tool_calls, function_call } }) => [
      ...[content, refusal, reasoning, function_call?.arguments],
      ...(tool_calls ?? []).map((call) => (call.type === 'function' ? call.function.arguments : call.custom.input)),
    ])
    .reduce((sum, text) => sum + countTokens(text ?? ''), 0)

async function expectSame(body: Asked) {
  const whole = await askWhole(body)
  const events = await readStream(body)
  const { choices, usage } = join(events)
  expect(choices).toEqual(whole.choices)
  expect(usage).toEqual(whole.usage)
  expect(events.at(-1)).toEqual({ kind: 'done' })
  return whole
}

describe('the demo backend', () => {
  test.each(Object.entries(REQUESTS))('has the same content and cost whole and streamed: %s', async (_name, body) => {
    const { choices, usage } = await expectSame(body)
    expect(usage[0]?.completion).toBe(countRead(choices))
  })

  test('has the same content and cost whole and streamed, within the cap, for any combination', async () => {
    const combined = fc
      .tuple(fc.subarray(Object.values(REQUESTS)), fc.option(fc.integer({ min: 1, max: 60 }), { nil: undefined }))
      .map(([bodies, max_tokens]): Asked => ({ ...Object.assign({}, ...bodies), max_tokens }))
    await fc.assert(
      fc.asyncProperty(combined, async (body) => {
        const { choices, usage } = await expectSame(body)
        expect(choices).toHaveLength(body.n ?? 1)
        expect(usage[0]?.completion).toBeLessThanOrEqual((body.max_tokens ?? 4096) * (body.n ?? 1))
      }),
      { numRuns: 60 },
    )
  })

  test('streams the role first, then one token per chunk, then the finish in an empty delta', async () => {
    const events = await readStream({ max_tokens: 3 })
    const deltas = chunksOf(events).map(({ delta }) => delta)
    expect(deltas[0]).toEqual({ role: 'assistant', content: '', refusal: null })
    expect(deltas.slice(1)).toEqual([{ content: 'This' }, { content: ' is' }, { content: ' Tollgate' }, {}])
  })

  test('streams calls with indexes from 0, and ID, type, and name once', async () => {
    const events = await readStream({ messages: BOTH, tools: [WEATHER, CODE], max_tokens: 9 })
    const deltas = chunksOf(events).map(({ delta }) => delta)
    expect(deltas[0]).toEqual({ role: 'assistant', content: null, refusal: null })
    expect(deltas.slice(1, -1).flatMap(({ tool_calls }) => tool_calls)).toEqual([
      { index: 0, id: expect.any(String), type: 'function', function: { name: 'weather', arguments: '' } },
      ...['{"', 'city', '":"', 'demo', '"}'].map((text) => ({ index: 0, function: { arguments: text } })),
      { index: 1, id: expect.any(String), type: 'custom', custom: { name: 'code', input: '' } },
      { index: 1, custom: { input: 'demo' } },
    ])
  })

  test('alternates between the choices of a request', async () => {
    const events = await readStream({ n: 3, max_tokens: 2 })
    const order = chunksOf(events)
      .filter(({ delta }) => !delta.role)
      .map(({ index }) => index)
    expect(order).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2])
  })

  test('gives every call a unique ID, also across responses', async () => {
    const body: Asked = { messages: BOTH, tools: [WEATHER, CODE], n: 2 }
    const idsOf = async (callId: string) => {
      const { events } = await demo.call({ ...toCall(body), callId })
      return join(events).choices.flatMap(({ message }) => (message.tool_calls ?? []).map(({ id }) => id))
    }
    const ids = [...(await idsOf('a-1')), ...(await idsOf('b-1'))]
    expect(new Set(ids).size).toBe(8)
    for (const id of ids) expect(id).toMatch(/^call_[0-9a-f]{16}$/)
  })

  test('keeps its pace', async () => {
    const stream = await openStream({}, { paceMs: 20 })
    const began = performance.now()
    for (let i = 0; i < 4; i += 1) await nextOf(stream)
    expect(performance.now() - began).toBeGreaterThan(55)
    stream.close()
  })

  test.each([0, 60_000])('stops immediately when the client disconnects, at a pace of %d ms', async (paceMs) => {
    const leave = new AbortController()
    const stream = await openStream({}, { paceMs, signal: leave.signal })
    await nextOf(stream)
    const pending = nextOf(stream)
    leave.abort()
    expect(await pending).toEqual([{ kind: 'failure', error: expect.any(UpstreamError) }])
    expect(await nextOf(stream)).toBeNull()
    await expect(demo.call(toCall({}, { signal: leave.signal }))).rejects.toMatchObject({ kind: 'aborted' })
  })

  test('can be left during a pause', async () => {
    const stream = await openStream({}, { paceMs: 60_000 })
    await nextOf(stream)
    const pending = nextOf(stream)
    stream.close()
    expect(await pending).toBeNull()
  })

  test('lets the event loop run between two tokens without a pace', async () => {
    let turns = 0
    let next: NodeJS.Immediate
    const turn = () => {
      turns += 1
      next = setImmediate(turn)
    }
    next = setImmediate(turn)
    await readStream({ messages: say('word '.repeat(5_000)) })
    clearImmediate(next)
    expect(turns).toBeGreaterThan(100)
  })
})

describe('tokens of the demo model', () => {
  test.each([
    '',
    'hello',
    'a  b\n\tc',
    'naïve 日本語のテキスト 👩‍👩‍👧 ok',
    '\ud800 lone',
    'x'.repeat(1000),
    '!?!?!?!?',
    ' lead',
  ])('join to the text, and are counted without a list: %j', (text) => {
    expect(toTokens(text).join('')).toBe(text)
    expect(toTokens(text)).toHaveLength(countTokens(text))
    expect(toTokens(text).every((token) => token.isWellFormed() || !text.isWellFormed())).toBe(true)
  })

  test('of 16 MB are counted in linear time', () => {
    expect(countTokens('a'.repeat(16_000_000))).toBe(2_000_000)
  })
})
