/** The cost of parsing JSON, measured on its text. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type JsonLimits, JsonScan } from '../../src/domain/json-text.ts'

const ANY: JsonLimits = { depth: Infinity, values: Infinity, escapes: Infinity, bare: Infinity }

/** Scans a text in pieces of this many characters. */
function scan(text: string, limits: Partial<JsonLimits> = {}, size = text.length || 1) {
  const scan = new JsonScan({ ...ANY, ...limits })
  for (let at = 0; at < text.length; at += size) {
    const excess = scan.take(text.slice(at, at + size))
    if (excess) return excess
  }
  return scan.values
}

/** The same measures of the parsed value. */
function count(value: unknown): { values: number; names: number; depth: number } {
  if (typeof value !== 'object' || value === null) return { values: 1, names: 0, depth: 0 }
  const counts = Object.values(value).map(count)
  return {
    values: counts.reduce((sum, { values }) => sum + values, 1),
    names: counts.reduce((sum, { names }) => sum + names, Array.isArray(value) ? 0 : counts.length),
    depth: 1 + Math.max(0, ...counts.map(({ depth }) => depth)),
  }
}

const texts = fc
  .tuple(
    fc.jsonValue({ maxDepth: 6, noUnicodeString: false }),
    fc.array(fc.constantFrom('"', '\\', '[', ']', '{', '}', ',', ':', ' ', 'x', 'é', '\u{1f600}')),
    fc.constantFrom(undefined, 1, '\t'),
  )
  .map(([value, letters, indent]) =>
    JSON.stringify([value, { [letters.join('')]: letters.join('').repeat(9) }], null, indent),
  )

test('values and depth are those of the parsed JSON, for any string contents and chunks', () => {
  fc.assert(
    fc.property(texts, fc.integer({ min: 1, max: 40 }), (text, size) => {
      const { values, depth } = count(JSON.parse(text))
      for (const pieces of [size, text.length]) {
        expect(scan(text, {}, pieces)).toBe(values)
        expect(scan(text, { depth }, pieces)).toBe(values)
        expect(scan(text, { depth: depth - 1 }, pieces)).toBe('depth')
        expect(scan(text, { values: values - 1 }, pieces)).toBe('values')
      }
    }),
    { numRuns: 500 },
  )
})

test('names are counted, and the longest child of the outermost object is found, for any chunks', () => {
  const held = fc.tuple(texts, texts, fc.integer({ min: 1, max: 40 }))
  fc.assert(
    fc.property(held, ([one, other, size]) => {
      const text = `{ "one" : ${one}, "a,]": "[{", "other": ${other}, "n": 1 }`
      const found = new JsonScan(ANY)
      for (let at = 0; at < text.length; at += size) found.take(text.slice(at, at + size))
      const { from = 0, to = 0 } = found.longest ?? {}
      expect(text.slice(from, to)).toBe(one.length >= other.length ? one : other)
      expect(found.names).toBe(count(JSON.parse(text)).names)
    }),
    { numRuns: 300 },
  )
})

describe.each([1, 7, 100_000])('in pieces of %d', (size) => {
  test.each<[string, keyof JsonLimits, string, string]>([
    ['lists in lists', 'depth', '['.repeat(4), '['.repeat(5)],
    ['objects in lists', 'depth', '[{"a":[{', '[{"a":[{"b":['],
    ['lists beside each other', 'values', '[[],[],[ ]]', '[[],[],[],[]]'],
    ['names', 'values', '{"a":1,"b":2,"c":3}', '{"a":1,"b":2,"c":[3]}'],
    ['escapes', 'escapes', '["\\"\\\\","\\u0041\\n"]', '["\\"\\\\","\\u0041\\n\\n"]'],
    ['a long number', 'bare', '{"name": 123456}', '{"name": 12345678901234567}'],
  ])('%s are counted, and more than four are too many', (_, limit, fits, exceeds) => {
    const limits = { [limit]: limit === 'bare' ? 16 : 4 }
    expect(scan(fits, limits, size)).toBeNumber()
    expect(scan(exceeds, limits, size)).toBe(limit)
  })

  test('structure within strings is ignored', () => {
    const inside = '[{,}]\\"'.repeat(500)
    expect(scan(`{"${inside}":"${inside}","b":"\\\\"}`, { depth: 1, values: 3 }, size)).toBe(3)
  })
})
