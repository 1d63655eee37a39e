/** The deadlines of a call: which one expires, and that it does so once. Waits for events, never for a stopwatch. */
import { heapStats } from 'bun:jsc'
import { afterEach, expect, test } from 'bun:test'
import type { UpstreamError } from '../../src/domain/error.ts'
import type { Reading } from '../../src/upstreams/backend.ts'
import { Deadline } from '../../src/upstreams/deadline.ts'

const LONG_MS = 60_000
/** The ticker fires every 50 ms: at least twice in this time. */
const TWO_TICKS_MS = 150
const running: Deadline[] = []
afterEach(() => {
  for (const deadline of running.splice(0)) deadline.stop()
})

function start(ms: number, totalMs = LONG_MS) {
  const passed = Promise.withResolvers<UpstreamError>()
  let count = 0
  const end = (error: UpstreamError) => {
    count++
    passed.resolve(error)
  }
  const deadline = new Deadline({ name: 'headers', ms, totalMs, end })
  running.push(deadline)
  return { deadline, passed: passed.promise, count: () => count }
}

test('silence in the first phase ends the call, once, and names the deadline', async () => {
  const { passed, count } = start(5)
  expect(await passed).toMatchObject({
    kind: 'deadline',
    deadline: 'headers',
    message: 'headers timeout (0.005 s)',
    retryable: true,
  })
  await Bun.sleep(TWO_TICKS_MS)
  expect(count()).toBe(1)
})

test('a shorter phase does not wait for the timer of the longer one before it', async () => {
  const { deadline, passed } = start(LONG_MS)
  deadline.enter('idle', 5)
  expect(await passed).toMatchObject({ deadline: 'idle' })
})

test('a longer phase replaces the shorter one before it', async () => {
  const { deadline, count } = start(20)
  deadline.enter('idle', LONG_MS)
  await Bun.sleep(TWO_TICKS_MS)
  expect(count()).toBe(0)
})

test('received data restarts the phase, for as long as data arrives', async () => {
  const { deadline, passed, count } = start(200)
  const heard = { isHeard: false }
  deadline.askOf(heard)
  for (let i = 0; i < 20; i++) {
    heard.isHeard = true
    await Bun.sleep(20)
  }
  expect(count()).toBe(0)
  expect(await passed).toMatchObject({ deadline: 'headers' })
})

test('the total applies however much data arrives', async () => {
  const { deadline, passed } = start(LONG_MS, 30)
  deadline.enter('idle', LONG_MS)
  const heard = { isHeard: false }
  deadline.askOf(heard)
  const busy = setInterval(() => {
    heard.isHeard = true
  }, 5)
  expect(await passed).toMatchObject({ deadline: 'total', message: 'total timeout (0.03 s)' })
  clearInterval(busy)
})

test('a stopped deadline never expires', async () => {
  const { deadline, count } = start(5)
  deadline.stop()
  await Bun.sleep(TWO_TICKS_MS)
  expect(count()).toBe(0)
})

test('a pause by Tollgate is not the upstream’s silence, and restarts the phase', async () => {
  const { deadline, passed, count } = start(100)
  deadline.pause(true)
  await Bun.sleep(2 * TWO_TICKS_MS)
  expect(count()).toBe(0)
  deadline.pause(false)
  expect(await passed).toMatchObject({ deadline: 'headers' })
})

test('a client disconnect ends the call, even while Tollgate makes the upstream wait', async () => {
  const passed = Promise.withResolvers<UpstreamError>()
  const client = new AbortController()
  const deadline = new Deadline({ name: 'headers', ms: LONG_MS, end: passed.resolve, client: client.signal })
  running.push(deadline)
  deadline.pause(true)
  client.abort()
  expect(await passed.promise).toMatchObject({ kind: 'aborted' })
})

test("or the call is read on for the client's grace period, which is read once and may end sooner", async () => {
  const passed = Promise.withResolvers<UpstreamError>()
  const client = new AbortController()
  const asked: Reading[] = []
  const observer = {
    left(reading: Reading) {
      asked.push(reading)
      return LONG_MS
    },
  }
  const deadline = new Deadline({ name: 'idle', ms: LONG_MS, end: passed.resolve, client: client.signal, observer })
  running.push(deadline)
  client.abort()
  await Bun.sleep(TWO_TICKS_MS)
  expect(asked).toEqual([deadline])
  deadline.endWithin(0)
  expect(await passed.promise).toMatchObject({ kind: 'aborted', message: 'the client disconnected' })
})

test('an abort by Tollgate ends the call at once, without a grace period', async () => {
  const passed = Promise.withResolvers<UpstreamError>()
  const client = new AbortController()
  const observer = {
    left() {
      throw new Error('nobody left')
    },
  }
  const both = AbortSignal.any([new AbortController().signal, client.signal])
  running.push(new Deadline({ name: 'idle', ms: LONG_MS, end: passed.resolve, client: both, observer }))
  client.abort('superseded')
  expect(await passed.promise).toMatchObject({ kind: 'aborted', end: 'superseded' })
})

test('an ended deadline keeps no reference to its call', async () => {
  const MB = 1024 * 1024
  const sizeOf = () => {
    Bun.gc(true)
    return heapStats().heapSize
  }
  const begin = () => {
    const held = Array.from({ length: MB / 8 }, (_, at) => at + 0.5)
    const end = () => void held.pop()
    const observer = { left: () => held.length }
    const deadline = new Deadline({ name: 'idle', ms: LONG_MS, end, client: new AbortController().signal, observer })
    deadline.stop()
    return deadline
  }
  const before = sizeOf()
  const over = Array.from({ length: 50 }, begin)
  await Bun.sleep(1)
  expect(sizeOf() - before).toBeLessThan(10 * MB)
  expect(over).toHaveLength(50)
})

test('data that arrived while this process was stalled is read before silence counts', async () => {
  const { deadline, passed, count } = start(500)
  // Due later than the ticker; both are overdue afterwards, as with a response that waits in its socket.
  setTimeout(() => deadline.enter('idle', LONG_MS), 100)
  Bun.sleepSync(1_000)
  await Bun.sleep(TWO_TICKS_MS)
  expect(count()).toBe(0)
  deadline.enter('idle', 5)
  expect(await passed).toMatchObject({ deadline: 'idle' })
})
