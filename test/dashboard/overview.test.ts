import { describe, expect, test } from 'bun:test'
import {
  byOwner,
  byUse,
  marksOf,
  OTHER,
  OTHERS,
  toBreakdown,
  toBusiest,
  toColumns,
  toCosts,
  toCulprit,
  toFailures,
  toHeat,
  toHeatSpan,
  toIdAfter,
  toLines,
  toMarks,
  toMarksQuery,
  toPointsDelta,
  toShade,
  toShares,
  toStack,
  toStopped,
  toTimeDelta,
  UNKNOWN,
} from '../../src/dashboard/overview/figures.ts'
import { toPart, toQuery, toRange, toWanted } from '../../src/dashboard/overview/range.ts'
import { mintId } from '../../src/domain/id.ts'
import { toCsv } from '../../src/domain/text.ts'
import { toForecast } from '../../src/keys/forecast.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const NOW = Date.UTC(2026, 10, 22, 14, 30)
const WEEK = toRange({ name: '7d' }, NOW)

describe('the range of the overview', () => {
  test('has whole UTC days, including today', () => {
    expect(WEEK.columns.length).toBe(7)
    expect(WEEK.columns.at(-1)).toBe(Date.UTC(2026, 10, 22))
    expect(WEEK.sinceMs).toBe(Date.UTC(2026, 10, 16))
  })

  test('has the hours of today that have begun', () => {
    const { columns, by } = toRange({ name: 'today' }, NOW)
    expect([by, columns.length, columns.at(-1)]).toEqual(['hour', 15, Date.UTC(2026, 10, 22, 14)])
  })

  test('is compared with the same length before it, up to the same point in its last column', () => {
    expect(WEEK.before).toMatchObject({ sinceMs: WEEK.sinceMs - 7 * DAY, untilMs: NOW - 7 * DAY })
  })

  test('is a week if the URL names none, or an unknown one', () => {
    const nameOf = (text: string) => toWanted(new URLSearchParams(text), NOW).name
    expect(['', 'range=1y', 'range=30d'].map(nameOf)).toEqual(['7d', '7d', '30d'])
    expect(
      ['from=2026-11-20', 'from=2026-11-20&to=2026-11-18', 'from=x&to=y', 'from=2027-01-01&to=2027-01-02'].map(nameOf),
    ).toEqual(['7d', '7d', '7d', '7d'])
  })

  const custom = (from: string, to: string) => toRange(toWanted(new URLSearchParams({ from, to }), NOW), NOW)

  test('from one day to another includes both, by day; up to two, by hour', () => {
    const days = custom('2026-11-03', '2026-11-09')
    expect([days.by, days.columns.length, days.text]).toEqual(['day', 7, 'from Nov 3 to Nov 9'])
    expect([days.untilMs, days.before.sinceMs]).toEqual([Date.UTC(2026, 10, 10), Date.UTC(2026, 9, 27)])
    const day = custom('2026-11-21', '2026-11-21')
    expect([day.by, day.columns.length, day.text, day.before.text]).toEqual([
      'hour',
      24,
      'on Nov 21',
      'than the previous day',
    ])
  })

  test('that has not ended is open, and has the columns that have begun', () => {
    const range = custom('2026-11-20', '2026-11-30')
    expect([range.untilMs, range.columns.length]).toEqual([null, 3])
    expect(range.before.untilMs).toBe(NOW - 11 * DAY)
  })

  test('shows hours if it begins or ends within a day, and whole days if it is long', () => {
    expect(custom('2026-11-21T10', '2026-11-21T14').text).toBe('from Nov 21, 10:00 to 14:00')
    expect(custom('2026-11-21T22', '2026-11-22').columns.length).toBe(17)
    expect(custom('2026-11-03T05', '2026-11-09T05').sinceMs).toBe(Date.UTC(2026, 10, 3))
    expect(custom('2020-01-01', '2026-11-22').columns.length).toBe(366)
  })

  test('is written to the URL as it is read', () => {
    for (const [from, to] of [
      ['2026-11-03', '2026-11-09'],
      ['2026-11-21T10', '2026-11-21T14'],
      ['2026-11-20T23', '2026-11-20'],
    ] as const) {
      const wanted = toWanted(new URLSearchParams({ from, to }), NOW)
      if (wanted.name !== 'custom') throw new Error('it is none')
      expect(toQuery(wanted.sinceMs, wanted.untilMs)).toEqual({ range: null, from, to })
    }
  })

  test('is narrowed to the selected columns, unless all are selected', () => {
    expect(toPart(WEEK, 4.2, 2.6)).toEqual({ sinceMs: WEEK.sinceMs + 3 * DAY, untilMs: WEEK.sinceMs + 5 * DAY })
    expect(toPart(WEEK, -3, 40)).toBeNull()
    expect(toPart(toRange({ name: 'today' }, NOW), 3, 3)).toMatchObject({ sinceMs: WEEK.sinceMs + 6 * DAY + 3 * HOUR })
  })
})

const cost = (model: string, day: number, nanoUsd: number, estimated = 0) => ({
  ...{ model, day_ms: WEEK.sinceMs + day * DAY },
  ...{ cost_nano_usd: nanoUsd, estimated_cost_nano_usd: estimated },
})

describe('costs by model', () => {
  test('are listed from the highest, and days without requests are gaps', () => {
    const costs = toCosts([cost('cheap', 0, 5), cost('dear', 0, 10, 3), cost('dear', 6, 20)], WEEK)
    expect(costs.map(({ name, total, isEstimated }) => [name, total, isEstimated])).toEqual([
      ['dear', 30, true],
      ['cheap', 5, false],
    ])
    expect(costs[0]?.values).toEqual([10, null, null, null, null, null, 20])
  })

  test('beyond seven models are combined, with nothing lost; eight are shown by name', () => {
    const rows = (count: number) => Array.from({ length: count }, (_, at) => cost(`m${at}`, at % 7, 100 - at))
    expect(toCosts(rows(8), WEEK).map(({ name }) => name)).not.toContain(OTHER)
    const many = toCosts(rows(12), WEEK)
    expect(many.map(({ name }) => name).slice(6)).toEqual(['m6', OTHER])
    expect(many.reduce((sum, { total }) => sum + total, 0)).toBe(
      rows(12).reduce((sum, row) => sum + row.cost_nano_usd, 0),
    )
  })

  test('are stacked, and without any value there is a gap', () => {
    expect(toStack([{ values: [1, null, null] }, { values: [2, 3, null] }])).toEqual([
      [1, null, null],
      [3, 3, null],
    ])
  })
})

test('a column without requests has no latency, rather than zero', () => {
  const row = {
    day_ms: WEEK.sinceMs,
    requests: 4,
    errors: 1,
    cuts: 0,
    first_token_p50_ms: 300,
    first_token_p95_ms: 900,
  }
  const [first, second] = toColumns([row], WEEK)
  expect(first).toMatchObject({ requests: 4, failed: 1, firstTokenP50Ms: 300 })
  expect(second).toMatchObject({ requests: 0, firstTokenP50Ms: null })
})

test('shares are of the cost, or of requests if everything is free', () => {
  const usage = [{ key_id: '1', key: 'ann', requests: 1, cost_nano_usd: 75 }]
  const total = { requests: 4, cost_nano_usd: 100 }
  expect(toShares('key', { usage, total })).toMatchObject([{ id: '1', name: 'ann', share: 0.75 }])
  const free = [{ key_id: '1', key: null, requests: 1, cost_nano_usd: 0 }]
  expect(toShares('key', { usage: free, total: { requests: 4, cost_nano_usd: 0 } })).toMatchObject([
    { name: '1', share: 0.25 },
  ])
})

describe('the breakdown', () => {
  const of = (key: string, requests: number, cost: number) => ({
    ...{ key_id: key, key, requests, cost_nano_usd: cost },
    ...{ prompt_tokens: 100, cached_tokens: 25, errors: 1, cuts: 0 },
  })

  test('divides sums, never ratios', () => {
    const keys = ['a', 'b'].map((id) => ({ id, owner_id: '1', owner: 'ann' }))
    const [ann] = toBreakdown('owner', byOwner([of('a', 1, 90), of('b', 3, 10)], keys), [])
    expect(ann).toMatchObject({ id: '1', name: 'ann', before: 0, change: 100 })
    expect(ann?.figures).toMatchObject({ cost_per_request_nano_usd: 25, cached_share: 0.25, error_share: 0.5 })
  })

  test('names the group behind more than half of a change, in either direction', () => {
    const before = [of('a', 1, 50), of('b', 1, 50)]
    expect(toCulprit('key', [of('a', 1, 90), of('b', 1, 60)], before)).toEqual({ id: 'a', name: 'a' })
    expect(toCulprit('key', [of('a', 1, 50)], before)?.id).toBe('b')
    expect(toCulprit('key', [of('a', 1, 60), of('b', 1, 60)], before)).toBeNull()
  })
})

describe('the comparison of a figure', () => {
  test('uses the words of its unit', () => {
    expect(toPointsDelta(0.012, 0.015)?.text).toBe('0.3 points less')
    expect(toPointsDelta(0.02, 0.01)?.text).toBe('1 point more')
    expect(toTimeDelta(500, 1_000)).toEqual({ direction: 'down', text: '50% faster' })
    expect(toTimeDelta(1_500, 1_000)?.text).toBe('50% slower')
  })

  test('is left out if there was nothing, or too little, before', () => {
    expect([toPointsDelta(0.1, null), toTimeDelta(null, 5)]).toEqual([null, null])
  })
})

describe('the forecast of a budget', () => {
  const budget = (spent: number, endMs: number | null, period: 'day' | 'month' | 'total' = 'day') => ({
    ...{ budget_nano_usd: 100, spent_nano_usd: spent },
    ...{ budget_period: period, budget_reset_ms: endMs },
  })

  test('continues at the current rate', () => {
    expect(toForecast(budget(25, NOW + DAY / 2), NOW)).toEqual({ atEndNanoUsd: 50, emptyMs: null })
    expect(toForecast(budget(80, NOW + DAY / 2), NOW)).toEqual({ atEndNanoUsd: 160, emptyMs: NOW + DAY / 8 })
  })

  test("uses the month's length", () => {
    const mid = Date.UTC(2027, 1, 15)
    expect(toForecast(budget(40, Date.UTC(2027, 2, 1), 'month'), mid)?.atEndNanoUsd).toBe(80)
  })

  test('is left out if it is too early, if nothing is left, or without a period', () => {
    expect(toForecast(budget(1, NOW + DAY - 60_000), NOW)).toBeNull()
    expect(toForecast(budget(100, NOW + DAY / 2), NOW)).toBeNull()
    expect(toForecast(budget(10, null, 'total'), NOW)).toBeNull()
  })

  test('lists the earliest end first', () => {
    const none = { ...budget(0, null), budget_nano_usd: null }
    expect(byUse([budget(10, null), none, budget(90, null)]).map((one) => one.spent_nano_usd)).toEqual([90, 10])
  })
})

test('a CSV file quotes where necessary, and no name is executed as a formula, or by a terminal', () => {
  expect(
    toCsv(
      ['Day', 'a,b (USD)'],
      [
        ['Nov 22', 0.5],
        ['=1+1', null],
        ['\u001b]0;owned\u0007\r\n\tten \u202eeman', -1],
      ],
    ),
  ).toBe('Day,"a,b (USD)"\r\nNov 22,0.5\r\n"\'=1+1",\r\n?]0;owned????ten ?eman,-1\r\n')
})

describe('errors', () => {
  const columns = toColumns(
    [0, 1, 2].map((day) => ({ day_ms: WEEK.sinceMs + day * DAY, requests: 100, errors: 8, cuts: 2 })),
    WEEK,
  )
  const failure = (code: string | null, day: number, requests: number) => ({
    ...{ at_ms: WEEK.sinceMs + day * DAY, error_code: code, requests },
  })

  test('are grouped by code, most frequent first, and add up to the totals, whatever is known of them', () => {
    const rows = [failure('b', 1, 3), failure('a', 1, 4), failure('a', 2, 6), failure(null, 2, 1)]
    const series = toFailures(rows, columns, WEEK, WEEK.sinceMs + DAY)
    expect(series.map(({ name, total }) => [name, total])).toEqual([
      ['a', 10],
      ['b', 3],
      [OTHERS, 7],
      [UNKNOWN, 10],
    ])
    expect(series[0]?.values).toEqual([0, 4, 6, null, null, null, null])
  })

  test('stopped by clients are counted, whatever their number', () => {
    const rows = ['a', 'client_closed_request', 'client_closed_request'].map((code, at) => failure(code, at, 9 - at))
    expect(toStopped(rows)).toBe(15)
  })

  test('beyond five codes are combined', () => {
    const rows = ['a', 'b', 'c', 'd', 'e', 'f'].map((code, at) => failure(code, 0, at === 0 ? 5 : 1))
    expect(toFailures(rows, columns.slice(0, 1), WEEK, 0).map(({ name, total }) => [name, total])).toEqual([
      ...[
        ['a', 5],
        ['b', 1],
        ['c', 1],
        ['d', 1],
        ['e', 1],
      ],
      [OTHERS, 1],
    ])
  })
})

test('the result of each row is its cost, or its requests if everything is free', () => {
  const row = (key: string, day: number, cost: number) => ({
    ...{ key_id: key, day_ms: WEEK.sinceMs + day * DAY, requests: 2, cost_nano_usd: cost },
  })
  expect(toLines('key', [row('a', 0, 5), row('a', 6, 7), row('b', 1, 0)], WEEK)).toEqual(
    new Map([
      ['a', [5, 0, 0, 0, 0, 0, 7]],
      ['b', [0, 0, 0, 0, 0, 0, 0]],
    ]),
  )
  expect(toLines('key', [row('b', 1, 0)], WEEK).get('b')?.[1]).toBe(2)
})

describe('activity by hour', () => {
  test('covers the last seven days of the range', () => {
    expect(toHeatSpan(null, NOW)).toEqual({ sinceMs: WEEK.sinceMs, untilMs: null })
    const end = Date.UTC(2026, 10, 10)
    expect(toHeatSpan(end, NOW)).toEqual({ sinceMs: end - 7 * DAY, untilMs: end })
    expect(toHeatSpan(end + HOUR, NOW).untilMs).toBe(end + DAY)
  })

  test('has nothing for future hours, and knows the busiest', () => {
    const rows = [
      { hour_ms: WEEK.sinceMs + 3 * HOUR, requests: 4 },
      { hour_ms: WEEK.sinceMs + 6 * DAY, requests: 9 },
    ]
    const days = toHeat(rows, WEEK.sinceMs, NOW)
    expect([days[0]?.hours[3], days[0]?.hours[4], days[6]?.hours[14], days[6]?.hours[15]]).toEqual([4, 0, 0, null])
    expect(toBusiest(days)).toEqual({ ms: WEEK.sinceMs + 6 * DAY, requests: 9 })
    expect([toShade(0, 9), toShade(1, 9), toShade(9, 9)]).toEqual([0, 1, 5])
    expect(toBusiest(toHeat([], WEEK.sinceMs, NOW))).toBeNull()
  })
})

test('changes of the catalog are marks within their column; others are not', () => {
  const entry = (action: string, ms: number) => ({
    ...{ id: '0f'.repeat(16), at_ms: ms, actor: 'cli', actor_name: null, action, subject: 'x', detail: {} },
  })
  const audit = [
    entry('models.edit', WEEK.sinceMs + 2 * DAY + DAY / 4),
    entry('keys.create', WEEK.sinceMs + DAY),
    entry('catalog.apply', WEEK.sinceMs - 1),
    entry('catalog.apply', WEEK.sinceMs),
  ]
  const marks = toMarks(audit, WEEK)
  expect(marks.map(({ at }) => at)).toEqual([-0.5, 1.75])
  expect([marksOf(marks, 0).length, marksOf(marks, 1).length, marksOf(marks, 2).length]).toEqual([1, 0, 1])
  expect(toIdAfter('0f'.repeat(16))).toBe(`${'0f'.repeat(15)}10`)
})

test('marks of a past range are found, however many changes came later', () => {
  const { before = '', since } = toMarksQuery({ sinceMs: WEEK.sinceMs, untilMs: WEEK.sinceMs + DAY })
  expect([since, /^[0-9a-f]{32}$/.test(before)]).toEqual([String(WEEK.sinceMs), true])
  expect([mintId(WEEK.sinceMs + DAY - 1) < before, mintId(WEEK.sinceMs + DAY + HOUR) < before]).toEqual([true, false])
  expect(toMarksQuery(WEEK)).not.toHaveProperty('before')
})
