/** Stored credentials in backups: encrypted, and useless without the secret, which is copied on request. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { backUp } from '../../src/backup/create.ts'
import { restore } from '../../src/backup/restore.ts'
import { createUpstream } from '../../src/catalog/edit-upstream.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { toStore } from '../../src/store/sqlite/store.ts'
import { createVault } from '../../src/store/vault.ts'
import { createFolder, type Folder, HOUR } from '../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const SECRET = 'not-like-any-key~0123456789'

let folder: Folder
afterEach(() => folder.close())
const away = forEachTest(createTestFolder)
beforeEach(async () => {
  folder = createFolder()
  const store = createConfigStore(folder.database)
  const deps = { store, vault: createVault(folder.path), lookUp: async () => [] }
  const upstream = { id: 'mine', dialect: 'openai' as const, baseUrl: 'https://api.example.com', apiKey: SECRET }
  await createUpstream(deps, upstream, { actor: 'test', nowMs: HOUR })
})

const file = () => join(away.path, 'copy.sqlite')
const make = (withSecret: boolean) =>
  backUp(toStore(folder.other(), folder.path), {
    dataFolder: folder.path,
    file: file(),
    flush: async () => {},
    withSecret,
  })

async function openRestored() {
  const dataFolder = join(away.path, 'data')
  await restore({ dataFolder, file: file(), nowMs: HOUR })
  using database = openDatabase(databasePath(dataFolder), { busyMs: 0 })
  return (await createVault(dataFolder).open(await createConfigStore(database).readSealed())).get('mine')?.[0]
}

test('a backup has neither the credential nor its key, and a restore says so', async () => {
  expect((await make(false)).secretFile).toBeNull()
  expect(readFileSync(file()).includes(SECRET)).toBe(false)
  expect(readFileSync(file()).includes(readFileSync(join(folder.path, 'secret'), 'utf8').trim())).toBe(false)
  expect(existsSync(`${file()}.secret`)).toBe(false)
  expect(await openRestored()).toEqual({
    problem: expect.stringContaining('secret, the encryption key of stored credentials, is missing'),
  })
})

test('with its secret next to it, it can be decrypted after a restore', async () => {
  expect((await make(true)).secretFile).toBe(`${file()}.secret`)
  expect(statSync(`${file()}.secret`).mode & 0o777).toBe(0o600)
  expect(await openRestored()).toEqual({ credential: SECRET })
})
