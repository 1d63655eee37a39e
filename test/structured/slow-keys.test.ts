/** How slow checks count against their keys, and for how long. */
import { beforeEach, expect, test } from 'bun:test'
import { SlowKeys } from '../../src/gateway/structured-checker.ts'

let now: number
let keys: SlowKeys
beforeEach(() => {
  now = 1_000
  keys = new SlowKeys(5_000, () => now)
})

test('a key is slow for a minute after its last slow check', () => {
  keys.note('a', 200)
  now += 59_000
  keys.note('a', 1_500)
  expect(keys.isSlow('b')).toBe(false)
  now += 59_999
  expect(keys.isSlow('a')).toBe(true)
  now += 1
  expect(keys.isSlow('a')).toBe(false)
})

test('a key whose slow checks took too long in total waits until enough of them expire', () => {
  keys.note('a', 2_500)
  now += 10_000
  expect(keys.waitMs('a')).toBe(0)
  keys.note('a', 5_000)
  expect(keys.waitMs('a')).toBe(60_000)
  expect(keys.waitMs('b')).toBe(0)
  now += 60_000
  expect(keys.waitMs('a')).toBe(0)
  for (let n = 0; n < 3; n++) {
    keys.note('a', 2_500)
    now += 1_000
  }
  expect(keys.waitMs('a')).toBe(58_000)
})
