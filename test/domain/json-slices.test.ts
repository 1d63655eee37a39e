/** Long JSON parsed in slices: the same value as in one go, and no slow slice. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { SlicedJson } from '../../src/domain/json.ts'
import type { JsonLimits } from '../../src/domain/json-text.ts'

const LIMITS = { depth: 256, values: 1_000_000 }

function parse(text: string, limits: Partial<JsonLimits> = {}, sliceChars?: number) {
  const sliced = new SlicedJson(text, { ...LIMITS, ...limits }, sliceChars)
  let slices = 0
  while (!sliced.isDone) {
    const excess = sliced.next()
    if (excess) return { excess, slices }
    slices++
  }
  return { root: sliced.root, slices }
}

const many = (piece: string, times: number) => Array(times).fill(piece).join()

test('a text is parsed into the same value, wherever slices end', () => {
  const texts = fc
    .tuple(fc.array(fc.jsonValue({ maxDepth: 6 })), fc.constantFrom(undefined, 1))
    .map(([values, indent]) => JSON.stringify([{ 'a"\\': values, b: [values, 1] }, 2], null, indent))
  fc.assert(
    fc.property(texts, fc.integer({ min: 0, max: 40 }), (text, size) => {
      expect(JSON.stringify(parse(text, {}, size).root)).toBe(JSON.stringify(JSON.parse(text)))
    }),
  )
})

test.each(['[1,]', '[1,,2]', '[1,2}', '[1,2', '[1],', '[1],2', '{"a":[1,2],}', '[1,2]]', '["a,b', '', ','])(
  '%s is invalid JSON in slices, too',
  (text) => {
    expect(() => parse(text, {}, 0)).toThrow(SyntaxError)
  },
)

test('inherited names are ordinary field names', () => {
  parse('{"__proto__":[1,{"polluted":[2,3]},4],"a":[5,6]}', {}, 0)
  parse('{"a":[1,2],"__proto__":{"polluted":[2,3]}}', {}, 0)
  expect({}).not.toHaveProperty('polluted')
})

test('a list of a million numbers or objects takes many slices', () => {
  expect(parse(`{"a":[${many('0.1', 900_000)}]}`).slices).toBeGreaterThan(30)
  expect(parse(`[${many('{"a":0,"b":[]}', 100_000)}]`).slices).toBeGreaterThan(10)
})

test.each([
  ['an object of a million names', () => `{"a":{${many('"k":0', 1_000_000)}}}`, 'values'],
  ['a number of 5 MB', () => `[${'1'.repeat(5_000_000)}]`, 'bare'],
  ['a string of 1.1 million escapes', () => `["${'\\n'.repeat(1_100_000)}"]`, 'escapes'],
  ['a list of 1.1 million numbers', () => `[${many('0', 1_100_000)}]`, 'values'],
  ['a list 257 deep', () => `${'['.repeat(257)}${']'.repeat(257)}`, 'depth'],
] as const)('%s is given up', (_, text, excess) => {
  expect(parse(text())).toMatchObject({ excess })
})
