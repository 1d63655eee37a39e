/** Budget periods: their begin and end, in UTC. */
import { describe, expect, test } from 'bun:test'
import type { Period } from '../../src/domain/limits.ts'
import { endOf, startOf, toInForce } from '../../src/limits/period.ts'

const at = (time: string) => Date.parse(time)

const scenarios: [string, Period, string, string, string][] = [
  ['a day', 'day', '2026-11-21T13:14:15.016Z', '2026-11-21', '2026-11-22'],
  ['the first ms of a day', 'day', '2026-11-21T00:00:00.000Z', '2026-11-21', '2026-11-22'],
  ['the last ms of a day, of a month and of a year', 'day', '2026-12-31T23:59:59.999Z', '2026-12-31', '2027-01-01'],
  ['a Monday', 'week', '2026-11-16T00:00:00.000Z', '2026-11-16', '2026-11-23'],
  ['a Sunday', 'week', '2026-11-22T23:59:59.999Z', '2026-11-16', '2026-11-23'],
  ['a week across a year’s end', 'week', '2027-01-02T12:00:00.000Z', '2026-12-28', '2027-01-04'],
  ['the first days of 1970', 'week', '1970-01-02T00:00:00.000Z', '1969-12-29', '1970-01-05'],
  ['a month of 30 days', 'month', '2026-11-30T23:59:59.999Z', '2026-11-01', '2026-12-01'],
  ['a month of 31 days', 'month', '2027-01-31T00:00:00.000Z', '2027-01-01', '2027-02-01'],
  ['the last month of a year', 'month', '2026-12-01T00:00:00.000Z', '2026-12-01', '2027-01-01'],
  ['a February', 'month', '2027-02-28T23:00:00.000Z', '2027-02-01', '2027-03-01'],
  ['a February of a leap year', 'month', '2028-02-29T23:00:00.000Z', '2028-02-01', '2028-03-01'],
]

describe('a period begins and ends at midnight UTC', () => {
  for (const [name, period, now, start, end] of scenarios) {
    test(`on ${name}`, () => {
      expect([startOf(period, at(now)), endOf(period, at(now))]).toEqual([at(start), at(end)])
    })
  }
})

test('a total begins with the first ms, and has no end', () => {
  expect([startOf('total', at('2026-11-21')), endOf('total', at('2026-11-21'))]).toEqual([0, null])
})

test('each period begins when the one before ends, for years', () => {
  for (const period of ['day', 'week', 'month'] as const) {
    for (let now = at('2026-11-21T12:00:00Z'), end = 0; now < at('2033-01-01'); now = end) {
      end = endOf(period, now) ?? 0
      expect(end).toBeGreaterThan(now)
      expect(startOf(period, end)).toBe(end)
      expect(endOf(period, end - 1)).toBe(end)
    }
  }
})

describe('amounts that count for the current period', () => {
  const scenarios: [string, string, string, Period, string, string][] = [
    ['begins and ends with it', '2026-11-21T13:00Z', '2026-11-21T12:00Z', 'day', '2026-11-21', '2026-11-22'],
    [
      'goes by a clock that nobody was served by yet',
      '2026-11-21T13:00Z',
      '1970-01-01',
      'day',
      '2026-11-21',
      '2026-11-22',
    ],
    [
      'is all since where the clock was set back to',
      '2026-11-19T13:00Z',
      '2026-11-21T12:00Z',
      'day',
      '2026-11-19',
      '2026-11-22',
    ],
    ['may be of two months', '2026-11-30T13:00Z', '2026-12-01T12:00Z', 'month', '2026-11-01', '2027-01-01'],
    ['is not of more than a week ahead', '2026-11-13T11:00Z', '2026-11-21T12:00Z', 'day', '2026-11-13', '2026-11-14'],
  ]
  test.each(scenarios)('%s', (_, now, latest, period, from, until) => {
    expect(toInForce(period, at(now), at(latest))).toEqual({
      fromMs: at(from),
      untilMs: at(until),
      resetMs: at(until),
    })
  })

  test('include everything for a total, whatever the clock says', () => {
    const { fromMs, untilMs, resetMs } = toInForce('total', at('2026-11-21'), at('2026-11-25'))
    expect([fromMs, untilMs > at('9999-12-31'), resetMs]).toEqual([0, true, null])
  })
})
