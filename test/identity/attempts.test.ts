/** How often somebody may be wrong, and for whom that closes a door. */
import { expect, test } from 'bun:test'
import { Attempts } from '../../src/identity/attempts.ts'

const WINDOW = 15 * 60_000
const isOpen = (attempts: Attempts, address: string, name: string, nowMs: number) => {
  try {
    attempts.check(address, name, nowMs)
    return true
  } catch {
    return false
  }
}
const fail = (attempts: Attempts, times: number, address: (i: number) => string, name: (i: number) => string) => {
  for (let i = 0; i < times; i++) attempts.failed(address(i), name(i), 0)
}

test('five failures close an account to one address, whatever address that has in its network', () => {
  const attempts = new Attempts()
  fail(
    attempts,
    5,
    (i) => `2001:db8:0:1::${i}`,
    () => 'ann',
  )
  expect(isOpen(attempts, '2001:db8:0:1:ffff::9', 'ann', 1)).toBe(false)
  expect(isOpen(attempts, '2001:db8:0:2::1', 'ann', 1)).toBe(true)
  expect(isOpen(attempts, '2001:db8:0:1::1', 'bob', 1)).toBe(true)
  expect(isOpen(attempts, '2001:db8:0:1::1', 'ann', WINDOW)).toBe(true)
})

test('twenty close an address to all accounts, fifty an account to all addresses', () => {
  const attempts = new Attempts()
  fail(
    attempts,
    20,
    () => '192.0.2.1',
    (i) => `name ${i}`,
  )
  expect(isOpen(attempts, '192.0.2.1', 'somebody else', 1)).toBe(false)
  fail(
    attempts,
    50,
    (i) => `198.51.100.${i}`,
    () => 'ann',
  )
  expect(isOpen(attempts, '203.0.113.1', 'ann', 1)).toBe(false)
})

test('who is right takes back what was counted beforehand', () => {
  const attempts = new Attempts()
  for (let i = 0; i < 100; i++) {
    attempts.check('192.0.2.1', 'ann', i)
    attempts.failed('192.0.2.1', 'ann', i)
    attempts.succeeded('192.0.2.1', 'ann', i)
  }
  expect(isOpen(attempts, '192.0.2.1', 'bob', 100)).toBe(true)
})

test('a flood of names and addresses is remembered only as far as there is room', () => {
  const attempts = new Attempts()
  fail(
    attempts,
    30_000,
    (i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`,
    (i) => `name ${i}`,
  )
  fail(
    attempts,
    5,
    () => '192.0.2.1',
    () => 'ann',
  )
  expect(isOpen(attempts, '192.0.2.1', 'ann', 1)).toBe(false)
  expect(attempts.size).toBeLessThanOrEqual(10_000)
})
