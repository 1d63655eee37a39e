/**
 * Who can sign in after a restore: no one who was disabled since the backup, and with nothing that was revoked since.
 */
import type { Database } from 'bun:sqlite'
import { beforeEach, expect, test } from 'bun:test'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { backUp } from '../../src/backup/create.ts'
import { restore } from '../../src/backup/restore.ts'
import { editAdmin, inviteAdmin } from '../../src/identity/admins.ts'
import { createToken, revokeToken } from '../../src/identity/principal.ts'
import type { IdentityStore, IdentityWrite } from '../../src/store/identity-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { migrate } from '../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { toStore } from '../../src/store/sqlite/store.ts'
import { HOUR } from '../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const root = forEachTest(createTestFolder)
beforeEach(() => {
  mkdirSync(join(data(), 'journal'), { recursive: true })
  use((database) => migrate(database, data(), HOUR))
})

function use<T>(work: (database: Database) => T): T {
  using database = openDatabase(databasePath(data()), { busyMs: 0 })
  return work(database)
}
const data = () => join(root.path, 'data')
const file = () => join(root.path, 'copy.sqlite')
async function make() {
  using database = openDatabase(databasePath(data()), { busyMs: 0, readonly: true })
  await backUp(toStore(database, data()), { dataFolder: data(), file: file(), flush: async () => {} })
}
const run = (options: { reinstateRevoked?: boolean } = {}) =>
  restore({ dataFolder: data(), file: file(), nowMs: HOUR, ...options })

const by = { actor: 'cli', nowMs: HOUR }
const HASH = 'f'.repeat(64)
const toSession = (adminId: string) => ({
  ...{ id: adminId, adminId, hash: `${adminId}${HASH}`, address: '', agent: '', createdMs: HOUR, seenMs: HOUR },
})
const toPasskey = (adminId: string, id: string) => ({
  ...{ id, adminId, name: id, credentialId: id, publicKey: 'pQ', counter: 1, transports: ['usb'], rpId: 'localhost' },
  ...{ createdMs: HOUR, usedMs: null },
})
const people = <T>(work: (store: IdentityStore) => Promise<T>) => use((database) => work(createIdentityStore(database)))
const write = (what: IdentityWrite) =>
  people((store) =>
    store.changeIdentity(by, () => ({
      value: null,
      change: { action: 'admins.edit', subject: '', detail: {}, write: what },
    })),
  )
const stand = async () => ({
  admins: (await people((store) => store.readAdmins())).map((admin) => [
    ...[admin.name, admin.passwordHash, admin.disabledMs],
  ]),
  passkeys: (await people((store) => store.readPasskeys())).map(({ id, counter }) => [id, counter]),
  tokens: (await people((store) => store.readTokens())).map(({ name, revokedMs }) => [name, revokedMs]),
  sessions: (await people((store) => store.readSessions())).length,
})

/**
 * Since the backup, one user was disabled; one changed the password, and lost, used, and added a passkey; a token was
 * revoked.
 */
async function change(): Promise<void> {
  const made = await Promise.all(
    ['ann', 'bob'].map((name) => people((store) => inviteAdmin(store, { name, role: 'owner' }, by))),
  )
  const [ann, bob] = made.map(({ admin }) => ({ ...admin, passwordHash: 'old' }))
  if (!ann || !bob) throw new Error('nobody was made')
  await people((store) => createToken(store, { name: 'script', scope: 'read' }, by))
  const passkeys = [toPasskey(ann.id, 'lost'), toPasskey(ann.id, 'used')]
  await write({ admins: [ann, bob], passkeys, begin: toSession(ann.id) })
  await make()
  const [, used] = passkeys.map((passkey) => ({ ...passkey, counter: 9 }))
  await write({
    admins: [{ ...ann, passwordHash: 'new' }],
    passkeys: [...(used ? [used] : []), toPasskey(ann.id, 'added')],
    remove: ['lost'],
  })
  await people((store) => editAdmin(store, 'bob', { disabled: true }, { ...by, nowMs: HOUR + 5 }))
  await people((store) => revokeToken(store, 'script', { ...by, nowMs: HOUR + 6 }))
}

test('users sign in with their current credentials, but not those disabled since; no one is signed in', async () => {
  await change()
  expect((await run()).kept?.people).toEqual({ disabled: ['bob'], tokens: ['script'] })
  expect(await stand()).toEqual({
    admins: [
      ['ann', 'new', null],
      ['bob', 'old', HOUR + 5],
    ],
    passkeys: [
      ['added', 1],
      ['used', 9],
    ],
    tokens: [['script', HOUR + 6]],
    sessions: 0,
  })
})

test('users sign in as before on request, once they have signed in again', async () => {
  await change()
  await run({ reinstateRevoked: true })
  expect(await stand()).toEqual({
    admins: [
      ['ann', 'old', null],
      ['bob', 'old', null],
    ],
    passkeys: [
      ['lost', 1],
      ['used', 1],
    ],
    tokens: [['script', null]],
    sessions: 0,
  })
})

test('users are those of the backup if the replaced database is older than users', async () => {
  await change()
  use((database) => {
    database.run('PRAGMA foreign_keys = OFF')
    for (const table of ['admin_passkeys', 'admin_sessions', 'admin_tokens', 'admins'])
      database.run(`DROP TABLE ${table}`)
  })
  expect((await run()).kept?.people).toEqual({ disabled: [], tokens: [] })
  expect((await stand()).passkeys).toHaveLength(2)
})
