/** Figures on pages: short enough to read, and never more or less exact than their source. */
import { describe, expect, test } from 'bun:test'
import {
  toCount,
  toDay,
  toDelta,
  toExactCount,
  toExactMoney,
  toIso,
  toLatency,
  toMoment,
  toMoney,
  toNanoUsd,
  toPercent,
  toWhen,
} from '../../src/dashboard/figures/figures.ts'
import { toUsd } from '../../src/domain/usage.ts'

test.each([
  [0, '$0.00', '$0.00'],
  [12_400_000_000, '$12.40', '$12.40'],
  [1_204_395_000_000, '$1,204.40', '$1,204.395'],
  [10_000_000, '$0.01', '$0.01'],
  [14_999_999, '$0.01', '$0.014999999'],
  [9_999_999, '$0.01', '$0.009999999'],
  [5_725_000, '$0.005725', '$0.005725'],
  [3_141_592, '$0.003142', '$0.003141592'],
  [1, '$0.000000001', '$0.000000001'],
  [-12_400_000_000, '-$12.40', '-$12.40'],
  [9_007_199_254_740_991, '$9,007,199.25', '$9,007,199.254740991'],
])('%d nano-dollars are %s, exactly %s', (nano, text, exact) => {
  expect(toMoney(nano)).toBe(text)
  expect(toExactMoney(nano)).toBe(exact)
})

test('an estimate is marked', () => {
  expect(toMoney(20_000_000, true)).toBe('~$0.02')
})

test.each([
  ['20', 20_000_000_000],
  ['$0.10', 100_000_000],
  [' 1,200.5 ', 1_200_500_000_000],
  ['0.000000001', 1],
  ['', null],
  ['20 dollars', null],
  ['1,20', null],
  ['-5', null],
  ['0.0000000001', null],
  ['9999999', null],
])('what is typed as %p is %p nano-dollars', (text, nano) => {
  expect(toNanoUsd(text)).toBe(nano)
})

test('an amount is prefilled as a user would type it', () => {
  for (const nano of [20_000_000_000, 500_000_000, 1, 1_200_500_000_000]) expect(toNanoUsd(toUsd(nano))).toBe(nano)
  expect(toUsd(500_000_000)).toBe('0.5')
})

test.each([
  [0, '0'],
  [1_284, '1,284'],
  [9_999, '9,999'],
  [10_000, '10k'],
  [12_804, '12.8k'],
  [99_949, '99.9k'],
  [128_400, '128k'],
  [999_499, '999k'],
  [999_500, '1M'],
  [3_400_000, '3.4M'],
  [2_500_000_000, '2.5B'],
])('%d tokens are %s', (count, text) => {
  expect(toCount(count)).toBe(text)
})

test('a count is exact on request', () => {
  expect(toExactCount(1_234_567)).toBe('1,234,567')
})

test.each([
  [0, '0%'],
  [0.0004, '<0.1%'],
  [0.012, '1.2%'],
  [0.38, '38%'],
  [0.0999, '10%'],
  [1, '100%'],
])('a share of %d is %s', (share, text) => {
  expect(toPercent(share)).toBe(text)
})

test.each([
  [0.4, '0 ms'],
  [840, '840 ms'],
  [999.6, '1.00 s'],
  [1_240, '1.24 s'],
  [12_400, '12.4 s'],
  [59_960, '1 min'],
  [125_000, '2 min 5 s'],
])('%d ms are %s', (ms, text) => {
  expect(toLatency(ms)).toBe(text)
})

test('a change states its direction in words, and is empty without an earlier value', () => {
  expect(toDelta(112, 100)).toEqual({ direction: 'up', text: '12% more' })
  expect(toDelta(50, 100)).toEqual({ direction: 'down', text: '50% less' })
  expect(toDelta(100.4, 100)).toEqual({ direction: 'same', text: 'no change' })
  expect(toDelta(4_000, 100)).toEqual({ direction: 'up', text: '40 times more' })
  expect([toDelta(5, 0), toDelta(1_000, 1)]).toEqual([null, null])
})

describe('times', () => {
  const now = Date.UTC(2026, 10, 22, 14, 3)
  const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]

  test.each([
    [now, 'just now'],
    [now - 59_000, 'just now'],
    [now + 5_000, 'in a moment'],
    [now - 4 * minute, '4 min ago'],
    [now - 23 * hour - 59 * minute, '23 h ago'],
    [now + 3 * hour, 'in 3 h'],
    [now - day, 'Nov 21, 14:03'],
    [now - 400 * day, 'Oct 18, 2025, 14:03'],
  ])('%d is %s', (ms, text) => {
    expect(toWhen(ms, now, 'UTC')).toBe(text)
  })

  test("are in the user's time zone, and midnight is not 24", () => {
    expect(toMoment(now, now, 'Asia/Kolkata')).toBe('Nov 22, 19:33')
    expect(toMoment(Date.UTC(2026, 10, 22), now, 'UTC')).toBe('Nov 22, 00:00')
    expect(toDay(Date.UTC(2025, 0, 2), now, 'UTC')).toBe('Jan 2, 2025')
    expect(toIso(now, 330)).toBe('2026-11-22T19:33:00+05:30')
    expect(toIso(now, -180)).toBe('2026-11-22T11:03:00-03:00')
    expect(toIso(now, 0)).toBe('2026-11-22T14:03:00Z')
  })
})
