/** What was begun and not ended: whose it is, for how long, and how much of it is kept. */
import { expect, test } from 'bun:test'
import { PENDING_MS, Pending } from '../../src/identity/pending.ts'

const isS = (what: string) => what === 's'

test('what was begun is known by what the browser keeps and by what is meant, once, and for ten minutes', () => {
  const pending = new Pending<string>()
  const secret = pending.begin('s', '203.0.113.7', 0)
  expect([pending.take(secret, 1, () => false), pending.take('x', 1, isS), pending.take(null, 1, isS)]).toEqual([
    ...[null, null, null],
  ])
  expect(pending.take(secret, PENDING_MS - 1, isS)).toBe('s')
  expect(pending.take(secret, PENDING_MS - 1, isS)).toBeNull()
  const late = pending.begin('s', '203.0.113.7', 0)
  expect(pending.take(late, PENDING_MS, isS)).toBeNull()
})

test('nobody is pushed out by another network that begins many, and no more are kept than so many', () => {
  const pending = new Pending<string>()
  const secret = pending.begin('s', '203.0.113.7', 0)
  for (let i = 0; i < 1_000; i++) pending.begin('', `2001:db8::${i.toString(16)}`, 0)
  expect(pending.size).toBe(101)
  for (let i = 0; i < 5_000; i++) pending.begin('', `10.0.${i >> 8}.${i & 255}`, 0)
  expect(pending.take(secret, 0, isS)).not.toBeNull()
  for (let i = 0; i < 6_000; i++) pending.begin('', `10.1.${i >> 8}.${i & 255}`, 0)
  expect(pending.size).toBe(10_000)
  pending.begin('', '203.0.113.7', PENDING_MS)
  expect(pending.size).toBe(1)
})
