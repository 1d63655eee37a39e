/** Rotation of keys: which secrets are valid, and until when. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { createKey, DEFAULT_OVERLAP_MS, endOverlap, listKeys, revokeKey, rotateKey } from '../../src/keys/service.ts'
import { authenticate } from '../../src/keys/token.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { toSnapshot } from '../../src/store/snapshot.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createFolder } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const DAY_MS = 86_400_000
const START_MS = Date.UTC(2026, 10, 21)

let store: ConfigStore
let first = ''
let id = ''
const folder = forEachTest(createFolder)
beforeEach(async () => {
  store = createConfigStore(folder.database)
  const created = await createKey(store, { name: 'dev' }, by(0))
  first = created.secret
  id = created.key.id
})

/** Times are ms from the start. */
const by = (ms: number) => ({ actor: 'test', nowMs: START_MS + ms })
const rotate = async (ms: number, overlapMs: number) => (await rotateKey(store, 'dev', overlapMs, by(ms))).secret
const failureOf = (promise: Promise<unknown>) => promise.then(String, (error) => error.failure)

/** The result for a secret: the ID of its key, or the error. */
async function tell(secret: string, ms: number): Promise<string> {
  const caller = { request: new Request('http://localhost'), headers: {}, token: secret, ipOf: () => null }
  const decided = authenticate(toSnapshot(await store.read(), {}), caller, START_MS + ms)
  return 'id' in decided ? decided.id : decided.message
}

test('both secrets work during the overlap, and the old one expires automatically', async () => {
  const second = await rotate(1_000, 500)
  for (const ms of [1_000, 1_499]) expect([await tell(first, ms), await tell(second, ms)]).toEqual([id, id])
  expect(await tell(first, 1_500)).toMatch(/was rotated and expired on 2026-11-21T00:00:01.500Z: sk-tg-….{4}\./)
  expect(await tell(second, 400 * DAY_MS)).toBe(id)
})

test('an overlap of zero ends the old secret at once', async () => {
  const second = await rotate(1_000, 0)
  expect(await tell(first, 1_000)).toContain('was rotated and expired on')
  expect(await tell(second, 1_000)).toBe(id)
})

test('old secrets can be ended early, once, and the newest stays', async () => {
  const second = await rotate(0, DAY_MS)
  const third = await rotate(1_000, 30 * DAY_MS)
  const end = async (ms: number) => (await endOverlap(store, 'dev', by(ms))).ended
  expect([await end(2_000), await end(3_000)]).toEqual([2, 0])
  for (const old of [first, second]) expect(await tell(old, 2_000)).toContain('was rotated and expired on')
  expect(await tell(third, 400 * DAY_MS)).toBe(id)
  const [row, before] = await store.readAudit({ subjects: [id] })
  expect([row?.action, before?.action]).toEqual(['keys.end_overlap', 'keys.rotate'])
})

describe('a rotation during a rotation', () => {
  test("keeps the oldest secret's expiry, and gives the middle one its own", async () => {
    const second = await rotate(0, DAY_MS)
    const third = await rotate(1_000, DAY_MS)
    expect([await tell(first, DAY_MS - 1), await tell(second, DAY_MS - 1)]).toEqual([id, id])
    expect([await tell(first, DAY_MS), await tell(second, DAY_MS)]).toEqual([
      expect.stringContaining('was rotated and expired'),
      id,
    ])
    expect(await tell(second, DAY_MS + 1_000)).toContain('expired on')
    expect(await tell(third, DAY_MS + 1_000)).toBe(id)
  })

  test('with a shorter overlap ends all earlier secrets by then', async () => {
    const second = await rotate(0, DAY_MS)
    const third = await rotate(1_000, 0)
    expect([await tell(first, 1_000), await tell(second, 1_000)]).toEqual(
      Array(2).fill(expect.stringContaining('was rotated and expired')),
    )
    expect(await tell(third, 1_000)).toBe(id)
  })
})

test("revoking a key ends all its secrets, and it can't be rotated afterwards", async () => {
  const second = await rotate(0, DAY_MS)
  await revokeKey(store, 'dev', by(1))
  for (const secret of [first, second]) expect(await tell(secret, 2)).toContain('was revoked')
  expect(await failureOf(rotate(3, 0))).toMatchObject({ kind: 'key_revoked', id })
})

test("an expired key can't be rotated", async () => {
  await createKey(store, { name: 'short', expiresMs: START_MS + 10 }, by(1))
  expect(await failureOf(rotateKey(store, 'short', 0, by(10)))).toEqual({ kind: 'key_expired', key: 'short' })
})

test.each([[-1], [1.5], [Number.NaN], [366 * DAY_MS]])('an overlap of %p ms is rejected', async (overlapMs) => {
  expect(await failureOf(rotate(1, overlapMs))).toEqual({ kind: 'invalid', field: 'overlapMs' })
  expect(await tell(first, 400 * DAY_MS)).toBe(id)
})

test('the newest secret is last, even if the clock was set back, and long-expired ones are forgotten', async () => {
  await rotate(0, 0)
  const third = await rotate(-DAY_MS, 0)
  const lastOf = async () => (await listKeys(store, START_MS))[0]?.secrets.map(({ lastFour }) => lastFour) ?? []
  expect((await lastOf()).at(-1)).toBe(third.slice(-4))
  const fourth = await rotate(91 * DAY_MS, DEFAULT_OVERLAP_MS)
  expect(await lastOf()).toEqual([third.slice(-4), fourth.slice(-4)])
})

test("the audit log has the secrets that got an expiry, and the new one's last four characters", async () => {
  const ended = first
  first = await rotate(0, 0)
  const second = await rotate(1_000, 500)
  const [row] = await store.readAudit()
  expect(JSON.stringify(row)).not.toContain(ended.slice(-4))
  const old = first.slice(-4)
  expect(row).toMatchObject({ action: 'keys.rotate', subject: id, actor: 'test' })
  expect(row?.detail).toEqual({
    name: 'dev',
    key: `sk-tg-…${second.slice(-4)}`,
    before: { secrets: [{ last_four: old, expires_ms: null }] },
    after: {
      secrets: [
        { last_four: old, expires_ms: START_MS + 1_500 },
        { last_four: second.slice(-4), expires_ms: null },
      ],
    },
  })
})
