/** State of a budget: where warnings begin. */
import { describe, expect, test } from 'bun:test'
import { toBudgetStatus } from '../../src/keys/spend-status.ts'

describe('the state changes at exactly 80 and 100 percent', () => {
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
      const budget = { nanoUsd, period: 'day' } as const
      const status = { budget, spentNanoUsd: spent, percent, resetMs: 5, state }
      expect<unknown>(toBudgetStatus(budget, spent, 5)).toEqual(status)
    })
  }
  test('and a zero budget is spent', () => {
    expect(toBudgetStatus({ nanoUsd: 0, period: 'total' }, 0, null)).toMatchObject({ state: 'spent' })
  })
})
