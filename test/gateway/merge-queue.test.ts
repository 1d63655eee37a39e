/** Several producers, one reader: each at the reader's pace. */
import { expect, test } from 'bun:test'
import type { AnswerEvent } from '../../src/domain/events.ts'
import { MergeQueue } from '../../src/gateway/fan-out.ts'
import { testAnswerStream } from '../support/answer-stream.ts'
import { DONE, text } from '../support/answers.ts'

/** Reads to the end. */
async function read(queue: MergeQueue): Promise<AnswerEvent[]> {
  const events: AnswerEvent[] = []
  await queue.pump((batch) => events.push(...batch) > 0)
  return events
}

/** Reads one batch. */
async function readOne(queue: MergeQueue): Promise<AnswerEvent[]> {
  const events: AnswerEvent[] = []
  await queue.pump((batch) => {
    events.push(...batch)
    return false
  })
  return events
}

const nobody = () => {
  throw new Error('the reader has not left')
}

testAnswerStream((texts) => {
  const queue = new MergeQueue(() => {})
  void (async () => {
    for (const each of texts) {
      await Bun.sleep(1)
      if (!(await queue.put([text(each)]))) return
    }
    queue.end()
  })()
  return queue
})

test('delivers every item in order, then the end', async () => {
  const queue = new MergeQueue(nobody)
  void Promise.all([queue.put([text('a')]), queue.put([text('b', 1)])]).then(() => queue.end())
  expect(await read(queue)).toEqual([text('a'), text('b', 1), DONE])
})

test('lets a producer continue only once its batch is taken', async () => {
  const queue = new MergeQueue(nobody)
  const order: string[] = []
  const puts = ['a', 'b'].map((each) => queue.put([text(each)]).then(() => order.push(each)))
  await Bun.sleep(1)
  expect(order).toEqual([])
  await readOne(queue)
  await puts[0]
  expect(order).toEqual(['a'])
  await readOne(queue)
  await puts[1]
  expect(order).toEqual(['a', 'b'])
})

test('hands a batch to a waiting reader', async () => {
  const queue = new MergeQueue(nobody)
  const reading = readOne(queue)
  expect(await queue.put([text('a')])).toBe(true)
  expect(await reading).toEqual([text('a')])
})

test('tells its producers once when the reader has stopped', async () => {
  let left = 0
  const queue = new MergeQueue(() => {
    left++
  })
  const putting = queue.put([text('a')])
  queue.close()
  queue.close()
  expect(await putting).toBe(false)
  expect(await queue.put([text('b')])).toBe(false)
  expect(left).toBe(1)
})

test('releases a waiting reader when it is closed', async () => {
  let left = 0
  const queue = new MergeQueue(() => {
    left++
  })
  const reading = read(queue)
  await Bun.sleep(1)
  queue.close()
  expect(await reading).toEqual([])
  expect(left).toBe(1)
})

test("doesn't count as abandoned after it was read to its end", async () => {
  const queue = new MergeQueue(nobody)
  queue.end()
  expect(await read(queue)).toEqual([DONE])
  queue.close()
})

test('ends in an error after earlier items', async () => {
  const queue = new MergeQueue(nobody)
  void queue.put([text('a')])
  void queue.put([text('b')])
  queue.fail(new Error('broken'))
  expect(await readOne(queue)).toEqual([text('a')])
  const events: AnswerEvent[] = []
  await expect(queue.pump((batch) => events.push(...batch) > 0)).rejects.toThrow('broken')
  expect(events).toEqual([text('b')])
  expect(await read(queue)).toEqual([])
  queue.close()
})

test('throws at once if it fails while its reader waits', async () => {
  const queue = new MergeQueue(nobody)
  const reading = read(queue)
  await Bun.sleep(1)
  queue.fail(new Error('broken'))
  await expect(reading).rejects.toThrow('broken')
})
