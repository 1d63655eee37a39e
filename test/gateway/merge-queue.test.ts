/** Several producers, one reader: each at the reader's pace. */
import { expect, test } from 'bun:test'
import { createFunnel } from '../../src/gateway/merge-queue.ts'

test('gives everything that was put, in order, then the last item', async () => {
  const funnel = createFunnel<number>(() => {})
  void Promise.all([funnel.put(1), funnel.put(2)]).then(() => funnel.end(3))
  expect(await Array.fromAsync(funnel)).toEqual([1, 2, 3])
})

test('lets a producer go on only once its item was taken', async () => {
  const funnel = createFunnel<number>(() => {})
  let free = false
  const putting = funnel.put(1).then(() => {
    free = true
  })
  await Bun.sleep(1)
  expect(free).toBe(false)
  await funnel[Symbol.asyncIterator]().next()
  await putting
  expect(free).toBe(true)
})

test('hands an item to a reader that waits already', async () => {
  const funnel = createFunnel<number>(() => {})
  const reading = funnel[Symbol.asyncIterator]().next()
  expect(await funnel.put(1)).toBe(true)
  expect(await reading).toEqual({ done: false, value: 1 })
})

test('tells its producers when the reader has left, and says so once', async () => {
  let left = 0
  const funnel = createFunnel<number>(() => {
    left++
  })
  const putting = funnel.put(1)
  const iterator = funnel[Symbol.asyncIterator]()
  await iterator.return?.()
  await iterator.return?.()
  expect(await putting).toBe(false)
  expect(await funnel.put(2)).toBe(false)
  expect(left).toBe(1)
})

test('that was read to its end is not left', async () => {
  let left = 0
  const funnel = createFunnel<number>(() => {
    left++
  })
  funnel.end(1)
  const iterator = funnel[Symbol.asyncIterator]()
  expect(await iterator.next()).toEqual({ done: false, value: 1 })
  await iterator.return?.()
  expect(left).toBe(0)
})

test('ends in an error after what was put', async () => {
  const funnel = createFunnel<number>(() => {})
  void funnel.put(1).then(() => funnel.fail(new Error('broken')))
  const iterator = funnel[Symbol.asyncIterator]()
  expect(await iterator.next()).toEqual({ done: false, value: 1 })
  await expect(iterator.next()).rejects.toThrow('broken')
  expect(await iterator.next()).toMatchObject({ done: true })
})
