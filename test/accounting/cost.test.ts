/** The most that a call may cost, before anybody knows what it does. */
import { expect, test } from 'bun:test'
import { toMostNanoUsd } from '../../src/accounting/cost.ts'
import type { PricingItem } from '../../src/domain/usage.ts'

test('what a call may cost at most has its prompt written to a cache for as long as has a price', () => {
  const body = { model: 'm', messages: [] }
  const most = (more: Partial<PricingItem>) =>
    toMostNanoUsd([{ prompt: '0.000001', completion: '0', ...more }], 10, 5, body)
  const write = { input_cache_write: '0.000002' }
  expect([{}, write, { ...write, input_cache_write_1h: '0.000003' }].map(most)).toEqual([10_000, 20_000, 30_000])
  expect(most({ input_cache_write_1h: '0.000003' })).toBe(30_000)
})
