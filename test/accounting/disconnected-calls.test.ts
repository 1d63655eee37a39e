/** Calls that are read on after their clients disconnect: for how long, and how many per key. */
import { expect, test } from 'bun:test'
import { DisconnectedCalls } from '../../src/accounting/call.ts'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import { toKey, toTarget } from '../support/snapshot.ts'

const toReading = () => {
  const ends: number[] = []
  return { ends, endWithin: (ms: number) => void ends.push(ms) }
}

test.each([
  [{}, 10_000],
  [{ local: true }, 0],
  [{ disconnectGraceMs: 500 }, 500],
  [{ disconnectGraceMs: 0 }, 0],
  [{ disconnectGraceMs: 500, local: true }, 500],
])('a call to an upstream with %j is read on for %i ms', (upstream, ms) => {
  expect(new DisconnectedCalls({ disconnectGraceMs: 10_000 }).readOnMs(toTarget(upstream).upstream)).toBe(ms)
})

test('a key without a concurrency limit may have the total maximum', () => {
  const left = new DisconnectedCalls({ disconnectGraceMs: 10_000 })
  const readings = Array.from({ length: 100 }, toReading)
  for (const reading of readings) left.add(toKey(), reading)
  expect(readings.flatMap(({ ends }) => ends)).toEqual([])
})

test.each([
  [3, 8],
  [20, 20],
])('a key with a concurrency of %i has %i of them, and the oldest ends for a new one', (concurrency, most) => {
  const left = new DisconnectedCalls({ disconnectGraceMs: 10_000 })
  const key = toKey({ limits: { ...NO_LIMITS, concurrency } })
  const [other, ended, ...readings] = Array.from({ length: most + 3 }, toReading)
  left.add({ ...key, quotaId: 'other' }, other as ReturnType<typeof toReading>)
  left.add(key, ended as ReturnType<typeof toReading>)
  left.delete(key.quotaId, ended as ReturnType<typeof toReading>)
  for (const reading of readings) left.add(key, reading)
  expect([other, ended, ...readings].map((reading) => reading?.ends)).toEqual([[], [], [0], ...Array(most).fill([])])
})

test('keys of one owner share a maximum', () => {
  const left = new DisconnectedCalls({ disconnectGraceMs: 10_000 })
  const limits = { ...NO_LIMITS, concurrency: 1 }
  const readings = Array.from({ length: 9 }, toReading)
  for (const [i, reading] of readings.entries()) left.add(toKey({ id: `k${i}`, ownerId: 'ann', limits }), reading)
  expect(readings.map(({ ends }) => ends)).toEqual([[0], ...Array(8).fill([])])
})

test('a stop waits two seconds for them, whether they exist already or not', () => {
  const left = new DisconnectedCalls({ disconnectGraceMs: 10_000 })
  const reading = toReading()
  left.add(toKey(), reading)
  left.drain()
  expect(reading.ends).toEqual([2_000])
  const { upstream } = toTarget()
  expect([left.readOnMs(upstream), left.readOnMs({ ...upstream, disconnectGraceMs: 500 })]).toEqual([2_000, 500])
})
