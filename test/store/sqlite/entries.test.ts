/** Changes as entries: as plain JSON, replayed in order, they give the same tables. */
import type { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { createAlertStore } from '../../../src/store/sqlite/alert-store.ts'
import { applyEntry, setChanger, toEntry } from '../../../src/store/sqlite/change.ts'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { createIdentityStore } from '../../../src/store/sqlite/identity-store.ts'
import { toTables } from '../../../src/store/sqlite/tables.ts'
import { createFolder } from '../../ledger/fixture.ts'
import { BY, decided, key, testConfigStore } from '../config-store.ts'
import { readTables } from './read-tables.ts'

/** The connection's changes go through JSON, which is kept. */
function record(sqlite: Database, texts: string[]): void {
  const database = toTables(sqlite)
  setChanger(sqlite, {
    log: null,
    change: async (steps) =>
      database.transaction((tx) => {
        const { entry, value } = toEntry(tx, steps)
        if (!entry) return value
        const text = JSON.stringify(entry)
        applyEntry(database, tx, JSON.parse(text))
        texts.push(text)
        return value
      }),
  })
}

function expectReplay(texts: readonly string[], original: Database): void {
  const replica = createFolder()
  const database = toTables(replica.database)
  for (const text of texts) database.transaction((tx) => applyEntry(database, tx, JSON.parse(text)))
  expect(readTables(replica.database)).toEqual(readTables(original))
  replica.close()
}

testConfigStore('SQLite, replayed', () => {
  const folder = createFolder()
  const other = folder.other()
  const texts: string[] = []
  for (const sqlite of [folder.database, other]) record(sqlite, texts)
  return {
    store: createConfigStore(folder.database),
    other: createConfigStore(other),
    close() {
      expectReplay(texts, folder.database)
      folder.close()
    },
  }
})

test('users, sessions, passkeys, tokens, and alerts are the same once they are replayed', async () => {
  const folder = createFolder()
  const texts: string[] = []
  record(folder.database, texts)
  const identity = createIdentityStore(folder.database)
  const alerts = createAlertStore(folder.database)
  const write = (what: Parameters<typeof decided>[0]) => identity.changeIdentity(BY, () => decided(what ?? {}))

  const admin = {
    ...{ id: 'a', name: 'ann', role: 'owner' as const, teamId: null, passwordHash: 'h', oidcSubject: null },
    ...{ codeHash: null, codeExpiresMs: null, createdMs: 1, disabledMs: null },
  }
  const session = (id: string) => ({
    ...{ id, adminId: 'a', hash: `hash ${id}`, address: '::1', agent: 'x \ud800 \u0000 y', createdMs: 5, seenMs: 5 },
  })
  const passkey = {
    ...{ id: 'p', adminId: 'a', name: 'laptop', credentialId: 'c', publicKey: 'k', counter: 2 ** 32 - 1 },
    ...{ transports: ['usb', 'internal'], rpId: 'h', createdMs: 1, usedMs: null },
  }
  const token = {
    ...{ id: 't', name: 'ci', scope: 'write' as const, hash: 'x', lastFour: 'abcd', createdMs: 1 },
    ...{ expiresMs: 2 ** 48, revokedMs: null },
  }
  await write({ admins: [admin], begin: session('s1'), passkeys: [passkey], tokens: [token] })
  await write({ begin: session('s2'), keys: [key('k', { ownerId: 'a', ceilings: { rpm: 5 } })] })
  await write({
    begin: session('s3'),
    end: { of: ['a'], keep: 's2' },
    passkeys: [{ ...passkey, id: 'q', credentialId: 'd' }],
  })
  await write({ tokens: [{ ...token, revokedMs: 9 }], remove: ['p'] })
  await identity.sawSession('s2', 8)
  await identity.forgetSessions({ createdMs: 0, seenMs: 7 })

  const target = { id: 'w', name: 'ops', format: 'slack' as const, origin: 'http://h', sealed: 'one', createdMs: 1 }
  await alerts.changeTargets(BY, () => decided({ add: { ...target, topics: ['budget'] } }))
  const alert = { id: 'disk', topic: 'disk', severity: 'warning', text: 'full' } as never
  const event = { targetId: 'w', alert, told: null, startedMs: 1, endedMs: null }
  const delivery = {
    ...{ id: 'd', targetId: 'w', atMs: 1, kind: 'alerts' as const, alerts: [], more: 0, state: 'pending' as const },
    ...{ attempts: 0, nextMs: 1, httpStatus: null, error: null, doneMs: null },
  }
  expect(await alerts.write({ targetId: 'w', put: [event], delivery })).toBe(true)
  expect(await alerts.write({ targetId: 'gone', put: [event] })).toBe(false)
  await alerts.changeTargets(BY, () => decided({ resealed: [{ id: 'w', before: 'one', sealed: 'two' }] }))

  expect((await identity.readSessions()).map(({ id, seenMs }) => [id, seenMs])).toEqual([['s2', 8]])
  expect(await alerts.readTargets()).toMatchObject([{ sealed: 'two' }])
  expectReplay(texts, folder.database)
  folder.close()
})
