/** A self-hosted upstream that reports it is at capacity: its concurrency and its queue. */
import { expect, test } from 'bun:test'
import type { UpstreamError } from '../../src/domain/error.ts'
import { AdaptiveConcurrency, type ConcurrencySlot, type LimitedCall } from '../../src/gateway/adaptive-concurrency.ts'

const UPSTREAM = { id: 'here', deadlines: { firstToken: 600_000 } }

function startCrowd() {
  let nowMs = 1_000
  const concurrency = new AdaptiveConcurrency(() => nowMs)
  const under = new Map<string, ConcurrencySlot>()
  const refused = new Map<string, UpstreamError>()
  return {
    under,
    refused,
    names: () => [...under.keys()].join(' '),
    pass: (ms: number) => (nowMs += ms),
    /** @param name begins with the key. */
    async ask(name: string, tokens = 10, signal = new AbortController().signal) {
      const call: LimitedCall = { owner: name.charAt(0), tokens }
      const asked = Promise.resolve(concurrency.enter(UPSTREAM, call, signal)).then(
        (place) => void under.set(name, place),
        (error: UpstreamError) => void refused.set(name, error),
      )
      await Promise.race([asked, Bun.sleep(0)])
    },
    async end(name: string, how: 'ok' | 'busy' | 'other') {
      under.get(name)?.leave(how)
      under.delete(name)
      await Bun.sleep(0)
    },
  }
}

async function failAll({ under, end }: ReturnType<typeof startCrowd>) {
  for (const name of [...under.keys()]) await end(name, 'busy')
}

test('large calls run one at a time, in turn, and small ones run together before and after', async () => {
  const crowd = startCrowd()
  for (const name of ['a1', 'b1', 'c1']) await crowd.ask(name, name === 'a1' ? 1_000 : 10)
  expect(crowd.names()).toBe('a1 b1 c1')
  await failAll(crowd)
  await crowd.ask('a2', 1_000)
  for (const name of ['b2', 'c2', 'd2', 'a3', 'e2']) await crowd.ask(name, name === 'a3' ? 1_000 : 10)
  expect(crowd.names()).toBe('a2')
  await crowd.end('a2', 'ok')
  expect(crowd.names()).toBe('b2 c2 d2')
  for (const name of ['b2', 'c2', 'd2']) await crowd.end(name, 'ok')
  expect(crowd.names()).toBe('a3')
  await crowd.end('a3', 'ok')
  expect(crowd.names()).toBe('e2')
})

test("a rejected call that ran without others doesn't hold back anyone", async () => {
  const crowd = startCrowd()
  for (const name of ['a1', 'b1']) await crowd.ask(name)
  await crowd.end('b1', 'busy')
  await crowd.end('a1', 'busy')
  for (let each = 0; each < 100; each++) {
    await crowd.ask('a', 1_000)
    await crowd.end('a', 'busy')
    crowd.pass(1_000)
  }
  for (const name of ['b2', 'c2', 'd2']) await crowd.ask(name)
  expect(crowd.names()).toBe('b2 c2 d2')
})

test('the queue is bounded, and the key with the most queued calls loses one', async () => {
  const crowd = startCrowd()
  for (const name of ['a0', 'b0']) await crowd.ask(name)
  await crowd.end('b0', 'busy')
  for (let n = 1; n <= 300; n++) await crowd.ask(`a${n}`)
  expect(crowd.refused.size).toBe(44)
  expect(crowd.refused.get('a300')?.message).toBe('256 requests are already queued for it')
  await crowd.ask('b1')
  expect([crowd.refused.size, crowd.refused.has('b1'), crowd.refused.has('a256')]).toEqual([45, false, true])
  crowd.pass(50_000)
  await crowd.end('a0', 'ok')
  await crowd.end('a1', 'ok')
  expect(crowd.under.has('b1')).toBe(true)
  for (let n = 301; n <= 310; n++) await crowd.ask(`a${n}`)
  const waits = ['a300', 'a310'].map((name) => crowd.refused.get(name)?.retryAfterMs ?? 0)
  // One at a time, 5 s each: the last one would have taken 50 s.
  expect(waits[0]).toBe(257 * 5_000)
  expect(waits[1]).toBeGreaterThan(waits[0] ?? 0)
})

test('a call that waits too long gets an error about our queue and its expected duration', async () => {
  const concurrency = new AdaptiveConcurrency(() => 1_000)
  const enter = (firstToken: number) =>
    concurrency.enter(
      { id: 'here', deadlines: { firstToken } },
      { owner: 'a', tokens: 10 },
      new AbortController().signal,
    )
  const [first, second] = [await enter(1), await enter(1)]
  second.leave('busy')
  await expect(enter(1)).rejects.toMatchObject({
    ...{ kind: 'deadline', deadline: 'queue', status: null, isOwnLimit: true, isBusy: false, retryAfterMs: 10_000 },
  })
  first.leave('ok')
})

test('a client that disconnects leaves the queue, and those behind continue', async () => {
  const crowd = startCrowd()
  for (const name of ['a0', 'b0']) await crowd.ask(name, 100)
  await crowd.end('b0', 'busy')
  await crowd.end('a0', 'ok')
  await crowd.ask('a1')
  const leaving = new AbortController()
  await crowd.ask('c1', 1_000, leaving.signal)
  await crowd.ask('d1')
  expect(crowd.names()).toBe('a1')
  leaving.abort()
  await Bun.sleep(0)
  expect([crowd.names(), crowd.refused.has('c1')]).toEqual(['a1 d1', true])
})
