/** Work on a thread: what it costs whom when a request is slow, when one breaks the thread, and when none comes. */
import { afterEach, expect, test } from 'bun:test'
import { createThread, type Thread, type ThreadOptions } from '../src/threads.ts'

/** Answers with what it is sent; `forever`, `throw` and `exit` do as they say. */
const ECHO = `
  self.onmessage = ({ data }) => {
    if (data === 'throw') throw new Error('broken')
    if (data === 'exit') process.exit(0)
    if (data === 'forever') for (;;);
    self.postMessage('said ' + data)
  }
  self.postMessage('ready')`

let thread: Thread<string, string>
let starts: number
function open(options: ThreadOptions = {}) {
  starts = 0
  const createWorker = () => {
    starts++
    return new Worker(URL.createObjectURL(new Blob([ECHO])))
  }
  thread = createThread('nobody', { createWorker, ...options })
  return thread
}
afterEach(() => thread.close())

test('requests are answered in turn, by one thread that starts on first need', async () => {
  const { ask } = open()
  expect(starts).toBe(0)
  expect(await Promise.all(['a', 'b', 'c'].map((word) => ask(word)))).toEqual(['said a', 'said b', 'said c'])
  expect(starts).toBe(1)
})

test('one that is too slow costs itself the answer and the others a new thread', async () => {
  const { ask } = open()
  const asked = [ask('a'), ask('forever', { limitMs: 50 }), ask('b', { limitMs: 10_000 }), ask('c')]
  expect(await Promise.all(asked)).toEqual(['said a', null, 'said b', 'said c'])
  expect(starts).toBe(2)
})

test.each(['throw', 'exit'])('one at which the thread breaks (%s) fails alone', async (word) => {
  const { ask } = open()
  const [before, broken, after] = await Promise.allSettled([ask('a'), ask(word), ask('b')])
  expect(before).toMatchObject({ value: 'said a' })
  expect(broken).toMatchObject({ status: 'rejected' })
  expect(after).toMatchObject({ value: 'said b' })
})

test('a thread that does not start fails all who wait for it, once', async () => {
  const { ask } = open({ createWorker: () => new Worker(URL.createObjectURL(new Blob(['throw new Error("no")']))) })
  const asked = await Promise.allSettled([ask('a'), ask('b')])
  expect(asked.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
})

test('whoever is no longer wanted is passed over, and whoever waits too long is told so', async () => {
  const { ask } = open({ patienceMs: 200 })
  await ask('a')
  const gone = AbortSignal.abort()
  expect(await Promise.all([ask('forever', { limitMs: 10_000 }), ask('b')])).toEqual([null, null])
  thread.close()
  const other = open()
  expect(await Promise.all([other.ask('a'), other.ask('forever', { signal: gone }), other.ask('b')])).toEqual([
    'said a',
    null,
    'said b',
  ])
})

test('closing tells all at once, and nothing is started any more', async () => {
  const { ask } = open()
  await ask('a')
  const asked = [ask('forever'), ask('b')]
  thread.close()
  expect(await Promise.all(asked)).toEqual([null, null])
  expect(await ask('c')).toBeNull()
  expect(starts).toBe(1)
})

test('an idle thread is given back', async () => {
  const { ask } = open({ idleMs: 1 })
  await ask('a')
  await Bun.sleep(50)
  await ask('b')
  expect(starts).toBe(2)
})
