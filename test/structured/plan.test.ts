/** Handling of `response_format` for a target, its instructions as text, and parsing a model's response. */
import { describe, expect, test } from 'bun:test'
import type { DialectName } from '../../src/domain/dialects.ts'
import type { Feature, RouteSettings } from '../../src/domain/models.ts'
import type { CanonicalRequest, Message } from '../../src/domain/request.ts'
import { compile, FORMATS, findJson } from '../../src/gateway/json-check.ts'
import { toCorrecting, toInstructed, toInstruction, toPlan, toReminded } from '../../src/gateway/structured-plan.ts'

const PERSON = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
const TOOL = { type: 'function', function: { name: 'look' } } as const
const OBJECT = { type: 'json_object' } as const
const toFormat = (schema: Record<string, unknown> = PERSON, strict = true) =>
  ({ type: 'json_schema', json_schema: { name: 'person', schema, strict } }) as const

const toBody = (fields: Partial<CanonicalRequest> = {}): CanonicalRequest => ({
  model: 'acme/large',
  messages: [{ role: 'user', content: 'Who is it?' }],
  ...fields,
})
const saying = (content: Message['content']) => toBody({ messages: [{ role: 'user', content } as Message] })

const on = (features: Feature[], dialect: DialectName = 'openai', options: RouteSettings = {}, local = false) => ({
  ...{ features, options, upstream: { dialect, local } },
})
const onEngine = (...features: Feature[]) => on(features, 'openai', {}, true)

describe('on a local server', () => {
  test.each<[string, Partial<CanonicalRequest>]>([
    ['a schema', { response_format: toFormat() }],
    ['an object', { response_format: OBJECT }],
  ])('%s goes as it is, in no words, and is checked', (_, fields) => {
    const body = toBody(fields)
    const plan = toPlan(body, onEngine('tools'))
    if (plan.kind !== 'enforce') throw new Error(plan.kind)
    expect(toInstructed(body, plan.wanted, onEngine('tools'))).toEqual(body)
  })

  test('a model with tools gets the schema as text, since a grammar would prevent tool calls', () => {
    const body = toBody({ response_format: toFormat(), tools: [TOOL] })
    const plan = toPlan(body, onEngine('tools'))
    expect(plan).toMatchObject({ kind: 'enforce', wanted: { isHeld: false } })
  })

  test.each<[string, DialectName, Partial<CanonicalRequest>]>([
    ['alone', 'openai', {}],
    ['beside tools', 'openai', { tools: [TOOL] }],
    ['of Ollama', 'ollama', {}],
    ['that speaks Messages', 'anthropic', {}],
  ])(
    'a model that lists structured output is sent the schema as it is, and its answer is checked: %s',
    (_, dialect, fields) => {
      const target = on(['tools', 'structured_outputs'], dialect, {}, true)
      const body = toBody({ response_format: toFormat(PERSON, false), ...fields })
      const plan = toPlan(body, target)
      if (plan.kind !== 'enforce') throw new Error(plan.kind)
      expect(toInstructed(body, plan.wanted, target)).toEqual(body)
    },
  )

  test('a JSON mode that its model lists is passed, without a reminder', () => {
    expect(toPlan(toBody({ response_format: OBJECT }), onEngine('json_mode'))).toEqual({ kind: 'pass' })
  })
})

describe('the plan for a response_format', () => {
  const KNOWS: Feature[] = ['json_mode', 'structured_outputs', 'reasoning']
  const plans: [string, CanonicalRequest, Feature[], string][] = [
    ['none', toBody(), [], 'pass'],
    ['null', toBody({ response_format: null }), [], 'pass'],
    ['text', toBody({ response_format: { type: 'text' } }), [], 'pass'],
    ['a strict schema on a target that keeps to it', toBody({ response_format: toFormat() }), KNOWS, 'verify'],
    ['one that is not strict', toBody({ response_format: toFormat(PERSON, false) }), KNOWS, 'pass'],
    ['a schema on one with a JSON mode', toBody({ response_format: toFormat() }), ['json_mode'], 'enforce'],
    ['a schema on one with nothing', toBody({ response_format: toFormat() }), ['tools'], 'enforce'],
    [
      'an object on one with a JSON mode',
      { ...saying('As JSON, please'), response_format: OBJECT },
      ['json_mode'],
      'pass',
    ],
    ['the same, unspoken of', toBody({ response_format: OBJECT }), ['json_mode'], 'remind'],
    [
      'the same, spoken of in a part',
      { ...saying([{ type: 'text', text: 'json' }]), response_format: OBJECT },
      ['json_mode'],
      'pass',
    ],
    [
      'the same beside a part that is not known, whatever it holds',
      { ...saying([{ type: 'x', text: { toString: 1 } } as never]), response_format: OBJECT },
      ['json_mode'],
      'remind',
    ],
    [
      'an object on one that knows schemas only',
      toBody({ response_format: OBJECT }),
      ['structured_outputs'],
      'enforce',
    ],
    ['an object on one with nothing', toBody({ response_format: OBJECT }), [], 'enforce'],
  ]
  test.each(plans)('%s', (_, body, features, kind) => {
    expect(toPlan(body, on(features)).kind).toBe(kind as 'pass')
  })

  const search = { web_search_options: {} }
  const beside: [string, Partial<CanonicalRequest>, RouteSettings, string][] = [
    ['that thinks by a level, beside tools', { tools: [TOOL] }, {}, 'pass'],
    ['before Gemini 3, alone', {}, { thinking: 'budget' }, 'pass'],
    ['before Gemini 3, beside tools', { tools: [TOOL] }, { thinking: 'budget' }, 'enforce'],
    [
      'before Gemini 3, beside tools that it may not call',
      { tools: [TOOL], tool_choice: 'none' },
      { thinking: 'budget' },
      'enforce',
    ],
    ['before Gemini 3, beside a search', search, { thinking: 'budget' }, 'enforce'],
    ['that does not think, beside functions', { functions: [{ name: 'look' }] }, { thinking: 'none' }, 'enforce'],
  ]
  test.each(beside)('JSON on a Gemini model %s', (_, fields, options, kind) => {
    const target = on(KNOWS, 'gemini', options)
    for (const response_format of [toFormat(), OBJECT]) {
      const body = { ...saying('As JSON, please'), response_format, ...fields }
      const plan = toPlan(body, target)
      expect(plan.kind).toBe((kind === 'pass' && response_format !== OBJECT ? 'verify' : kind) as 'pass')
      if (plan.kind === 'enforce') expect(toInstructed(body, plan.wanted, target)).not.toHaveProperty('response_format')
    }
    expect(toPlan(toBody(fields), target).kind).toBe('pass')
  })

  const BOUNDED = { type: 'object', properties: { age: { type: 'integer', minimum: 0 } }, required: ['age'] }
  const MAP = { type: 'object', additionalProperties: { type: 'number' } }
  const partly: [string, Record<string, unknown>, Feature[], unknown][] = [
    ['all of it', PERSON, ['structured_outputs'], { kind: 'verify', schema: PERSON }],
    ['a part of it, which is sent', BOUNDED, ['structured_outputs'], { kind: 'enforce', wanted: { isHeld: true } }],
    ['nothing of it', MAP, ['structured_outputs'], { kind: 'enforce', wanted: { isHeld: false } }],
    ['no schema at all', BOUNDED, [], { kind: 'enforce', wanted: { isHeld: false } }],
  ]
  test.each(partly)('a schema where an Anthropic model is held to %s', (_, schema, features, plan) => {
    const body = toBody({ response_format: toFormat(schema), stream: true })
    const made = toPlan(body, on(features, 'anthropic'))
    expect(made).toMatchObject(plan as object)
    if (made.kind !== 'enforce') return
    const sent = toInstructed(body, made.wanted, on(features, 'anthropic'))
    const isSent = made.wanted.isHeld
    expect([sent.response_format !== undefined, sent.messages === body.messages]).toEqual([isSent, isSent])
    expect(sent.stream).toBeUndefined()
  })

  test('an object on an Anthropic model, which has no JSON mode, whatever the catalog says', () => {
    expect(toPlan(toBody({ response_format: OBJECT }), on(['json_mode'], 'anthropic')).kind).toBe('enforce')
  })
})

describe('the request to such a target', () => {
  const wanted = { name: 'person', description: 'Who it is', schema: PERSON, strict: true, isHeld: false }

  test('is complete with the schema as text, and the client’s own is unchanged', () => {
    const body = toBody({ response_format: toFormat(), stream: true, stream_options: { include_usage: true }, seed: 1 })
    const before = structuredClone(body)
    const sent = toInstructed(body, wanted, on([]))
    expect(Object.keys(sent).sort()).toEqual(['messages', 'model', 'seed'])
    expect(sent.messages.map(({ role }) => role)).toEqual(['system', 'user'])
    expect(sent.messages[0]?.content).toContain(JSON.stringify(PERSON))
    expect(sent.messages[0]?.content).toContain('"person" (Who it is)')
    expect(body).toEqual(before)
  })

  test.each(['system', 'developer'] as const)('has one %s message if the client sent one', (role) => {
    for (const content of ['Be kind.', [{ type: 'text' as const, text: 'Be kind.' }]]) {
      const body = toBody({ messages: [{ role, content }, ...toBody().messages] })
      const before = structuredClone(body)
      const sent = toInstructed(body, wanted, on([]))
      expect(sent.messages.map((message) => message.role)).toEqual([role, 'user'])
      expect(JSON.stringify(sent.messages[0])).toContain('Be kind.')
      expect(JSON.stringify(sent.messages[0])).toContain('JSON Schema')
      expect(body).toEqual(before)
    }
  })

  const tools: CanonicalRequest['tools'] = [{ type: 'function', function: { name: 'look' } }]
  const helped: [string, Partial<CanonicalRequest>, Record<string, unknown> | null, Feature[], boolean][] = [
    ['for an object', {}, PERSON, ['json_mode'], true],
    ['for a schema that has properties', {}, { properties: {} }, ['json_mode'], true],
    ['not without one', {}, PERSON, [], false],
    ['not for a list', {}, { type: 'array' }, ['json_mode'], false],
    ['not beside tools', { tools }, PERSON, ['json_mode'], false],
    ['but beside tools that it may not call', { tools, tool_choice: 'none' }, PERSON, ['json_mode'], true],
  ]
  test.each(helped)('uses a JSON mode %s', (_, fields, schema, features, yes) => {
    const sent = toInstructed(toBody(fields), { ...wanted, schema }, on(features))
    expect(sent.response_format).toEqual(yes ? OBJECT : undefined)
  })

  test('does not prevent a model from calling tools', () => {
    expect(toInstruction(wanted, true)).toStartWith('You may call tools as usual.')
    expect(toInstruction({ ...wanted, schema: null }, false)).toStartWith('Your whole answer must be one JSON object')
  })

  test('mentions JSON if only the word is missing, and still streams', () => {
    const body = toBody({ response_format: OBJECT, stream: true })
    const sent = toReminded(body)
    expect(sent).toMatchObject({ response_format: OBJECT, stream: true })
    expect(toPlan(sent, on(['json_mode'])).kind).toBe('pass')
  })

  test('shows a model its invalid response, truncated', () => {
    const { messages } = toCorrecting(toBody(), 'x'.repeat(100_000), '/name must be string')
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
    expect(messages[1]?.content?.length).toBe(32_000)
    expect(messages[2]?.content).toContain('not accepted: /name must be string.')
    expect(toCorrecting(toBody(), ' \n', 'p').messages[1]?.content).toBe('(an empty answer)')
  })
})

describe('parsing a response', () => {
  const said: [string, string, string[]][] = [
    [
      'JSON alone is taken as it is',
      ' {"b": 1,\n "a": 12345678901234567890}\n',
      ['{"b": 1,\n "a": 12345678901234567890}'],
    ],
    ['keys keep their order', '{"2":1,"1":2}', ['{"2":1,"1":2}']],
    ['a byte order mark is dropped', '\uFEFF{"a":1}', ['{"a":1}']],
    ['a fence is taken off', '```json\n{"a":1}\n```', ['{"a":1}']],
    ['a fence without an end is, too', '```json\n{"a": "x"\n```', ['{"a": "x"}']],
    ['prose is taken off', 'Sure! Here it is:\n{"a":1}\nAnything else?', ['{"a":1}']],
    ['fences inside of texts stay', 'So:\n```\n{"a":"```js\\n{```"}\n```', ['{"a":"```js\\n{```"}']],
    ['brackets in prose are no JSON', '[Note] for {you}: {"a":1}', ['{"a":1}']],
    ['but a reference could be', 'See [1]. {"a":1}', ['[1]', '{"a":1}']],
    ['lists are JSON', 'ok: [{"a":1},{"a":2}]', ['[{"a":1},{"a":2}]']],
    ['two objects are two', '{"a":1}\n{"a":2}', ['{"a":1}', '{"a":2}']],
    ['JSON in a JSON string is unwrapped', '"{\\"a\\":1}"', ['"{\\"a\\":1}"', '{"a":1}']],
    ['a trailing comma is mended, and no part of it taken alone', '{"a":{"x":1},"b":2,}', ['{"a":{"x":1},"b":2}']],
    ['single quotes are mended', "{'a': 'it\\'s'}", ['{"a": "it\'s"}']],
    ['curly quotes are mended', '{“a”: “b”}', ['{"a": "b"}']],
    ['bare keys and Python words are mended', '{a: True, b: None}', ['{"a": true, "b": null}']],
    ['a raw line break in a text is mended', '{"a":"x\ny"}', ['{"a":"x\\ny"}']],
    ['comments are dropped', '{"a":1 /* one */}', ['{"a":1 }']],
    ['quotes in a text are mended', '{"a": "he said "hi" twice"}', ['{"a": "he said \\"hi\\" twice"}']],
    ['a cut one is closed', '{"a": {"x":1}, "b": [1,2', ['{"a": {"x":1}, "b": [1,2]}']],
    ['what is behind it is dropped', '{"a":1}}</s>', ['{"a":1}']],
    ['any script stays', '{"名":"é 🙂 \u2028"}', ['{"名":"é 🙂 \u2028"}']],
    ['words are no JSON', 'I would rather not.', []],
    ['nothing is no JSON', '', []],
    ['one bracket is no JSON', '{', []],
    ['endless nesting is no JSON', '['.repeat(20_000), []],
  ]
  test.each(said)('%s', (_, text, expected) => {
    const found = [...findJson(text)]
    expect(found.map((each) => each.text)).toEqual(expected)
    for (const { text: json, value } of found) expect(JSON.parse(json)).toEqual(value)
  })
})

describe('a schema', () => {
  const check = (schema: Record<string, unknown>, value: unknown) => {
    const compiled = compile(schema)
    return typeof compiled === 'function' ? compiled(value) : `no schema: ${compiled.problem}`
  }

  const checks: [string, Record<string, unknown>, unknown, string | null][] = [
    ['is met', PERSON, { name: 'Ann' }, null],
    ['names what is missing', PERSON, {}, "the top level must have required property 'name'"],
    ['names where', { items: PERSON }, [{ name: 1 }], '/0/name must be string'],
    [
      'names what may stand there',
      { enum: ['a', 'b'] },
      'c',
      'the top level must be equal to one of the allowed values (["a","b"])',
    ],
    [
      'names what may not',
      { additionalProperties: false },
      { x: 1 },
      'the top level must NOT have additional properties ("x")',
    ],
    [
      'may refer to its own parts, and to itself',
      {
        $defs: { node: { properties: { next: { $ref: '#/$defs/node' }, value: { type: 'integer' } } } },
        $ref: '#/$defs/node',
      },
      { next: { next: { value: 'x' } } },
      '/next/next/value must be integer',
    ],
    [
      'may be of an older draft',
      { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }] },
      [1],
      '/0 must be string',
    ],
    [
      'may hold unknown keywords and formats',
      { 'x-own': 1, id: 'person', example: {}, format: 'unheard-of' },
      'x',
      null,
    ],
    ['checks formats', { format: 'date' }, '2026-13-01', 'the top level must match format "date"'],
    ['takes patterns from other languages', { pattern: '^\\d\\-x$' }, '1-x', null],
    ['of no known type is none', { type: 'text' }, 1, 'no schema: /type must be equal to one of the allowed values'],
    ['with a wrong pattern is none', { pattern: '(' }, 1, 'no schema: Invalid regular expression: missing )'],
    [
      'refers to nothing on the network',
      { $ref: 'http://localhost/x' },
      1,
      "no schema: can't resolve reference http://localhost/x from id #",
    ],
    ['is never asynchronous', { $async: true, type: 'object' }, 1, 'no schema: $async is not supported'],
  ]
  test.each(checks)('%s', (_, schema, value, expected) => {
    const said = check(schema, value)
    if (expected?.startsWith('no schema')) expect(said).toStartWith(expected)
    else expect(said).toBe(expected)
  })

  test('gets a short error, however much is wrong', () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`key${i}`.repeat(50), 1]))
    expect(check({ additionalProperties: { type: 'string' } }, many)?.length).toBeLessThan(1_000)
  })

  test('with endless errors is abandoned', () => {
    const steps = Array.from({ length: 40 }, (_, i) => [`d${i}`, { anyOf: [ref(i + 1), ref(i + 1)] }])
    const schema = { ...ref(0), $defs: { ...Object.fromEntries(steps), d40: { type: 'string' } } }
    expect(() => check(schema, 1)).toThrow()
    expect(() => check({ $ref: '#' }, 1)).toThrow()
  })
  const ref = (i: number) => ({ $ref: `#/$defs/d${i}` })

  const formats: [string, string, string][] = [
    ['date', '2026-02-28', '2026-2-28'],
    ['time', '12:00:00Z', '25:00:00Z'],
    ['date-time', '2026-02-28T12:00:00.5+01:00', '2026-02-28'],
    ['duration', 'P1DT2H', 'P'],
    ['email', 'ann.b+c@example.com', 'ann'],
    ['hostname', 'a-b.example.com', '-a.example'],
    ['ipv4', '192.0.2.1', '192.0.2.256'],
    ['ipv6', '2001:db8::1', '2001:db8::1::2'],
    ['uuid', '01890a5d-ac96-774b-bcce-b302099a8057', '01890a5d'],
  ]
  test.each(formats)('knows the format %s', (name, right, wrong) => {
    const format = FORMATS[name]
    const matches = (text: string) => (typeof format === 'function' ? format(text) : format?.test(text))
    expect([matches(right), matches(wrong)]).toEqual([true, false])
  })
})
