/** Checks away from the event loop: a hostile one costs its own client time, and nobody waits for one that has no use. */
import { afterAll, expect, test } from 'bun:test'
import { createChecker } from '../../src/structured/checker.ts'

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

test('closing ends what is under way and what waits, at once', async () => {
  const checker = createChecker({ judgeMs: 60_000 })
  await checker.judge('{}', null, wanted)
  const checks = [1, 2, 3].map(() => checker.judge(items, hostile, wanted))
  await Bun.sleep(1)
  checker.close()
  expect(await Promise.all(checks)).toEqual(['slow', 'slow', 'slow'])
  expect(await checker.judge('{}', null, wanted)).toBe('slow')
})

test('a schema that nobody can look at any more is not the client’s mistake', async () => {
  const checker = createChecker()
  checker.close()
  await expect(checker.prepare(ordinary, wanted)).rejects.toMatchObject({ kind: 'overloaded' })
})

test('a text that is slow by itself sends no other one to the slow lane', async () => {
  const long = `[${'1,'.repeat(1_500_000)}1]`
  const order: string[] = []
  await shared.judge(long, null, wanted)
  await Promise.all([
    shared.judge(items, hostile, wanted).then(() => order.push('hostile')),
    shared.judge('{"a":1}', null, wanted).then(() => order.push('ordinary')),
  ])
  expect(order).toEqual(['ordinary', 'hostile'])
})
