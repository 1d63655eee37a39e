import { describe, expect, test } from 'bun:test'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { toValue } from '../../src/demo/value.ts'
import { UpstreamError } from '../../src/domain/error.ts'
import { strictSchema } from './schemas.ts'

const TREE = {
  type: 'object',
  properties: { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
  required: ['value', 'next'],
  additionalProperties: false,
}

const SELF = {
  type: ['object', 'string'],
  properties: { next: { $ref: '#' } },
  required: ['next'],
  additionalProperties: false,
}

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
    ['minItems', { type: 'array', items: { type: 'integer' }, minItems: 3 }, [1, 2, 3]],
    ['unique texts', { type: 'array', items: { type: 'string' }, minItems: 2, uniqueItems: true }, ['demo', '2 demo']],
    ['a tuple', { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], minItems: 2 }, ['demo', 2]],
    ['no items', { type: 'array', maxItems: 0, items: { type: 'string' } }, []],
    ['anyOf', { anyOf: [{ type: 'boolean' }, { type: 'null' }] }, true],
    [
      'anyOf next to properties',
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
    ['a type that may be itself', SELF, { next: { next: { next: 'demo' } } }],
    ['an enum with bounds', { type: 'integer', enum: ['1', 1, 2], minimum: 2 }, 2],
    ['both kinds of bounds', { type: 'integer', minimum: 1, exclusiveMinimum: 4 }, 5],
    ['a fraction without its noise', { type: 'number', multipleOf: 0.1, minimum: 0.25, maximum: 0.35 }, 0.3],
    ['the narrower of two bounds', { minimum: 5, anyOf: [{ type: 'integer', minimum: 2 }] }, 5],
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
  ])('match %s', (_, schema, value) => {
    expect(toValue(schema)).toEqual(value)
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
    ["a reference that isn't a URI", { $ref: '#/%' }],
    ['nothing at all', { type: 'object', required: ['a'], properties: { a: false } }],
    ['nested 20,000 times', nested(20_000)],
    ['a long text ten thousand times', { type: 'array', items: { type: 'string', minLength: 9_999 }, minItems: 9_999 }],
    ['a long value ten thousand times', { type: 'array', items: { const: 'x'.repeat(1e6) }, minItems: 9_999 }],
  ])('are refused in limited time if the schema is %s', (_, schema) => {
    expect(() => toValue(schema)).toThrow(UpstreamError)
  })

  test.each<[string, unknown]>([
    ['a pattern', { type: 'string', pattern: '^a$' }],
    ['bounds that leave no number', { type: 'integer', minimum: 2, maximum: 1 }],
    ['an enum of another type', { type: 'integer', enum: ['1'] }],
    ['a keyword that it does not know', { type: 'object', not: { required: ['a'] } }],
    ['two types that contradict', { type: 'string', anyOf: [{ type: 'integer' }] }],
    ['a property that may not be there', { type: 'object', required: ['a'], additionalProperties: false }],
    ['unique items that it cannot tell apart', { type: 'array', items: { const: 1 }, minItems: 2, uniqueItems: true }],
    ['more properties than it makes', { type: 'object', minProperties: 2 }],
  ])('are refused rather than wrong: %s', (_, schema) => {
    expect(() => toValue(schema)).toThrow(/^The demo model found no value for the schema: .+\.$/)
  })

  test('use branches that can be built, and omit optional properties', () => {
    const beyond = { type: 'string', pattern: '^a$' }
    expect(toValue({ anyOf: [beyond, { type: 'null' }] })).toBeNull()
    expect(toValue({ type: 'object', properties: { a: beyond, b: { const: 1 } }, required: ['b'] })).toEqual({ b: 1 })
  })

  test('of two recursive branches end soon, in either order', () => {
    const expression = {
      $defs: {
        sum: {
          type: 'object',
          properties: { left: { $ref: '#/$defs/any' }, right: { $ref: '#/$defs/any' } },
          required: ['left', 'right'],
        },
        literal: { type: 'object', properties: { value: { type: 'number' } }, required: ['value'] },
        any: { anyOf: [{ $ref: '#/$defs/sum' }, { $ref: '#/$defs/literal' }] },
      },
      $ref: '#/$defs/any',
    }
    expect(JSON.stringify(toValue(expression)).match(/value/g)).toHaveLength(8)
  })

  test.each([
    ['date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/],
    ['time', /^\d\d:\d\d:\d\dZ$/],
    ['date', /^\d{4}-\d\d-\d\d$/],
    ['duration', /^P\d+D$/],
    ['email', /^\w+@[\w.]+$/],
    ['hostname', /^[\w.]+$/],
    ['ipv4', /^(\d{1,3}\.){3}\d{1,3}$/],
    ['ipv6', /^[\da-f:]+$/],
    ['uuid', /^[\da-f]{8}-([\da-f]{4}-){3}[\da-f]{12}$/],
  ])('have the format %s', (format, expected) => {
    expect(toValue({ type: 'string', format })).toMatch(expected)
  })

  test('have names in the order of the properties', () => {
    const properties = { b: { const: 1 }, a: { const: 2 } }
    expect(JSON.stringify(toValue({ type: 'object', properties, required: ['a', 'b'] }))).toBe('{"b":1,"a":2}')
  })

  test('are found for any strict schema, and valid', () => {
    const ajv = new Ajv({ strict: false, validateFormats: false, multipleOfPrecision: 9 })
    fc.assert(
      fc.property(strictSchema, (schema) => {
        const value = toValue(schema)
        const validate = ajv.compile(schema)
        expect({ valid: validate(value), errors: validate.errors, value }).toEqual({ valid: true, errors: null, value })
      }),
      { numRuns: 100 },
    )
  })
})
