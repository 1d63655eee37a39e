import { describe, expect, test } from 'bun:test'
import type { BackendCall } from '../../src/backends/backend.ts'
import { createDemoBackend } from '../../src/backends/demo.ts'
import { NoInstance, toInstance } from '../../src/backends/demo-json.ts'
import { toMatching } from '../../src/backends/demo-pattern.ts'
import { countTokens, toTokens } from '../../src/backends/demo-tokens.ts'
import { UpstreamError } from '../../src/error.ts'
import { DEFAULT_DEADLINES, DEFAULT_OPTIONS } from '../../src/store/types.ts'
import type { AnswerEvent } from '../../src/wire/chat.ts'
import type { ChatRequest } from '../../src/wire/request.ts'

const demo = createDemoBackend()

const toCall = (body: Partial<ChatRequest>, more: { paceMs?: number; signal?: AbortSignal } = {}): BackendCall => ({
  body: { model: 'tollgate/demo', messages: [{ role: 'user', content: 'Say hello, please.' }], ...body },
  target: {
    model: 'tollgate/demo',
    upstream: {
      id: 'demo',
      dialect: 'demo',
      baseUrl: null,
      local: true,
      deadlines: DEFAULT_DEADLINES,
      options: { ...DEFAULT_OPTIONS, pace_ms: more.paceMs ?? 0 },
      credential: null,
      notReady: null,
    },
    upstreamModel: 'demo',
    priority: 0,
    weight: 1,
    pricing: [],
    priceId: null,
    maxOutputLength: 4096, contextLength: 8_192, features: [],
  },
  signal: more.signal ?? new AbortController().signal,
  deadlines: DEFAULT_DEADLINES,
  callId: '0123456789abcdef0123456789abcdef-1',
})

async function askWhole(body: Partial<ChatRequest>) {
  const answer = await demo.chat(toCall(body))
  if (answer.kind !== 'whole') throw new Error('expected a whole answer')
  return answer
}

async function openStream(body: Partial<ChatRequest>, more: Parameters<typeof toCall>[1] = {}) {
  const answer = await demo.chat(toCall({ ...body, stream: true }, more))
  if (answer.kind !== 'stream') throw new Error('expected a stream')
  return answer.events[Symbol.asyncIterator]()
}

async function readStream(body: Partial<ChatRequest>): Promise<AnswerEvent[]> {
  const iterator = await openStream(body)
  const events: AnswerEvent[] = []
  for (let next = await iterator.next(); !next.done; next = await iterator.next()) events.push(...next.value)
  return events
}

/** Puts a stream together again, as a client would. */
function join(events: AnswerEvent[]) {
  const choices = new Map<number, { content: string; arguments: string; id: string; finish: string | null }>()
  for (const event of events) {
    for (const { index, delta, finish_reason } of 'chunk' in event ? event.chunk.choices : []) {
      const choice = choices.get(index) ?? { content: '', arguments: '', id: '', finish: null }
      choices.set(index, choice)
      choice.content += delta.content ?? ''
      choice.id += delta.tool_calls?.[0]?.id ?? ''
      choice.arguments += delta.tool_calls?.[0]?.function.arguments ?? ''
      choice.finish = finish_reason ?? choice.finish
    }
  }
  const usage = events.flatMap((event) => ('usage' in event ? [event.usage] : []))
  return { choices: [...choices.values()], usage }
}

const WEATHER = {
  type: 'function' as const,
  function: {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
      required: ['city'],
    },
  },
}
const TREE = {
  type: 'object',
  properties: { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
  required: ['value', 'next'],
  additionalProperties: false,
}

describe('the demo model', () => {
  test('says what it is and what it was told, the same each time', async () => {
    const [once, again] = [await askWhole({}), await askWhole({})]
    expect(once).toEqual(again)
    expect(once.completion.choices[0]?.message.content).toContain("This is Tollgate's demo model.")
    expect(once.completion.choices[0]?.message.content).toEndWith('You wrote: Say hello, please.')
    expect(once.usage).toMatchObject({ prompt: 5, raw: { prompt_tokens: 5 } })
  })

  test.each<[string, Partial<ChatRequest>]>([
    ['plain text', {}],
    ['two choices', { n: 2 }],
    ['a cut', { max_tokens: 7 }],
    ['a stop sequence', { stop: ['think', 'It does'] }],
    ['a forced tool', { tools: [WEATHER], tool_choice: 'required' }],
    ['a schema', { response_format: { type: 'json_schema', json_schema: { name: 'tree', schema: TREE } } }],
    ['JSON mode', { response_format: { type: 'json_object' } }],
  ])('answers and costs the same whole and streamed: %s', async (_, body) => {
    const whole = await askWhole(body)
    const events = await readStream(body)
    const { choices, usage } = join(events)
    expect(events.at(-1)).toEqual({ done: true })
    expect(usage).toEqual([{ ...whole.usage }])
    expect(choices.map(({ content, arguments: args, finish }) => [content, args, finish])).toEqual(
      whole.completion.choices.map(({ message, finish_reason }) => [
        message.content ?? '',
        message.tool_calls?.[0]?.function.arguments ?? '',
        finish_reason,
      ]),
    )
  })

  test('streams the role first, then one token a chunk, then the finish in an empty delta', async () => {
    const events = await readStream({ max_tokens: 3 })
    const deltas = events.flatMap((event) => ('chunk' in event ? event.chunk.choices.map(({ delta }) => delta) : []))
    expect(deltas[0]).toEqual({ role: 'assistant', content: '', refusal: null })
    expect(deltas.slice(1)).toEqual([{ content: 'This' }, { content: ' is' }, { content: ' Tollgate' }, {}])
  })

  test.each<[string, Partial<ChatRequest>, string, number]>([
    ['max_completion_tokens', { max_completion_tokens: 2 }, 'length', 2],
    ['max_tokens', { max_tokens: 1 }, 'length', 1],
    ['a stop sequence', { stop: ' demo' }, 'stop', 5],
    ['the larger cap', { stop: ' demo', max_tokens: 5 }, 'stop', 5],
  ])('ends at %s', async (_, body, finish, written) => {
    const { completion, usage } = await askWhole(body)
    expect(completion.choices[0]?.finish_reason).toBe(finish as 'stop')
    expect(usage?.completion).toBe(written)
  })

  test.each<[string, NonNullable<ChatRequest['tool_choice']>]>([
    ['any tool', 'required'],
    ['this tool', { type: 'function', function: { name: 'weather' } }],
    [
      'one of those allowed',
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'weather' } }] },
      },
    ],
  ])('calls a tool when forced to call %s', async (_, tool_choice) => {
    const { completion } = await askWhole({ tools: [WEATHER], tool_choice })
    const [choice] = completion.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    expect(choice?.message.tool_calls).toEqual([
      {
        id: expect.stringMatching(/^call_[0-9a-f]{16}$/),
        type: 'function',
        function: { name: 'weather', arguments: '{"city":"demo","days":1}' },
      },
    ])
  })

  test('talks when it may choose', async () => {
    const { completion } = await askWhole({ tools: [WEATHER], tool_choice: 'auto' })
    expect(completion.choices[0]?.message.tool_calls).toBeUndefined()
  })

  test('refuses what it cannot do with a sentence, as an upstream would', async () => {
    const asked = askWhole({ tools: [WEATHER], tool_choice: { type: 'function', function: { name: 'other' } } })
    await expect(asked).rejects.toMatchObject({ kind: 'status', status: 400, retryable: false })
  })

  test('keeps its pace', async () => {
    const iterator = await openStream({}, { paceMs: 20 })
    const began = performance.now()
    for (let i = 0; i < 4; i += 1) await iterator.next()
    expect(performance.now() - began).toBeGreaterThan(55)
    await iterator.return?.()
  })

  test.each([0, 60_000])('stops at once when the client leaves, at a pace of %d ms', async (paceMs) => {
    const leave = new AbortController()
    const iterator = await openStream({}, { paceMs, signal: leave.signal })
    await iterator.next()
    const pending = iterator.next()
    leave.abort()
    const { value } = await pending
    expect(value).toEqual([{ failure: expect.any(UpstreamError) }])
    expect(value[0].failure.kind).toBe('aborted')
    expect(await iterator.next()).toEqual({ done: true, value: undefined })
    await expect(demo.chat(toCall({}, { signal: leave.signal }))).rejects.toMatchObject({ kind: 'aborted' })
  })

  test('can be left in the middle of a pause', async () => {
    const iterator = await openStream({}, { paceMs: 60_000 })
    await iterator.next()
    const pending = iterator.next()
    await iterator.return?.()
    expect(await pending).toEqual({ done: true, value: undefined })
  })

  test('without a pace still lets the loop turn between two tokens', async () => {
    let turns = 0
    const timer = setInterval(() => {
      turns += 1
    }, 0)
    await readStream({ messages: [{ role: 'user', content: 'word '.repeat(5_000) }] })
    clearInterval(timer)
    expect(turns).toBeGreaterThan(0)
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
  ])('are the text again, and counted without being built: %j', (text) => {
    expect(toTokens(text).join('')).toBe(text)
    expect(toTokens(text)).toHaveLength(countTokens(text))
    expect(toTokens(text).every((token) => token.isWellFormed() || !text.isWellFormed())).toBe(true)
  })

  test('of 16 MB are counted in linear time', () => {
    const began = performance.now()
    expect(countTokens('a'.repeat(16_000_000))).toBe(2_000_000)
    expect(performance.now() - began).toBeLessThan(1_500)
  })
})

describe('values for a schema', () => {
  test.each<[string, unknown, unknown]>([
    ['const', { const: { a: 1 } }, { a: 1 }],
    ['enum', { type: 'string', enum: ['red', 'blue'] }, 'red'],
    ['a nullable type', { type: ['null', 'integer'] }, 1],
    ['integer bounds', { type: 'integer', minimum: 5, maximum: 6 }, 5],
    ['exclusive bounds', { type: 'number', exclusiveMinimum: 1, exclusiveMaximum: 2 }, 1.5],
    ['multipleOf', { type: 'integer', multipleOf: 7, minimum: 8 }, 14],
    ['negative bounds', { type: 'integer', maximum: -3 }, -3],
    ['minLength', { type: 'string', minLength: 6 }, 'demo..'],
    ['maxLength', { type: 'string', maxLength: 2 }, 'de'],
    ['a date', { type: 'string', format: 'date' }, '2026-01-01'],
    ['a pattern', { type: 'string', pattern: '^[A-Z]{2}-\\d{4}$' }, 'AA-0000'],
    ['minItems', { type: 'array', items: { type: 'integer' }, minItems: 3 }, [1, 2, 3]],
    ['unique texts', { type: 'array', items: { type: 'string' }, minItems: 2, uniqueItems: true }, ['demo', '2 demo']],
    ['a tuple', { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], minItems: 2 }, ['demo', 2]],
    ['no items', { type: 'array', maxItems: 0, items: { type: 'string' } }, []],
    ['anyOf', { anyOf: [{ type: 'boolean' }, { type: 'null' }] }, true],
    [
      'anyOf beside properties',
      { type: 'object', properties: { a: { const: 1 } }, anyOf: [{ required: ['a'] }] },
      { a: 1 },
    ],
    [
      'allOf',
      { allOf: [{ type: 'object', properties: { a: { const: 1 } } }, { properties: { b: { const: 2 } } }] },
      { a: 1, b: 2 },
    ],
    ['$defs', { $ref: '#/$defs/x', $defs: { x: { type: 'integer', minimum: 2 } } }, 2],
    ['a required name without a schema', { type: 'object', required: ['x'] }, { x: 'demo' }],
    [
      'an unusual name',
      { type: 'object', properties: JSON.parse('{"__proto__":{"const":1}}') },
      JSON.parse('{"__proto__":1}'),
    ],
    ['a list that refers to itself', TREE, { value: 1, next: { value: 1, next: { value: 1, next: null } } }],
    [
      'an endless optional',
      {
        type: 'object',
        properties: { self: { $ref: '#/$defs/e' } },
        $defs: { e: { type: 'object', required: ['e'], properties: { e: { $ref: '#/$defs/e' } } } },
      },
      {},
    ],
    [
      'a branch that never ends',
      {
        $defs: { e: { type: 'object', required: ['e'], properties: { e: { $ref: '#/$defs/e' } } } },
        anyOf: [{ $ref: '#/$defs/e' }, { type: 'integer' }],
      },
      1,
    ],
  ])('meet %s', (_, schema, value) => {
    expect(toInstance(schema)).toEqual(value)
  })

  const double = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [
      `d${i}`,
      {
        type: 'object',
        required: ['a', 'b'],
        properties: { a: { $ref: `#/$defs/d${i + 1}` }, b: { $ref: `#/$defs/d${i + 1}` } },
      },
    ]),
  )
  const nested = (depth: number) =>
    JSON.parse(`${'{"type":"object","required":["a"],"properties":{"a":'.repeat(depth)}{}${'}}'.repeat(depth)}`)
  test.each<[string, unknown]>([
    ['endless', { type: 'object', required: ['a'], properties: { a: { $ref: '#' } } }],
    ['a reference to itself', { $ref: '#' }],
    ['a choice of itself', { title: 'x', type: 'object', anyOf: [{ $ref: '#' }] }],
    ['exponentially large', { $ref: '#/$defs/d0', $defs: { ...double, d30: { type: 'integer' } } }],
    ['a list of a billion', { type: 'array', items: {}, minItems: 1e9 }],
    ['a reference to nothing', { $ref: '#/$defs/none' }],
    ['a reference that is no URI', { $ref: '#/%' }],
    ['nothing at all', { type: 'object', required: ['a'], properties: { a: false } }],
    ['nested 20,000 times', nested(20_000)],
  ])('are refused in time where the schema is %s', (_, schema) => {
    const began = performance.now()
    expect(() => toInstance(schema)).toThrow(NoInstance)
    expect(performance.now() - began).toBeLessThan(1_000)
  })

  test.each([
    ['^\\+?[1-9]\\d{1,14}$', '10'],
    ['^(foo|bar)-[a-z_]+$', 'foo-a'],
    ['^[0-9a-f]{8}(?:-[0-9a-f]{4}){2}$', '00000000-0000-0000'],
    ['^#[\\dA-F]{6}$', '#000000'],
    ['(?=x)y', null],
    ['\\p{L}+', null],
    ['(a{9999}){9999}', null],
  ])('follow the pattern %s', (pattern, text) => {
    expect(toMatching(pattern)).toBe(text)
    if (text !== null) expect(text).toMatch(new RegExp(pattern))
  })

  test('grow a pattern to the least length', () => {
    expect(toMatching('^[a-z]+$', 5)).toBe('aaaaa')
  })
})
