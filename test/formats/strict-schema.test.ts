/** Valid JSON Schemas, in strict mode and outside it: position and message of errors, and the cost of the check. */
import { describe, expect, test } from 'bun:test'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { checkSchema, checkStrict, createPatternRule } from '../../src/formats/json-schema.ts'

type Schema = Record<string, unknown>

/** A strict object with these properties. */
const object = (properties: Schema, more: Schema = {}) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
})
const text = { type: 'string' }
const nested = (levels: number): Schema => (levels === 0 ? text : object({ deeper: nested(levels - 1) }))
const named = (count: number, value: unknown = text) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, value]))
const values = (count: number, chars: number) => Array.from({ length: count }, (_, index) => `${index}`.padEnd(chars))

const ALLOWED: [string, unknown][] = [
  ['an empty object', object({})],
  ['an empty object that lists nothing as required', { type: 'object', properties: {}, additionalProperties: false }],
  ['all scalars', object({ a: text, b: { type: 'number' }, c: { type: 'integer' }, d: { type: 'boolean' } })],
  ['null as a type', object({ a: { type: ['string', 'null'] }, b: { anyOf: [text, { type: 'null' }] } })],
  ['enums and constants without a type', object({ a: { enum: ['x', 1, null] }, b: { const: 'y' } })],
  ['bounds of strings', object({ a: { type: 'string', pattern: '^a+$', format: 'email' } })],
  [
    'bounds of numbers',
    object({
      a: { type: 'number', multipleOf: 0.5, minimum: 0, maximum: 9, exclusiveMinimum: -1, exclusiveMaximum: 10 },
    }),
  ],
  ['bounds of arrays', object({ a: { type: 'array', items: text, minItems: 1, maxItems: 3 } })],
  [
    'descriptions and unknown words',
    object({ a: { ...text, title: 't', default: 'x', 'x-order': 1 } }, { $schema: 's' }),
  ],
  ['definitions', object({ a: { $ref: '#/$defs/a' } }, { $defs: { a: text } })],
  ['definitions by their old name', object({ a: { $ref: '#/definitions/a' } }, { definitions: { a: text } })],
  ['names with slashes and spaces', object({ a: { $ref: '#/$defs/a~1b%20c' } }, { $defs: { 'a/b c': text } })],
  ['recursion', object({ next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } })],
  ['properties named like keywords', object({ not: text, additionalProperties: text, $ref: text })],
  ['10 levels', nested(10)],
  ['5,000 properties', object(named(5_000))],
  ['1,000 enum values', object({ a: { enum: values(1_000, 5) } })],
  ['a long enum of few values', object({ a: { enum: values(250, 100) } })],
]

const required = "'required' is required to be supplied and to be an array including every key in properties."
const REFUSED: [string, unknown, string[], string][] = [
  [
    'an array at the top',
    { type: 'array', items: text },
    [],
    `schema must be a JSON Schema of 'type: "object"', got 'type: "array"'.`,
  ],
  ['no type at the top', {}, [], `schema must be a JSON Schema of 'type: "object"', got 'type: "None"'.`],
  [
    'alternatives at the top',
    { ...object({}), anyOf: [object({})] },
    [],
    "schema must have type 'object' and not have 'anyOf' at the top level.",
  ],
  [
    'an open object',
    object({ a: object({}, { additionalProperties: true }) }),
    ['properties', 'a'],
    "'additionalProperties' is required to be supplied and to be false.",
  ],
  [
    'an object without additionalProperties',
    { type: 'object', properties: {}, required: [] },
    [],
    "'additionalProperties' is required to be supplied and to be false.",
  ],
  ['an optional property', object({ a: text, b: text }, { required: ['a'] }), [], `${required} Missing 'b'.`],
  ['no required properties at all', object({ a: text }, { required: undefined }), [], `${required} Missing 'a'.`],
  [
    'a required stranger',
    object({ a: text }, { required: ['a', 'b'] }),
    [],
    `${required} Extra required key 'b' supplied.`,
  ],
  [
    'an object without properties',
    object({ a: { type: 'object', additionalProperties: false } }),
    ['properties', 'a'],
    'object schema missing properties.',
  ],
  ['an array of anything', object({ a: { type: 'array' } }), ['properties', 'a'], 'array schema missing items.'],
  [
    'a tuple',
    object({ a: { type: 'array', items: [text] } }),
    ['properties', 'a'],
    "'items' is required to be a single schema.",
  ],
  [
    'a schema without a type',
    object({ a: { description: 'any' } }),
    ['properties', 'a'],
    "schema must have a 'type' key.",
  ],
  [
    'a boolean for a schema',
    object({ a: true }),
    ['properties', 'a'],
    'schema is required to be an object, but got a boolean.',
  ],
  ...['allOf', 'oneOf'].map((keyword): [string, unknown, string[], string] => [
    keyword,
    object({ a: { type: 'array', items: { ...text, [keyword]: [text] } } }),
    ['properties', 'a', 'items'],
    `'${keyword}' is not permitted.`,
  ]),
  ...['not', 'if', 'then', 'else'].map((keyword): [string, unknown, string[], string] => [
    keyword,
    object({ a: { anyOf: [text, { ...text, [keyword]: text }] } }),
    ['properties', 'a', 'anyOf', '1'],
    `'${keyword}' is not permitted.`,
  ]),
  ...Object.entries({
    dependentRequired: {},
    dependentSchemas: {},
    minLength: 1,
    uniqueItems: true,
    patternProperties: {},
  }).map(([keyword, value]): [string, unknown, string[], string] => [
    keyword,
    object({ a: { $ref: '#/$defs/b' } }, { $defs: { b: object({}, { [keyword]: value }) } }),
    ['$defs', 'b'],
    `'${keyword}' is not permitted.`,
  ]),
]

describe('strict mode', () => {
  test.each(ALLOWED)('allows %s', (_, schema) => {
    expect(checkStrict(schema)).toBeNull()
  })
  test.each(REFUSED)('refuses %s', (_, schema, path, reason) => {
    expect(checkStrict(JSON.parse(JSON.stringify(schema)))).toEqual({ path, reason })
  })
  test('checks subschemas that only a reference reaches by the same rules', () => {
    const schema = object({ a: { $ref: '#/shared/b' } }, { shared: { b: { type: 'object', properties: {} } } })
    expect(checkStrict(schema)?.path).toEqual(['shared', 'b'])
  })
})

const NO_SCHEMAS: [string, unknown, string[], string][] = [
  ['an unknown type', { type: 'text' }, [], "'type' is required to be one of"],
  ['no types', { type: [] }, [], "'type' is required to be one of"],
  ['properties in a list', { properties: [] }, [], "'properties' is required to be an object."],
  ["a property that isn't a schema", { properties: { a: 'string' } }, ['properties', 'a'], 'but got a string.'],
  [
    'required as a flag',
    { properties: { a: { required: true } } },
    ['properties', 'a'],
    "'required' is required to be an array of strings.",
  ],
  ['an enum of nothing', { enum: [] }, [], "'enum' is required to be a non-empty array."],
  ['alternatives that are none', { anyOf: {} }, [], "'anyOf' is required to be a non-empty array."],
  [
    'a negative length',
    { items: [{ minLength: -1 }] },
    ['items', '0'],
    "'minLength' is required to be a non-negative integer.",
  ],
  ['a step of nothing', { multipleOf: 0 }, [], "'multipleOf' is required to be a number greater than 0."],
  [
    'a reference to nowhere',
    { items: { $ref: '#/$defs/a' } },
    ['items'],
    "reference to component '#/$defs/a' which was not found in the schema.",
  ],
  ['a reference to another place', { $ref: 'https://example.com/a' }, [], 'which was not found in the schema.'],
  ['a reference to what every object has', { $ref: '#/constructor' }, [], 'which was not found in the schema.'],
  [
    'a reference to itself',
    { $defs: { a: { $ref: '#/$defs/a' } } },
    ['$defs', 'a'],
    'the reference is infinitely recursive.',
  ],
  [
    'references that go round',
    { $defs: { a: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/b' }] }, b: { allOf: [{ $ref: '#/$defs/a' }] } } },
    ['$defs', 'a', 'anyOf', '1'],
    'the reference is infinitely recursive.',
  ],
  ['an invalid pattern', { items: { pattern: '(' } }, ['items'], "'(' is not a 'regex'."],
  ['an invalid name pattern', { patternProperties: { '[': {} } }, [], "'[' is not a 'regex'."],
]

describe('out of strict mode', () => {
  test.each([
    ['anything', {}],
    [
      'everything that strict mode forbids',
      { allOf: [{ not: { minLength: 1 } }, true], if: {}, else: false, oneOf: [{}] },
    ],
    [
      'names of their own',
      { $id: 'tree', properties: { a: { $ref: 'tree' }, b: { $ref: '#b' } }, $defs: { b: { $anchor: 'b' } } },
    ],
    ['recursion through parts of a value', { properties: { a: { $ref: '#' } }, items: { allOf: [{ $ref: '#' }] } }],
    ['patterns of both syntaxes', { items: [{ pattern: '\\-' }, { pattern: '^\\p{L}+$' }] }],
  ])('a schema may have %s', (_, schema) => {
    expect(checkSchema(schema, createPatternRule())).toBeNull()
  })

  test.each(NO_SCHEMAS)("%s isn't a valid schema", (_, schema, path, reason) => {
    const problem = checkSchema(schema, createPatternRule())
    expect(problem).toMatchObject({ path })
    expect(problem?.reason).toContain(reason)
  })

  test('a validator can compile every accepted schema', () => {
    const options = { strict: false, validateSchema: false, logger: false, code: { regExp: toPattern } } as const
    let accepted = 0
    fc.assert(
      fc.property(SCHEMAS, (schema) => {
        if (checkSchema(schema, createPatternRule())) return
        accepted += 1
        // A list as `items` is from an older draft.
        const Draft = JSON.stringify(schema).includes('"items":[') ? Ajv : Ajv2020
        expect(new Draft(options).compile(structuredClone(schema))).toBeFunction()
      }),
      { numRuns: 1_000 },
    )
    expect(accepted).toBeGreaterThan(100)
  })
})

const toPattern = Object.assign((pattern: string) => new RegExp(pattern), { code: 'new RegExp' })

/** Nearly valid schemas of three levels. */
const SCHEMAS = toSchemas(toSchemas(toSchemas(fc.constantFrom<Schema>({}, text, { $ref: '#/$defs/a' }, { $ref: '#' }))))

function toSchemas(below: fc.Arbitrary<Schema>): fc.Arbitrary<Schema> {
  const keywords: Record<string, fc.Arbitrary<unknown>> = {
    type: fc.constantFrom('string', 'object', 'array', ['string', 'null'], 'text'),
    properties: fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'toString'), below, { maxKeys: 2 }),
    required: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 2 }),
    additionalProperties: fc.oneof(fc.boolean(), below),
    items: fc.oneof(below, fc.array(below, { minLength: 1, maxLength: 2 })),
    anyOf: fc.array(below, { minLength: 1, maxLength: 2 }),
    enum: fc.array(fc.constantFrom('x', 1, null), { maxLength: 2 }),
    pattern: fc.constantFrom('^a', '\\-', '['),
    minLength: fc.constantFrom(0, 1, -1),
    $ref: fc.constantFrom('#', '#/$defs/a', '#/properties/a'),
    $defs: below.map((schema) => ({ a: schema })),
  }
  return fc
    .subarray(Object.keys(keywords), { maxLength: 3 })
    .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, keywords[name] ?? fc.constant(0)]))))
}

describe('a hostile schema', () => {
  const chain = named(15_000, { $ref: '#/$defs/p0' })
  let deep: Schema = text
  for (let level = 0; level < 9_000; level++) deep = { items: deep }
  const doubling = Object.fromEntries(
    Array.from({ length: 90 }, (_, index) => {
      const next = { $ref: `#/$defs/d${index + 1}` }
      return [`d${index}`, { anyOf: [next, next] }]
    }),
  )

  test.each<[string, unknown, string | null]>([
    ['that is deep', deep, 'nested more than 100 levels deep'],
    ['that is wide', { properties: named(200_000) }, 'more than 20000 subschemas'],
    ['of circular references', { $defs: chain }, 'infinitely recursive'],
    ['that doubles at each step', { $defs: { ...doubling, d90: text }, $ref: '#/$defs/d0' }, null],
    ['of long patterns', { items: { pattern: 'a'.repeat(100_001) } }, 'characters of patterns exceeds limit'],
    ['with the property __proto__', JSON.parse('{"properties":{"__proto__":{"type":7}}}'), "'type' is required to be"],
  ])('%s takes linear time', (_, schema, reason) => {
    const problem = checkSchema(schema, createPatternRule())
    if (reason === null) expect(problem).toBeNull()
    else expect(problem?.reason).toContain(reason)
  })
})
