/** JSON as other programs write it. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { parseJson } from '../../src/domain/json.ts'

test.each([
  ['{"a":NaN}', { a: null }],
  ['[-Infinity, Infinity,NaN]', [null, null, null]],
  ['{"a":"NaN \\" Infinity","b":NaN}', { a: 'NaN " Infinity', b: null }],
  ['\n\n {"a":1}', { a: 1 }],
])('%s is parsed', (text, expected) => {
  expect(parseJson(text)).toEqual(expected)
})

test.each(['', 'NaNa', '{"a":', '<html>', '{"a":NaN', '"a\\'])('%j is not JSON', (text) => {
  expect(() => parseJson(text)).toThrow(SyntaxError)
})

test('strings next to a NaN or Infinity stay unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value)
      const mended = parseJson(`[NaN,${text}]`)
      expect(mended).toEqual([null, JSON.parse(text)])
    }),
  )
})

test('an endless string is given up at once', () => {
  const text = `{"${'\\"'.repeat(30_000)}`
  for (let i = 0; i < 100; i++) expect(() => parseJson(text)).toThrow(SyntaxError)
})
