import { describe, expect, test } from 'bun:test'
import { toFilters as read } from '../../src/dashboard/reports/filters.ts'
import {
  FILTER_NAMES,
  merge,
  toCallBars,
  toCustom,
  toEachText,
  toExampleModel,
  toFailureText,
  toHourOfId,
  toKindText,
  toListQuery,
  toLiveQuery,
  toPeriod,
  toPeriodText,
  toPeriodValue,
  toUnpricedText,
} from '../../src/dashboard/requests/words.ts'

const call = (created_ms: number, duration_ms: number | null, first_token_ms: number | null = null) => ({
  ...{ created_ms, duration_ms, first_token_ms },
})

describe('the bars of calls', () => {
  test('follow one another within the total duration', () => {
    const { ms, bars } = toCallBars(call(1_000, 1_000), [call(1_000, 200), call(1_250, 750, 250)], 9_000)
    expect(ms).toBe(1_000)
    expect(bars).toEqual([
      { start: 0, waiting: 20, answering: 0 },
      { start: 25, waiting: 25, answering: 50 },
    ])
  })

  test('extend to now while a call is in flight', () => {
    const { ms, bars } = toCallBars(call(1_000, null), [call(1_000, null, 500)], 3_000)
    expect([ms, bars]).toEqual([2_000, [{ start: 0, waiting: 25, answering: 75 }]])
  })

  test('are visible, and within their area, however short a call was', () => {
    const { bars } = toCallBars(call(0, 100_000), [call(0, 0), call(100_000, 0)], 0)
    for (const { start, waiting, answering } of bars) {
      expect(waiting).toBeGreaterThan(0)
      expect(start + waiting + answering).toBeLessThanOrEqual(100)
    }
  })
})

describe('the period of the list', () => {
  const NOW = Date.UTC(2026, 10, 28, 12)
  const [yesterday, custom] = [
    { since: 'yesterday', until: 'today' },
    { since: '2026-11-27T14:00', until: '' },
  ]

  test('is a named one, or two times in UTC', () => {
    expect([yesterday, custom, { since: '', until: '' }].map(toPeriod)).toEqual(['yesterday', 'custom', ''])
    expect(toPeriodText(yesterday, NOW)).toBe('Yesterday (UTC)')
    expect(toPeriodText(custom, NOW)).toBe('Since Nov 27, 14:00 UTC')
    expect(toPeriodText({ since: String(NOW - 3_600_000), until: '2026-11-28T12:00' }, NOW)).toBe(
      'Nov 28, 11:00 to Nov 28, 12:00 UTC',
    )
    expect(toPeriodText({ since: '', until: '' }, NOW)).toBe('')
  })

  test('custom starts with the shown one, and accepts times in either order', () => {
    expect(toPeriodValue('custom', yesterday, NOW)).toEqual({ since: '2026-11-27T00:00', until: '2026-11-28T00:00' })
    expect(toPeriodValue('yesterday', custom, NOW)).toEqual(yesterday)
    expect(toCustom('2026-11-28T12:00', '2026-11-27T12:00').since).toBe('2026-11-27T12:00')
  })
})

describe('the filters of the list', () => {
  const toFilters = (query: string) => read(FILTER_NAMES, new URLSearchParams(query))
  const filters = toFilters('key=4f9a&state=errors&since=24h&other=1')

  test("are the API's query, one page at a time", () => {
    expect(toListQuery(filters, 'abc', 50)).toEqual({
      ...{ key: '4f9a', errors: true, since: '24h', before: 'abc', limit: 50 },
    })
    expect(toListQuery(toFilters(''), null, 50)).toEqual({ limit: 50 })
  })

  test('also apply to live requests, except their time', () => {
    expect(toLiveQuery(filters)).toEqual({ key: '4f9a', errors: true })
    expect(toLiveQuery(toFilters('state=cut'))).toEqual({ status: 'cut' })
  })
})

test('live requests come first, each once with its current state, up to the maximum', () => {
  const rows = merge(
    [
      { id: '03', status: 'ok' },
      { id: '02', status: 'ok' },
    ],
    [
      { id: '02', status: 'open' },
      { id: '01', status: 'ok' },
      { id: '00', status: 'ok' },
    ],
    3,
  )
  expect(rows.map(({ id, status }) => `${id} ${status}`)).toEqual(['03 ok', '02 ok', '01 ok'])
})

test('an error is shown by its status and its code', () => {
  expect(toFailureText({ http_status: 503, error_code: 'upstream_error' })).toBe('503 upstream_error')
  expect(toFailureText({ http_status: null, error_code: 'cancelled' })).toBe('cancelled')
  expect(toFailureText({ http_status: 200, error_code: null })).toBe('')
})

test('the price of each is shown per million tokens, per search, or per second', () => {
  expect(toEachText('prompt', '0.000001')).toBe('$1.00 per million')
  expect(toEachText('web_searches', '0.01')).toBe('$0.01')
  expect([toKindText('compute_ms'), toEachText('compute_ms', '0.0005')]).toEqual([
    'ms of compute',
    '$0.0005 per second',
  ])
})

test('items of the cost use the names of the token counts', () => {
  expect(['prompt', 'cache_read', 'completion', 'web_searches'].map(toKindText)).toEqual([
    ...['input', 'cached input', 'output', 'web searches'],
  ])
})

test('the example request is for a model that exists, ready if any is', () => {
  const [demo, down] = [
    { slug: 'tollgate/demo', is_ready: true },
    { slug: 'acme/down', is_ready: false },
  ]
  const large = { slug: 'acme/large', is_ready: true }
  expect([[down, large, demo], [down, large], [down], []].map(toExampleModel)).toEqual([
    ...['tollgate/demo', 'acme/large', 'acme/down', null],
  ])
})

test('usage without a price is named, and whether the cost is too low or too high, if known', () => {
  expect(toUnpricedText(['mode'], 'flex')).toBe(
    'The actual cost may be lower: no price is set for calls served as flex.',
  )
  expect(toUnpricedText(['mode', 'input_cache_write_1h'], 'flex')).toBe(
    'The actual cost may differ: no price is set for calls served as flex, 1-hour cache writes.',
  )
})

test('an ID of Tollgate has its hour, and others do not', () => {
  const nowMs = Date.UTC(2026, 10, 16, 12, 30)
  const id = `${nowMs.toString(16).padStart(12, '0')}7a`.padEnd(32, '0')
  const hour = Date.UTC(2026, 10, 16, 12)
  expect([`req_${id}`, id, id.slice(-8), 'f'.repeat(32)].map((one) => toHourOfId(one, nowMs))).toEqual([
    ...[hour, hour, null, null],
  ])
})
