/** Costs that an upstream reports, by their exact digits. */
import { describe, expect, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import { findReported, toNanoUsd } from '../../src/upstreams/dialects/openai/usage.ts'

describe('a number in dollars', () => {
  const USD: [text: string, nanoUsd: number | null][] = [
    ['0', 0],
    ['0.0', 0],
    ['0e99', 0],
    ['1', 1_000_000_000],
    ['0.0133176', 13_317_600],
    ['1.4e-05', 14_000],
    ['1.4E-5', 14_000],
    ['2E+1', 20_000_000_000],
    ['0.0000000005', 1],
    ['0.00000000049999999999999999999999', 0],
    // As a double it would be half a nano-dollar, and round up.
    ['0.0000000014999999999999999999999', 1],
    ['1e-400', 0],
    ['1e-300', 0],
    ['1000000', 1e15],
    ['1000000.000000001', null],
    ['1e30', null],
    ['-0.1', null],
    ['NaN', null],
    ['Infinity', null],
    ['1,5', null],
    ['.5', null],
    ['', null],
    [`1.${'0'.repeat(41)}`, null],
  ]
  test.each(USD)('%s is read exactly, rounded half up once, or not at all', (text, nanoUsd) => {
    expect(toNanoUsd(text, 'usd')).toBe(nanoUsd)
  })

  test('gives the same result in any notation', () => {
    fc.assert(
      fc.property(fc.nat({ max: 10 ** 9 }), fc.integer({ min: 0, max: 9 }), (nano, zeros) => {
        const digits = String(nano).padStart(10, '0')
        expect(toNanoUsd(`${digits.slice(0, -9)}.${digits.slice(-9)}${'0'.repeat(zeros)}`, 'usd')).toBe(nano)
        expect(toNanoUsd(`${nano}e-9`, 'usd')).toBe(nano)
        expect(toNanoUsd(`${nano}0`, '1e-10usd')).toBe(nano)
      }),
    )
  })
})

test('a tick is a tenth of a nano-dollar', () => {
  expect(['1466250', '15', '14', '0'].map((text) => toNanoUsd(text, '1e-10usd'))).toEqual([146_625, 2, 1, 0])
})

describe('a reported cost', () => {
  const find = (text: string, path = 'usage.cost') => findReported(JSON.parse(text), text, { path, unit: 'usd' })

  test('is found by its path, with its exact digits', () => {
    expect(find('{"usage":{"cost":0.0000000014999999999999999999999}}')).toBe(1)
    expect(find('{"cost":7,"usage":{"cost":0.25,"other":{"cost":9}}}')).toBe(250_000_000)
    expect(find('{"usage":{"cost":{"total_cost":0.006}}}', 'usage.cost.total_cost')).toBe(6_000_000)
    expect(find('{"usage":{"cost":"0.25"}}')).toBe(250_000_000)
  })

  test('is read without parsing the response again, if its digits are unambiguous or all of it is long', () => {
    const said = 'said \\"cost\\":1 of "cost":2, {}'
    const plain = JSON.stringify({ choices: [{ said }], usage: { cost: 0.25, cost_details: { cost: 0.5 } } })
    const doubtful = '{"cost":0.0000000015,"usage":{"cost":0.0000000014999999999999999999999}}'
    const escaped = '{"usage":{"\\u0063ost":0.25}}'
    const long = doubtful.replace('}', `,"more":"${'x'.repeat(100_000)}"}`)
    const answers = [plain, doubtful, escaped, long].map((text) => ({ text, answer: JSON.parse(text) }))
    using parse = spyOn(JSON, 'parse')
    const found = answers.map(({ text, answer }) => {
      parse.mockClear()
      const nanoUsd = findReported(answer, text, { path: 'usage.cost', unit: 'usd' })
      return [nanoUsd, parse.mock.calls.length]
    })
    expect(found).toEqual([
      [250_000_000, 0],
      [1, 1],
      [250_000_000, 1],
      // The nearest double, not all digits.
      [2, 0],
    ])
  })

  test.each([
    ['{}'],
    ['{"usage":null}'],
    ['{"usage":{"cost":null}}'],
    ['{"usage":{"cost":{"total":1}}}'],
    ['{"usage":{"cost":[1]}}'],
    ['{"usage":{"cost":true}}'],
    ['{"usage":[{"cost":1}]}'],
    ['{"usage":{"cost":-1}}'],
    ['{"usage":{"cost":"much"}}'],
  ])('%s means none', (text) => expect(find(text)).toBeNull())

  test("isn't found by inherited names", () => {
    expect(find('{"a":1}', 'constructor.length')).toBeNull()
    expect(find('{"a":1}', '__proto__.x')).toBeNull()
  })
})
