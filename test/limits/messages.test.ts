/** Times in messages for clients. */
import { expect, test } from 'bun:test'
import { toDuration, toRetryHeaders } from '../../src/limits/messages.ts'

test.each([
  [0, '0s'],
  [-3, '0s'],
  [0.2, '1ms'],
  [2, '2ms'],
  [999, '999ms'],
  [999.5, '1s'],
  [1_000, '1s'],
  [1_574, '1.574s'],
  [8_640, '8.64s'],
  [59_999.01, '1m0s'],
  [60_000, '1m0s'],
  [61_230, '1m1.23s'],
  [360_000, '6m0s'],
])('%d ms are the Go duration %p', (ms, text) => {
  expect(toDuration(ms)).toBe(text)
})

test.each([
  [1, '1', '1'],
  [999, '1', '999'],
  [1_001, '2', '1001'],
  [60_000, '60', '60000'],
  [70_000, '60', '60000'],
])('%d ms are said to clients in whole seconds and in ms', (ms, seconds, exact) => {
  expect(toRetryHeaders(ms)).toEqual({ 'retry-after': seconds, 'retry-after-ms': exact })
})

test('a client that need not retry is told so, without a time', () => {
  expect(toRetryHeaders(null)).toEqual({ 'x-should-retry': 'false' })
})
