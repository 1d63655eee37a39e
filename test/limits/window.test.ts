/** The sliding window compared with a model: a list of all amounts ever added. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { WINDOW_MS, Window } from '../../src/limits/rates.ts'

const GRAIN_MS = 100

/** Steps in ms: within a bucket, across buckets, across windows, and fractions of a ms as of a real clock. */
const step = fc.oneof(
  fc.integer({ min: 0, max: 150 }),
  fc.integer({ min: 0, max: 70_000 }),
  fc.double({ min: 0, max: 300, noNaN: true }),
)
const arrivals = fc.array(fc.record({ step, tokens: fc.integer({ min: 0, max: 500 }) }), { maxLength: 60 })

function play(list: { step: number; tokens: number }[]) {
  const window = new Window()
  let nowMs = 0
  const came = list.map(({ step, tokens }) => {
    nowMs += step
    return { atMs: nowMs, tokens, grain: window.add(1, tokens, nowMs) }
  })
  return { window, came, nowMs }
}

test('amounts expire after 60 s, never earlier, and at most a bucket later', () => {
  fc.assert(
    fc.property(arrivals, step, (list, later) => {
      const { window, came, nowMs } = play(list)
      const seenMs = nowMs + later
      const sum = (forMs: number) =>
        came.filter(({ atMs }) => atMs + forMs > seenMs).reduce((total, { tokens }) => total + tokens, 0)
      const used = window.used('tokens', seenMs)
      expect(used).toBeGreaterThanOrEqual(sum(WINDOW_MS))
      expect(used).toBeLessThanOrEqual(sum(WINDOW_MS + GRAIN_MS))
    }),
  )
})

test('the wait for room is exact: enough room at its end, not a moment before', () => {
  fc.assert(
    fc.property(arrivals, fc.integer({ min: 0, max: 2_000 }), (list, most) => {
      const { window, nowMs } = play(list)
      const waitMs = window.waitMs('tokens', most, nowMs)
      if (waitMs > 0) expect(window.used('tokens', nowMs + waitMs - 0.01)).toBeGreaterThan(most)
      // Times are sums of fractions: a thousandth of a ms is rounding.
      expect(window.used('tokens', nowMs + waitMs + 0.001)).toBeLessThanOrEqual(most)
    }),
  )
})

test('amounts of one time expire together, 60 s later to the ms', () => {
  const window = new Window()
  for (let i = 0; i < 10; i++) window.add(1, 5, 0)
  expect([59_999, 60_000].map((ms) => window.used('requests', ms))).toEqual([10, 0])
})

test('a minute has about 600 entries, whatever the number of amounts', () => {
  const window = new Window()
  const entries = new Set<object>()
  for (let ms = 0; ms < WINDOW_MS; ms++) entries.add(window.add(1, 1, ms))
  expect(window.used('requests', WINDOW_MS - 1)).toBe(WINDOW_MS)
  expect(entries.size).toBeLessThanOrEqual(600)
  // And no amount stays for longer: amounts expire as they came.
  expect(window.used('requests', WINDOW_MS + 30_000)).toBeLessThan(30_000 + GRAIN_MS)
})

test('an amount with a time before the newest expires with the newest, not before', () => {
  const window = new Window()
  window.add(1, 1, 30_000)
  window.add(1, 1, 0)
  expect([60_000, 89_999, 90_000].map((ms) => window.used('requests', ms))).toEqual([2, 2, 0])
})

describe('a correction', () => {
  test('applies as long as its bucket is in the window', () => {
    const window = new Window()
    const grain = window.add(1, 100, 0)
    window.correct(grain, 0, 50)
    expect(window.used('tokens', 59_999)).toBe(150)
    window.correct(grain, -1, -150)
    expect([window.used('requests', 59_999), window.emptyMs('tokens', 59_999)]).toEqual([0, 0])
  })

  test("of an expired amount doesn't change later ones", () => {
    const window = new Window()
    const grain = window.add(1, 100, 0)
    window.add(1, 7, 60_000)
    window.correct(grain, -1, 900)
    expect([window.used('requests', 60_000), window.used('tokens', 60_000)]).toEqual([1, 7])
  })
})

test.each([
  ['is empty', [], 0],
  ['has one', [0], 59_000],
  ['has several', [0, 500, 900], 59_900],
] as const)('a window that %s says when it is wholly free', (_, times, ms) => {
  const window = new Window()
  for (const time of times) window.add(1, 1, time)
  expect(window.emptyMs('requests', 1_000)).toBe(ms)
})

test('a wait for less than zero never ends', () => {
  const window = new Window()
  for (const most of [-1, Number.NaN]) expect(window.waitMs('tokens', most, 0)).toBe(Number.POSITIVE_INFINITY)
})
