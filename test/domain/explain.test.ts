/** Messages and codes for what a schema rejects, which never contradict TypeBox. */
import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { explain } from '../../src/domain/explain.ts'
import { RequestSchema } from '../../src/domain/request.ts'
import { createPicker } from '../support/random.ts'

const user = { role: 'user', content: 'hi' }
const request = (more: Record<string, unknown>) => ({ model: 'a/b', messages: [user], ...more })
const message = (content: unknown) => ({ model: 'a/b', messages: [content] })
const listing = "'system', 'developer', 'assistant', 'tool', and 'function'"

const scenarios: [string, unknown, string, string, string][] = [
  [
    'a missing model',
    { messages: [user] },
    'model',
    'missing_required_parameter',
    "Missing required parameter: 'model'.",
  ],
  [
    'missing messages',
    { model: 'a/b' },
    'messages',
    'missing_required_parameter',
    "Missing required parameter: 'messages'.",
  ],
  [
    'a message without role',
    message({ content: 'x' }),
    'messages[0].role',
    'missing_required_parameter',
    "Missing required parameter: 'messages[0].role'.",
  ],
  [
    'an unknown role',
    message({ role: 'boss', content: 'x' }),
    'messages[0].role',
    'invalid_value',
    `Invalid value: 'boss'. Supported values are: 'user', ${listing}.`,
  ],
  [
    'a role of the wrong type',
    message({ role: 5 }),
    'messages[0].role',
    'invalid_type',
    "Invalid type for 'messages[0].role': expected one of 'user', 'system', 'developer', 'assistant', 'tool', or 'function', but got an integer instead.",
  ],
  [
    'no messages',
    { model: 'a/b', messages: [] },
    'messages',
    'empty_array',
    "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
  ],
  [
    'content of the wrong type',
    message({ role: 'user', content: 1 }),
    'messages[0].content',
    'invalid_type',
    "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.",
  ],
  [
    'a part without its text',
    message({ role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'text' }] }),
    'messages[0].content[1].text',
    'missing_required_parameter',
    "Missing required parameter: 'messages[0].content[1].text'.",
  ],
  [
    'a part of an unknown type',
    message({ role: 'tool', tool_call_id: 'x', content: [{ type: 'input_audio' }] }),
    'messages[0].content[0].type',
    'invalid_value',
    "Invalid value: 'input_audio'. Supported values are: 'text' and 'image_url'.",
  ],
  [
    'a message that is no object',
    message('hi'),
    'messages[0]',
    'invalid_type',
    "Invalid type for 'messages[0]': expected an object, but got a string instead.",
  ],
  [
    'a temperature above its range',
    request({ temperature: 200 }),
    'temperature',
    'decimal_above_max_value',
    "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 200 instead.",
  ],
  [
    'a penalty below its range',
    request({ presence_penalty: -2.5 }),
    'presence_penalty',
    'decimal_below_min_value',
    "Invalid 'presence_penalty': decimal below minimum value. Expected a value >= -2, but got -2.5 instead.",
  ],
  [
    'a temperature of the wrong type',
    request({ temperature: '1' }),
    'temperature',
    'invalid_type',
    "Invalid type for 'temperature': expected a decimal, but got a string instead.",
  ],
  [
    'an n above its range',
    request({ n: 129 }),
    'n',
    'integer_above_max_value',
    "Invalid 'n': integer above maximum value. Expected a value <= 128, but got 129 instead.",
  ],
  [
    'an n below its range',
    request({ n: 0 }),
    'n',
    'integer_below_min_value',
    "Invalid 'n': integer below minimum value. Expected a value >= 1, but got 0 instead.",
  ],
  [
    'a fractional n',
    request({ n: 1.5 }),
    'n',
    'invalid_type',
    "Invalid type for 'n': expected an integer, but got a decimal number instead.",
  ],
  [
    'an unknown enum value',
    request({ reasoning_effort: 'lots' }),
    'reasoning_effort',
    'invalid_value',
    "Invalid value: 'lots'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'.",
  ],
  [
    'too many stops',
    request({ stop: Array(257).fill('a') }),
    'stop',
    'array_above_max_length',
    "Invalid 'stop': array too long. Expected an array with maximum length 256, but got an array with length 257 instead.",
  ],
  [
    'a stop of the wrong type',
    request({ stop: {} }),
    'stop',
    'invalid_type',
    "Invalid type for 'stop': expected one of a string or array of strings, but got an object instead.",
  ],
  [
    'a tool choice of the wrong type',
    request({ tool_choice: 1 }),
    'tool_choice',
    'invalid_type',
    "Invalid type for 'tool_choice': expected one of 'none', 'auto', 'required', or object, but got an integer instead.",
  ],
  [
    'an unknown tool choice',
    request({ tool_choice: 'any' }),
    'tool_choice',
    'invalid_value',
    "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
  ],
  [
    'a tool choice without a name',
    request({ tool_choice: { type: 'function', function: {} } }),
    'tool_choice.function.name',
    'missing_required_parameter',
    "Missing required parameter: 'tool_choice.function.name'.",
  ],
  [
    'a long identifier',
    request({ safety_identifier: 'x'.repeat(65) }),
    'safety_identifier',
    'string_above_max_length',
    "Invalid 'safety_identifier': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
  ],
  [
    'an empty model',
    { model: '', messages: [user] },
    'model',
    'string_below_min_length',
    "Invalid 'model': empty string. Expected a string with minimum length 1, but got an empty string instead.",
  ],
  [
    'a tool name of other characters',
    request({ tools: [{ type: 'function', function: { name: 'get.weather' } }] }),
    'tools[0].function.name',
    'invalid_value',
    "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', but got 'get.weather' instead.",
  ],
  ['a body that is no object', [], '', 'invalid_type', 'Invalid type: expected an object, but got an array instead.'],
]

describe('explain', () => {
  for (const [name, body, path, code, sentence] of scenarios) {
    test(`names the field, the code and the sentence of ${name}`, () => {
      expect(explain(RequestSchema, body)).toMatchObject([{ path, code, message: sentence }])
    })
  }

  test('takes null for an absent optional field, and not for a required one', () => {
    expect(explain(RequestSchema, request({ temperature: null, tools: null }))).toEqual([])
    expect(explain(RequestSchema, request({ model: null }))[0]?.code).toBe('invalid_type')
  })

  test('stops at the first problem unless all are requested', () => {
    const body = { model: 1, messages: [{ role: 'user' }], n: 0 }
    expect(explain(RequestSchema, body)).toHaveLength(1)
    expect(explain(RequestSchema, body, { all: true }).map((problem) => problem.path)).toEqual([
      'model',
      'messages[0].content',
      'n',
    ])
  })

  test("names unknown fields only if the schema forbids them, and quotes keys that aren't identifiers", () => {
    const Price = Type.Object({ prompt: Type.String({ pattern: '^[0-9]+$' }) }, { additionalProperties: false })
    const schema = Type.Object({ models: Type.Record(Type.String(), Type.Object({ pricing: Type.Array(Price) })) })
    const value = { models: { 'openai/gpt-4o-mini': { pricing: [{ prompt: 'x', prompts: '1' }], other: 1 } } }
    expect(explain(schema, value, { all: true })).toMatchObject([
      {
        path: 'models.openai/gpt-4o-mini.pricing[0].prompt',
        segments: ['models', 'openai/gpt-4o-mini', 'pricing', 0, 'prompt'],
        code: 'invalid_value',
      },
      { path: 'models.openai/gpt-4o-mini.pricing[0].prompts', code: 'unknown_parameter' },
    ])
  })

  test('shortens quoted values', () => {
    const [problem] = explain(RequestSchema, message({ role: '😀'.repeat(5_000) }))
    expect(problem?.message.length).toBeLessThan(300)
    expect(problem?.message.isWellFormed()).toBe(true)
  })
})

const FULL = {
  ...request({ temperature: 1, n: 2, stop: ['x'], logit_bias: { 1: 5 }, metadata: { a: 'b' }, modalities: ['text'] }),
  messages: [
    { role: 'system', content: [{ type: 'text', text: 'be brief' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'x' },
        { type: 'image_url', image_url: { url: 'u', detail: 'low' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c', content: 'ok' },
  ],
  tools: [
    { type: 'function', function: { name: 'f', parameters: { type: 'object' }, strict: true } },
    {
      type: 'custom',
      custom: { name: 'g', format: { type: 'grammar', grammar: { definition: 'd', syntax: 'lark' } } },
    },
  ],
  tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
  function_call: { name: 'f' },
  response_format: { type: 'json_schema', json_schema: { name: 'n', schema: {} } },
  audio: { voice: { id: 'v' }, format: 'wav' },
  prediction: { type: 'content', content: 'p' },
  web_search_options: { user_location: { type: 'approximate', approximate: { city: 'c' } } },
}
const JUNK: unknown[] = [
  null,
  '',
  'auto',
  'function',
  'text',
  0,
  -1,
  1.5,
  1e9,
  Infinity,
  true,
  [],
  [1],
  [null],
  {},
  { type: 'text' },
  { name: 1 },
]

test("an object that can't become a string is described by its type", () => {
  expect(explain(Type.Integer(), { toString: '' })[0]?.message).toBe(
    'Invalid type: expected an integer, but got an object instead.',
  )
})

test('of arrays of different items, the one that accepts the first item is meant', () => {
  const Part = Type.Object({ type: Type.Literal('text'), text: Type.String() })
  const schema = Type.Union([Type.String(), Type.Array(Type.String()), Type.Array(Part)])
  const say = (value: unknown) => explain(schema, value)[0]?.message
  expect(say([{ type: 'foo', text: '' }])).toBe("Invalid value: 'foo'. Supported values are: 'text'.")
  expect(say(['a', 1])).toContain("Invalid type for '[1]': expected a string")
})

test('a misplaced value may be a secret: with quotes off, none is quoted', () => {
  const schema = Type.Union([Type.Literal('all'), Type.String({ pattern: '^[a-z]+$', maxLength: 20 }), Type.Null()])
  for (const [of, value] of [
    [schema, 'SECRET-1'],
    [Type.Union([Type.Literal('a'), Type.Literal('b')]), 'SECRET-1'],
    [Type.String({ pattern: '^[a-z]+$' }), 'SECRET-1'],
  ] as const) {
    expect(explain(of, value)[0]?.message).toContain(value)
    expect(explain(of, value, { quotes: false })[0]?.message).not.toContain(value)
  }
})

describe('explain and Value.Check', () => {
  test('agree on thousands of mutated requests', () => {
    const pick = createPicker(7)
    const outcomes = { accepted: 0, refused: 0 }
    for (let round = 0; round < 4_000; round++) {
      const body = structuredClone(FULL)
      const changes = 1 + pick(2)
      for (let change = 0; change < changes; change++) mutate(body, pick)
      const accepted = Value.Check(RequestSchema, body)
      const problems = explain(RequestSchema, body)
      if ((problems.length === 0) !== accepted) throw new Error(`They disagree on ${JSON.stringify(body)}`)
      outcomes[accepted ? 'accepted' : 'refused']++
    }
    expect(Math.min(outcomes.accepted, outcomes.refused)).toBeGreaterThan(300)
  })
})

/** Replaces, deletes or adds one value somewhere in the tree. */
function mutate(root: object, pick: (below: number) => number): void {
  const places: [Record<string, unknown>, string][] = []
  const visit = (node: object) => {
    for (const [name, value] of Object.entries(node)) {
      places.push([node as Record<string, unknown>, name])
      if (typeof value === 'object' && value !== null) visit(value)
    }
  }
  visit(root)
  const [holder, name] = places[pick(places.length)] ?? [{}, '']
  const kind = pick(6)
  if (kind === 0 && !Array.isArray(holder)) delete holder[name]
  else if (kind === 1 && !Array.isArray(holder)) holder.unheard_of = 1
  else if (kind === 2) holder[name] = structuredClone(FULL.messages[pick(4)])
  else holder[name] = structuredClone(JUNK[pick(JUNK.length)])
}
