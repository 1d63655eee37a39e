/** Work on a thread: order, the effect of slow and failing requests, and of a thread that doesn't start. */
import { afterEach, expect, test } from 'bun:test'
import { type AskOptions, createThread, type NoReply, type ThreadOptions } from '../../src/threads/thread.ts'
import { until } from '../support/until.ts'

/** Returns its input, `slow` after a while; `forever`, `throw`, and `exit` do as they say. */
const ECHO = `
  self.onmessage = ({ data }) => {
    if (data === 'throw') throw new Error('broken')
    if (data === 'exit') process.exit(0)
    if (data === 'forever') for (;;);
    if (data === 'slow') for (const end = performance.now() + 200; performance.now() < end; );
    self.postMessage({ said: data })
  }
  self.postMessage('ready')`

let thread: ReturnType<typeof createThread<string, { said: string }>>
let starts: number
/** In the order of their ends. */
let ends: string[]
function open(options: ThreadOptions = {}) {
  starts = 0
  ends = []
  const createWorker = () => {
    starts++
    return new Worker(URL.createObjectURL(new Blob([ECHO])))
  }
  thread = createThread('nobody', { createWorker, ...options })
  return ask
}
afterEach(() => thread.close())

async function ask(word: string, options: Partial<AskOptions> = {}): Promise<string | NoReply> {
  const reply = await thread.ask(word, { owner: 'a', ...options })
  ends.push(word)
  return typeof reply === 'string' ? reply : `said ${reply.said}`
}

test('requests are handled in turn by one thread, started on first use', async () => {
  const ask = open()
  expect(starts).toBe(0)
  expect(await Promise.all(['a', 'b', 'c'].map((word) => ask(word)))).toEqual(['said a', 'said b', 'said c'])
  expect(starts).toBe(1)
})

test('a slow request loses its reply, and the others get a new thread', async () => {
  const ask = open()
  const asked = [ask('a'), ask('forever', { limitMs: 50 }), ask('b', { limitMs: 10_000 }), ask('c')]
  expect(await Promise.all(asked)).toEqual(['said a', 'limit', 'said b', 'said c'])
  expect(starts).toBe(2)
})

test('before a slow thread has to be ended, another is started for waiting requests', async () => {
  const ask = open({ keepSpare: true })
  await ask('a')
  expect(starts).toBe(1)
  const asked = [ask('forever', { limitMs: 200 }), ask('b')]
  await until('another thread', () => starts === 2)
  expect(ends).toEqual(['a'])
  expect(await Promise.all(asked)).toEqual(['limit', 'said b'])
  expect(starts).toBe(2)
})

test("a late request continues while no one else waits, and otherwise ends with all of its owner's requests", async () => {
  const ask = open({ keepSpare: true })
  const late = { limitMs: 60_000, lateMs: 20 }
  expect(await Promise.all([ask('slow', late), ask('a1')])).toEqual(['said slow', 'said a1'])
  const asked = [ask('forever', late), ask('a2')]
  await Bun.sleep(50)
  expect(await ask('b1', { owner: 'b' })).toBe('said b1')
  expect(await Promise.all(asked)).toEqual(['late', 'dismissed'])
  const again = [ask('forever', late), ask('b2', { owner: 'b' })]
  expect(await Promise.all(again)).toEqual(['late', 'said b2'])
})

test("owners take turns, and each one's requests keep their order", async () => {
  const ask = open()
  const asked = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((word) => ask(word, { owner: word.charAt(0) }))
  await Promise.all(asked)
  expect(ends).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4'])
})

test('an owner with too many queued requests is told at once, and no other is affected', async () => {
  const ask = open()
  const few = { maxWaiting: 2 }
  const asked = ['a1', 'a2', 'a3', 'a4', 'b1'].map((word) => ask(word, { owner: word.charAt(0), ...few }))
  expect(await Promise.all(asked)).toEqual(['said a1', 'said a2', 'said a3', 'full', 'said b1'])
  expect(await ask('a5', few)).toBe('said a5')
})

test("an owner's queued requests can be dismissed; the running one continues", async () => {
  const ask = open()
  const asked = [ask('a1'), ask('a2'), ask('a3'), ask('b1', { owner: 'b' })]
  thread.dismiss('a')
  expect(await Promise.all(asked)).toEqual(['said a1', 'dismissed', 'dismissed', 'said b1'])
})

test.each(['throw', 'exit'])('a request that breaks the thread (%s) fails, and no other does', async (word) => {
  const ask = open()
  const [before, broken, after] = await Promise.allSettled([ask('a'), ask(word), ask('b')])
  expect(before).toMatchObject({ value: 'said a' })
  expect(broken).toMatchObject({ status: 'rejected' })
  expect(after).toMatchObject({ value: 'said b' })
})

test("a thread that doesn't start fails all waiting requests, once", async () => {
  const ask = open({ createWorker: () => new Worker(URL.createObjectURL(new Blob(['throw new Error("no")']))) })
  const asked = await Promise.allSettled([ask('a'), ask('b')])
  expect(asked.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
})

test('a request that waits too long is rejected, and an aborted one is released at once', async () => {
  const ask = open({ patienceMs: 200 })
  await ask('a')
  expect(await Promise.all([ask('forever', { limitMs: 10_000 }), ask('b')])).toEqual(['patience', 'patience'])
  thread.close()
  open()
  const client = new AbortController()
  const { signal } = client
  const asked = [ask('forever', { signal }), ask('b', { signal }), ask('c', { signal: AbortSignal.abort() })]
  client.abort()
  expect(await Promise.all(asked.slice(1))).toEqual(['aborted', 'aborted'])
  expect(ends.slice(-2)).toEqual(['c', 'b'])
})

test('closing rejects all at once, and starts nothing more', async () => {
  const ask = open()
  await ask('a')
  const asked = [ask('forever'), ask('b')]
  thread.close()
  expect(await Promise.all(asked)).toEqual(['closed', 'closed'])
  expect(await ask('c')).toBe('closed')
  expect(starts).toBe(1)
})

test('an idle thread is released', async () => {
  const ask = open({ idleMs: 1 })
  await ask('a')
  await Bun.sleep(50)
  await ask('b')
  expect(starts).toBe(2)
})

test('without free files no thread is started, which would end the process; one is once there are some', async () => {
  const script = `
    import { closeSync, openSync } from 'node:fs'
    import { createThread } from './src/threads/thread.ts'
    const createWorker = () => new Worker(URL.createObjectURL(new Blob([${JSON.stringify(ECHO)}])))
    const thread = createThread('nobody', { createWorker })
    const files = []
    try { for (;;) files.push(openSync('/dev/null', 'r')) } catch {}
    const asked = thread.ask('a', { owner: 'a' })
    setTimeout(() => { for (const file of files) closeSync(file) }, 200)
    console.log((await asked).said)
    process.exit(0)`
  const command = ['sh', '-c', 'ulimit -n 100; exec "$0" -e "$1"', process.execPath, script]
  const child = Bun.spawn(command, { cwd: `${import.meta.dir}/../..`, stdout: 'pipe', stderr: 'pipe' })
  const [said, error] = await Promise.all([child.stdout.text(), child.stderr.text()])
  expect([said, error]).toEqual(['a\n', ''])
})
