/** Checks off the event loop: a hostile one only costs its own key time, and useless ones are skipped. */
import { afterAll, expect, setDefaultTimeout, test } from 'bun:test'
import { createChecker } from '../../src/gateway/structured-checker.ts'

// Slow checks take seconds of a thread, and longer during other work.
setDefaultTimeout(60_000)

const wanted = new AbortController().signal
const ordinary = JSON.stringify({ type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] })
/** Compares every pair of items. */
const hostile = JSON.stringify({ type: 'array', uniqueItems: true })
const items = JSON.stringify(Array.from({ length: 60_000 }, (_, i) => ({ i })))

const shared = createChecker({ judgeMs: 1_500 })
afterAll(() => shared.close())

test('an ordinary response is checked during a hostile check', async () => {
  const order: string[] = []
  const note = (name: string) => (verdict: unknown) => {
    order.push(name)
    return verdict
  }
  const [slow, quick] = await Promise.all([
    shared.judge('hostile', items, hostile, wanted).then(note('hostile')),
    shared.judge('key', '{"a":1}', ordinary, wanted).then(note('ordinary')),
  ])
  expect(slow).toBe('slow')
  expect(quick).toEqual({ json: '{"a":1}', problem: null })
  expect(order).toEqual(['ordinary', 'hostile'])
})

test('a check without a waiting client is skipped', async () => {
  const client = new AbortController()
  client.abort()
  expect(await shared.judge('hostile', items, hostile, client.signal)).toBe('slow')
  expect(await shared.judge('key', '{"a":1}', ordinary, wanted)).toMatchObject({ problem: null })
})

test('closing ends running and queued checks at once', async () => {
  const checker = createChecker({ judgeMs: 60_000 })
  await checker.judge('key', '{}', null, wanted)
  const checks = [1, 2, 3].map(() => checker.judge('key', items, hostile, wanted))
  await Bun.sleep(1)
  checker.close()
  expect(await Promise.all(checks)).toEqual(['slow', 'slow', 'slow'])
  expect(await checker.judge('key', '{}', null, wanted)).toBe('slow')
})

test("a schema that can't be checked any more is not the client’s error", async () => {
  const checker = createChecker()
  checker.close()
  await expect(checker.prepare('key', ordinary, wanted)).rejects.toMatchObject({ kind: 'overloaded' })
})

test('a key with a slow check has its next ones on a separate thread', async () => {
  const checker = createChecker({ judgeMs: 1_500 })
  const order: string[] = []
  const judge = async (keyId: string, text: string, schema: string) => {
    const verdict = await checker.judge(keyId, text, schema, wanted)
    order.push(`${keyId} ${verdict === 'slow' ? 'slow' : 'checked'}`)
  }
  await judge('hostile', items, hostile)
  await Promise.all([
    judge('hostile', items, hostile),
    judge('hostile', '{"a":1}', ordinary),
    ...Array.from({ length: 5 }, () => judge('other', '{"a":1}', ordinary)),
  ])
  expect(order).toEqual(['hostile slow', ...Array(5).fill('other checked'), 'hostile slow', 'hostile checked'])
  checker.close()
})

test('a key whose slow checks took seconds within a minute is told when to retry, and other keys are unaffected', async () => {
  let now = 0
  const checker = createChecker({ judgeMs: 300, slowMs: 1_000, nowMs: () => now })
  const distinct = (n: number) => JSON.stringify({ ...JSON.parse(hostile), title: String(n) })
  const all = Array.from({ length: 12 }, (_, n) => checker.judge('hostile', items, distinct(n), wanted))
  expect(new Set(await Promise.all(all))).toEqual(new Set(['slow']))
  now = 20_000
  await expect(checker.prepare('hostile', ordinary, wanted)).rejects.toMatchObject({
    kind: 'request_limit',
    message: expect.stringContaining('took more than 1 s within a minute'),
    headers: { 'retry-after': '40' },
  })
  expect(await checker.judge('hostile', '{"a":1}', ordinary, wanted)).toBe('slow')
  expect(await checker.prepare('other', ordinary, wanted)).toBeNull()
  now = 60_000
  expect(await checker.prepare('hostile', ordinary, wanted)).toBeNull()
  checker.close()
})

test('one key has a maximum of queued schemas, and further ones are refused', async () => {
  const checker = createChecker()
  const all = Array.from({ length: 600 }, () => checker.prepare('many', ordinary, wanted))
  const other = checker.prepare('other', ordinary, wanted)
  const outcomes = await Promise.allSettled(all)
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(513)
  expect(outcomes.at(-1)).toMatchObject({ reason: { kind: 'request_limit', headers: { 'retry-after': '1' } } })
  expect(await other).toBeNull()
  checker.close()
})

test('a schema that is too large to compile is refused unchecked', async () => {
  const large = JSON.stringify({ description: 'a'.repeat(400_000) })
  expect(await shared.prepare('key', large, wanted)).toStartWith('it has 400018 characters (limit')
})
