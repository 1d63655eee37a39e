/** Paced rebuilds of a server's state: real changes of a real database, with the test's own clock and pauses. */

import { beforeEach, expect, test } from 'bun:test'
import { createKey, revokeKey } from '../../src/keys/service.ts'
import type { Configuration } from '../../src/store/config-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createPaced } from '../../src/threads/pace.ts'
import { createFolder, HOUR } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const RUN_MS = 20
let nowMs = 0
let runs = 0
const folder = forEachTest(createFolder)
beforeEach(() => {
  nowMs = 0
  runs = 0
})

/** Each run takes 20 ms. Pauses pass when the test says so, or at once. */
function pacedRead(pause: () => Promise<void> = async () => {}) {
  const store = createConfigStore(folder.database)
  const inForce: { rows: Configuration | null } = { rows: null }
  const refresh = createPaced(
    async () => {
      runs++
      inForce.rows = await store.read()
      nowMs += RUN_MS
    },
    {
      monotonicMs: () => nowMs,
      async sleep(ms) {
        await pause()
        nowMs += ms
      },
    },
  )
  return { store, inForce, refresh }
}
const BY = { actor: 'cli', nowMs: HOUR }

test('if a loop waits for each of its changes, rebuilds take at most a tenth of the time, and each change is active then', async () => {
  const { store, inForce, refresh } = pacedRead()
  for (let i = 0; i < 10; i++) {
    const { key } = await createKey(store, { name: `k${i}` }, BY)
    await refresh()
    expect(inForce.rows?.keys.at(-1)?.revokedMs).toBeNull()
    await revokeKey(store, key.id, BY)
    await refresh()
    expect(inForce.rows?.keys.at(-1)?.revokedMs).toBe(HOUR)
  }
  expect((runs * RUN_MS) / nowMs).toBeLessThan(0.11)
})

test('simultaneous changes share the next rebuild, which has all of them', async () => {
  const { store, inForce, refresh } = pacedRead()
  await refresh()
  const change = async (name: string) => {
    await createKey(store, { name }, BY)
    await refresh()
    expect(inForce.rows?.keys.map((key) => key.name)).toContain(name)
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => change(`k${i}`)))
  expect(runs).toBe(2)
})

test('after a rest, a change takes effect at once', async () => {
  let pauses = 0
  const { refresh } = pacedRead(async () => void pauses++)
  await refresh()
  nowMs += 10 * RUN_MS
  await refresh()
  expect([runs, pauses]).toEqual([2, 0])
})

test('a failed rebuild rejects its waiting callers, and the next one still begins', async () => {
  let fails = true
  const refresh = createPaced(
    async () => {
      if (fails) throw new Error('no disk')
      runs++
    },
    { monotonicMs: () => 0, sleep: async () => {} },
  )
  await expect(Promise.all([refresh(), refresh()])).rejects.toThrow('no disk')
  fails = false
  await refresh()
  expect(runs).toBe(1)
})
