/** Lazily created values. */
import { expect, test } from 'bun:test'
import { once } from '../../src/domain/once.ts'

test('it is created once for all callers, and not before', async () => {
  let times = 0
  const made = once(async () => ++times)
  expect(made.begun()).toBeNull()
  expect(await Promise.all([made.get(), made.get(), made.begun()])).toEqual([1, 1, 1])
  expect([await made.get(), times]).toEqual([1, 1])
})

test('a failure reaches all waiting callers, and the next caller retries', async () => {
  let times = 0
  const made = once(async () => {
    if (++times === 1) throw new Error('no room')
    return times
  })
  const waiting = await Promise.allSettled([made.get(), made.get()])
  expect(waiting.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(made.begun()).toBeNull()
  expect(await made.get()).toBe(2)
})
