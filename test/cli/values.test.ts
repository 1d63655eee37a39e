/** Values of options: exact money, times, counts, names, and an error for each invalid one. */
import { describe, expect, test } from 'bun:test'
import { readOption, toBudget, toCount, toMoment, toName } from '../../src/cli/values.ts'
import { toUsd } from '../../src/domain/usage.ts'
import { readExpiry } from '../../src/keys/definition.ts'

describe('toBudget', () => {
  const exact: [string, number, string][] = [
    ['20/month', 20_000_000_000, 'month'],
    ['0.10/day', 100_000_000, 'day'],
    ['5', 5_000_000_000, 'total'],
    ['5/total', 5_000_000_000, 'total'],
    ['$1.1/week', 1_100_000_000, 'week'],
    ['0.000000001', 1, 'total'],
    ['4503599.627370497', 4_503_599_627_370_497, 'total'],
    ['0.29', 290_000_000, 'total'],
  ]
  for (const [text, nanoUsd, period] of exact) {
    test(`reads ${text} exactly`, () => expect(toBudget(text)).toEqual({ nanoUsd, period: period as 'day' }))
  }
  for (const text of ['', '0', 'x', '-1', '1e3', '1/fortnight', '1/day/2', '1.', '.5', '0.0000000001', '9007200'])
    test(`refuses '${text}' with a sentence`, () => expect(() => toBudget(text)).toThrow(/--budget/))
})

describe('toUsd', () => {
  test('writes what toBudget reads', () => {
    for (const text of ['20', '0.1', '0.000000001', '4503599.627370497', '100'])
      expect(toUsd(toBudget(text).nanoUsd)).toBe(text)
  })
})

describe('readExpiry', () => {
  const toExpiry = (text: string, nowMs: number) => readOption('--expires', () => readExpiry(text, nowMs))
  const nowMs = Date.UTC(2026, 10, 21)
  const scenarios: [string, string][] = [
    ['90d', '2027-02-19T00:00:00.000Z'],
    ['12h', '2026-11-21T12:00:00.000Z'],
    ['2027-01-31', '2027-01-31T00:00:00.000Z'],
    ['2027-01-31T10:30', '2027-01-31T10:30:00.000Z'],
    ['2027-01-31T10:30:00+02:00', '2027-01-31T08:30:00.000Z'],
  ]
  for (const [text, time] of scenarios) {
    test(`reads ${text} as UTC`, () => expect(new Date(toExpiry(text, nowMs)).toISOString()).toBe(time))
  }
  for (const text of ['', '90', 'soon', '2027-02-31', '2020-01-01', '0d', '-1d'])
    test(`refuses '${text}' with a sentence`, () => expect(() => toExpiry(text, nowMs)).toThrow(/--expires/))
})

test('toMoment reads durations as ago and dates unchanged', () => {
  const nowMs = Date.UTC(2026, 10, 21)
  const read = (text: string) => new Date(toMoment('--since', text, nowMs)).toISOString()
  expect(read('7d')).toBe('2026-11-14T00:00:00.000Z')
  expect(read(' 2020-01-31T10:30 ')).toBe('2020-01-31T10:30:00.000Z')
  for (const text of ['', '7', 'soon', '2026-02-31'])
    expect(() => read(text)).toThrow(/^--since must be a time ago or a date, .* \(got '.*'\)\.$/)
})

describe('toCount', () => {
  test('takes whole numbers from 1 to a thousand million', () => {
    expect([toCount('--rpm', '60'), toCount('--rpm', ' 1 '), toCount('--rpm', '1000000000')]).toEqual([60, 1, 1e9])
    for (const text of ['0', '-1', '1.5', 'x', '', '1e3', '1_000'])
      expect(() => toCount('--rpm', text)).toThrow(/^--rpm must be a whole number of at least 1 \(got '.*'\)\.$/)
    for (const text of ['1000000001', '9'.repeat(400)])
      expect(() => toCount('--rpm', text)).toThrow(/^--rpm must be at most 1000000000 \(got '\d+'\)\.$/)
  })
})

describe('toName', () => {
  test('accepts any text of 1 to 200 characters, trimmed', () => {
    expect([toName(' Zoë’s team ', ''), toName('x'.repeat(200), '')]).toEqual(['Zoë’s team', 'x'.repeat(200)])
    for (const text of ['', '  ', 'x'.repeat(201)])
      expect(() => toName(text, '')).toThrow('1 to 200 visible characters')
    for (const text of ['a\nb', 'a\u001b[2Jb', '\u0085x\u009b'])
      expect(() => toName(text, '')).toThrow('1 to 200 visible characters')
    expect(() => toName(undefined, 'say who')).toThrow('--name is missing: say who.')
  })
})
