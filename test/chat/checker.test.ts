/** Checks away from the event loop: a hostile one costs its own client time, and nobody waits for one that has no use. */
import { afterAll, expect, test } from 'bun:test'
import { createChecker } from '../../src/chat/checker.ts'

const wanted = new AbortController().signal
const ordinary = JSON.stringify({ type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] })
/** Every pair of the items is compared. */
const hostile = JSON.stringify({ type: 'array', uniqueItems: true })
const items = JSON.stringify(Array.from({ length: 60_000 }, (_, i) => ({ i })))

const shared = createChecker({ judgeMs: 600 })
afterAll(() => shared.close())

test('an ordinary answer is checked while a hostile one is still looked at', async () => {
  const order: string[] = []
  const note = (name: string) => (verdict: unknown) => {
    order.push(name)
    return verdict
  }
  const [slow, quick] = await Promise.all([
    shared.judge(items, hostile, wanted).then(note('hostile')),
    shared.judge('{"a":1}', ordinary, wanted).then(note('ordinary')),
  ])
  expect(slow).toBe('slow')
  expect(quick).toEqual({ json: '{"a":1}', problem: null })
  expect(order).toEqual(['ordinary', 'hostile'])
})

test('what nobody waits for any more is not checked', async () => {
  const client = new AbortController()
  client.abort()
  expect(await shared.judge(items, hostile, client.signal)).toBe('slow')
  expect(await shared.judge('{"a":1}', ordinary, wanted)).toMatchObject({ problem: null })
})

test('closing it ends what is under way and what waits, at once', async () => {
  const checker = createChecker({ judgeMs: 60_000 })
  const checks = [1, 2, 3].map(() => checker.judge(items, hostile, wanted))
  checker.close()
  expect(await Promise.all(checks)).toEqual(['slow', 'slow', 'slow'])
  expect(await checker.judge('{"a":1}', ordinary, wanted)).toBe('slow')
})
