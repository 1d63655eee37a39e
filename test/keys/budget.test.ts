/** How a budget stands: its period, and from where on it is a warning. */
import { describe, expect, test } from 'bun:test'
import type { Period } from '../../src/domain/settings.ts'
import { NO_PAST, type Past, toStanding } from '../../src/keys/budget.ts'

const NOW = Date.UTC(2026, 10, 21, 13)
/** A ledger that says this of whatever is asked. */
const past = (spentNanoUsd: number): Past => ({ ...NO_PAST, spentIn: () => spentNanoUsd })

test('what has no budget has no standing, and nothing is asked about it', () => {
  const spentIn = () => {
    throw new Error('asked')
  }
  expect(toStanding(null, { ...NO_PAST, spentIn }, NOW)).toBeNull()
})

describe('what was spent is asked for since the period began, and the next one is named', () => {
  const scenarios: [Period, number, number | null][] = [
    ['day', Date.UTC(2026, 10, 21), Date.UTC(2026, 10, 22)],
    ['week', Date.UTC(2026, 10, 16), Date.UTC(2026, 10, 23)],
    ['month', Date.UTC(2026, 10, 1), Date.UTC(2026, 11, 1)],
    ['total', 0, null],
  ]
  for (const [period, fromMs, resetMs] of scenarios) {
    test(`for ${period}`, () => {
      const asked: number[] = []
      const standing = toStanding(
        { nanoUsd: 5, period },
        { ...NO_PAST, spentIn: ({ fromMs }) => asked.push(fromMs) },
        NOW,
      )
      expect(standing).toEqual({
        budget: { nanoUsd: 5, period },
        spentNanoUsd: 1,
        percent: 20,
        resetMs,
        state: 'ok',
      })
      expect(asked).toEqual([fromMs])
    })
  }
})

describe('the state changes at 80 and at 100 percent, exactly', () => {
  const scenarios: [number, number, string, number][] = [
    [0, 1_000, 'ok', 0],
    [799, 1_000, 'ok', 79],
    [800, 1_000, 'warning', 80],
    [999, 1_000, 'warning', 99],
    [1_000, 1_000, 'spent', 100],
    [1_250, 1_000, 'spent', 125],
    [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER, 'warning', 99],
  ]
  for (const [spent, nanoUsd, state, percent] of scenarios) {
    test(`${spent} of ${nanoUsd} is ${state}`, () => {
      expect(toStanding({ nanoUsd, period: 'day' }, past(spent), NOW)).toMatchObject({ state, percent })
    })
  }
  test('and a budget of nothing is spent', () => {
    expect(toStanding({ nanoUsd: 0, period: 'day' }, NO_PAST, NOW)).toMatchObject({ state: 'spent' })
  })
})
