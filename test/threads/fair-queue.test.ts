/** The queue for one model. */
import { describe, expect, test } from 'bun:test'
import { FairQueue } from '../../src/threads/fair-queue.ts'

const line = (most: number, ...names: string[]) => {
  const made = new FairQueue<{ owner: string; sinceMs: number; name: string }>(most)
  const ones = names.map((name, index) => ({ owner: name.charAt(0), sinceMs: index, name }))
  const turnedAway = ones.flatMap((one) => made.join(one)?.name ?? [])
  return { made, ones, turnedAway }
}

describe('the queue of a model', () => {
  test('has owners take turns, and reports each position', () => {
    const { made, ones } = line(10, 'a1', 'a2', 'a3', 'b1', 'c1', 'c2')
    const told = ones.map((one) => [made.positionOf(one), one.name]).toSorted()
    const served = Array.from({ length: 6 }, (_, index) => [index + 1, made.next()?.name ?? ''])
    expect(told).toEqual(served)
    expect(served.map(([, name]) => name)).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
    expect(made.next()).toBeUndefined()
    expect(made.length).toBe(0)
  })

  test('rejects the last item of the owner with the most, for an owner with fewer', () => {
    const { made, turnedAway } = line(3, 'a1', 'a2', 'a3', 'b1')
    expect(turnedAway).toEqual(['a3'])
    expect([made.length, made.next()?.name, made.next()?.name, made.next()?.name]).toEqual([3, 'a1', 'b1', 'a2'])
  })

  test('rejects a new item if no one has more than its owner', () => {
    expect(line(2, 'a1', 'a2', 'a3').turnedAway).toEqual(['a3'])
    expect(line(2, 'a1', 'b1', 'c1').turnedAway).toEqual(['c1'])
    expect(line(3, 'a1', 'a2', 'b1', 'b2').turnedAway).toEqual(['b2'])
  })

  test('forgets canceled items, and frees their slots', () => {
    const { made, ones } = line(2, 'a1', 'b1')
    const [first] = ones
    if (!first) throw new Error('nobody has joined')
    expect([made.leave(first), made.leave(first), made.positionOf(first), made.length]).toEqual([true, false, 0, 1])
    expect(made.sinceMs()).toBe(1)
    expect(made.join({ owner: 'c', sinceMs: 9, name: 'c1' })).toBeNull()
    expect(made.takeAll().map(({ name }) => name)).toEqual(['b1', 'c1'])
    expect([made.length, made.sinceMs()]).toEqual([0, null])
  })
})
