/** Which parts of a JSON Schema Anthropic's models enforce, and how the others are sent to them as text. */
import { describe, expect, test } from 'bun:test'
import { type Held, toHeld, toStrict } from '../../../src/upstreams/dialects/anthropic/schema.ts'

const object = (properties: Record<string, unknown>, more: object = {}) => ({ type: 'object', properties, ...more })
const text = { type: 'string' }
const list = (items: object) => ({ type: 'array', items })

const rows: [string, Record<string, unknown>, Held, object | null][] = [
  ['a plain object', object({ a: text }), 'all', object({ a: text }, { additionalProperties: false })],
  [
    'what may have more properties',
    object({ a: text }, { additionalProperties: true }),
    'all',
    object({ a: text }, { additionalProperties: false }),
  ],
  [
    'a bound of a number',
    object({ a: { type: 'integer', minimum: 0, maximum: 9, description: 'An age' } }),
    'some',
    object(
      { a: { type: 'integer', description: 'An age\n{minimum: 0, maximum: 9}' } },
      { additionalProperties: false },
    ),
  ],
  [
    'a format that is known, and one that is not',
    object({ a: { type: 'string', format: 'uuid' }, b: { type: 'string', format: 'phone' } }),
    'some',
    object(
      { a: { type: 'string', format: 'uuid' }, b: { type: 'string', description: '{format: "phone"}' } },
      { additionalProperties: false },
    ),
  ],
  [
    'one of several',
    object({ a: { oneOf: [text, { type: 'null' }] } }),
    'some',
    object({ a: { anyOf: [text, { type: 'null' }] } }, { additionalProperties: false }),
  ],
  [
    'a list, and bounds that bind nothing',
    object({ a: { type: 'array', items: object({ b: text }), minItems: 0, uniqueItems: false } }),
    'all',
    {
      properties: {
        a: { items: { additionalProperties: false }, description: '{minItems: 0, uniqueItems: false}' },
      },
    },
  ],
  [
    'references to definitions',
    { ...object({ a: { $ref: '#/$defs/b' } }), $defs: { b: object({ c: text }) }, $schema: 'x' },
    'all',
    { properties: { a: { $ref: '#/$defs/b' } }, $defs: { b: { additionalProperties: false } } },
  ],
  [
    'what leads back to itself',
    { ...object({ a: { $ref: '#/$defs/b' } }), $defs: { b: object({ c: { $ref: '#/$defs/b' } }) } },
    'none',
    null,
  ],
  [
    'an object of several parts, for each would be closed to what the others name',
    object({ x: { allOf: [object({ a: text }), object({ b: text })] } }),
    'none',
    null,
  ],
  ['an object and parts', object({ a: text }, { allOf: [object({ b: text })] }), 'none', null],
  [
    'an object and alternatives',
    object({ a: text }, { anyOf: [object({ b: text }), object({ c: text })] }),
    'none',
    null,
  ],
  [
    'lists of several parts',
    object({ x: { allOf: [list(object({ a: text })), list(object({ b: text }))] } }),
    'none',
    null,
  ],
  [
    'a part alone, or one that is a reference',
    {
      ...object({ a: { allOf: [object({ b: text })] }, c: { allOf: [{ $ref: '#/$defs/c' }], title: 'C' } }),
      $defs: { c: object({ d: text }) },
    },
    'all',
    {
      properties: {
        a: { allOf: [object({ b: text }, { additionalProperties: false })] },
        c: { $ref: '#/$defs/c', title: 'C' },
      },
    },
  ],
  [
    'a text of several rules',
    object({ a: { allOf: [text, { type: 'string', pattern: 'a' }] } }),
    'some',
    { properties: { a: { allOf: [text, { type: 'string', description: '{pattern: "a"}' }] } } },
  ],
  ['all of itself', object({ a: { $ref: '#' } }), 'none', null],
  ['a reference elsewhere', object({ a: { $ref: 'https://h/x.json' } }), 'none', null],
  ['a map', object({ a: { type: 'object', additionalProperties: text } }), 'none', null],
  ['anything', object({ a: {} }), 'none', null],
  ['anything, as a boolean', object({ a: true }), 'none', null],
  ['a list at the top', { type: 'array', items: text }, 'none', null],
  ['values that are objects', object({ a: { enum: [{ b: 1 }] } }), 'none', null],
]

describe('a schema with', () => {
  test.each(rows)('%s', (_, schema, held, said) => {
    expect(toHeld(schema)).toBe(held)
    const strict = toStrict(schema)
    if (said === null) expect(strict).toBeNull()
    else expect(strict).toMatchObject(said)
  })
})

test('a schema with many levels terminates', () => {
  let schema: Record<string, unknown> = object({ a: text })
  for (let level = 0; level < 200; level++) schema = object({ a: schema })
  expect(toHeld(schema)).toBe('all')
})

test('a schema whose definitions refer to one another repeatedly terminates, too', () => {
  const to = (level: number) => ({ $ref: `#/$defs/d${level}` })
  const $defs = Object.fromEntries(
    Array.from({ length: 60 }, (_, level) => [
      `d${level}`,
      level === 59 ? text : object({ a: to(level + 1), b: to(level + 1) }),
    ]),
  )
  expect(toHeld({ ...object({ a: to(0) }), $defs })).toBe('all')
})
