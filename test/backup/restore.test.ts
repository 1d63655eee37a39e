/** Effects of a restore, revocations that it keeps, and errors that change nothing. */
import type { Database } from 'bun:sqlite'
import { beforeEach, describe, expect, test } from 'bun:test'
import {
  chownSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { backUp } from '../../src/backup/create.ts'
import { type RestoreOptions, restore } from '../../src/backup/restore.ts'
import { type BatchState, NO_BATCH_USAGE, type StoredBatch } from '../../src/domain/batches.ts'
import { createKey, listKeys, revokeKey } from '../../src/keys/service.ts'
import { toRecordLine } from '../../src/ledger/journal-file.ts'
import { openMark, readMark } from '../../src/ledger/mark.ts'
import { takeDrainingLock, takeLock } from '../../src/store/data-folder.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { createBatchStore } from '../../src/store/sqlite/batch-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { MIGRATIONS, migrate } from '../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { dropSlice } from '../../src/store/sqlite/prune.ts'
import { toStore } from '../../src/store/sqlite/store.ts'
import { mountSmallDisk, whyNoSmallDisk } from '../e2e/crash-trouble.ts'
import { findingsOf, HOUR, opening, settling, statusesOf, toOpen, toSettled } from '../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const data = (...names: string[]) => join(root.path, 'data', ...names)
const file = () => join(root.path, 'copy.sqlite')

const use = <T>(work: (database: Database) => T, path = databasePath(data())): T => {
  using database = openDatabase(path, { busyMs: 0 })
  return work(database)
}
const apply = (...records: LedgerRecord[]) => use((database) => createLedgerWriter(database).apply(records))
const make = async () => {
  using database = openDatabase(databasePath(data()), { busyMs: 0, readonly: true })
  await backUp(toStore(database, data()), { dataFolder: data(), file: file(), flush: async () => {} })
}
const run = (options: Partial<RestoreOptions> = {}) =>
  restore({ dataFolder: data(), file: file(), nowMs: HOUR, ...options })
/** Every file with its bytes. */
const contents = () =>
  Object.fromEntries(
    readdirSync(data(), { recursive: true, withFileTypes: true })
      // Files that an open database creates and removes, and a lock that is held for a while.
      .filter((entry) => entry.isFile() && !/-(shm|wal)$|^serve\.lock$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path, Bun.hash(readFileSync(path))]),
  )

const root = forEachTest(createTestFolder)
beforeEach(() => {
  Bun.spawnSync(['mkdir', '-p', data('journal')])
  use((database) => migrate(database, data(), HOUR))
})

test('a batch that was in progress fails, since it may have ended since', async () => {
  const batch = (id: string, state: BatchState): StoredBatch => ({
    ...{ id, keyId: 'k', api: 'openai', endpoint: 'chat', inputFileId: 'file-1', state, createdMs: 1, expiresMs: 2 },
    detail: {
      ...{ outputFileId: 'o', errorFileId: 'e', hasOutput: false, hasErrors: false, keepOutputS: 1, metadata: null },
      ...{ model: null, at: { in_progress: 1 }, counts: { total: 1, completed: 0, failed: 0, cut: 0 } },
      ...{ usage: NO_BATCH_USAGE, problems: [], remote: { tag: 't' } },
    },
  })
  const [running, ended] = [batch('batch_1', 'in_progress'), batch('batch_2', 'completed')]
  for (const each of [running, ended]) await use((database) => createBatchStore(database).putBatch(each))
  await make()
  await run()
  use((database) => {
    const { activeBatches, batch: read } = createBatchStore(database)
    expect(activeBatches()).toEqual([])
    const { at, remote, problems } = read('batch_1')?.detail ?? {}
    expect([at, remote, problems?.map(({ code }) => code)]).toEqual([
      { in_progress: 1, failed: HOUR },
      null,
      ['restored'],
    ])
    expect(read('batch_2')).toEqual(ended)
  })
})

test('the backup replaces database, journal, and mark, which are kept', async () => {
  const [before, after, waiting] = [toOpen(), toOpen(), toOpen()]
  apply(settling(toSettled(before)))
  openMark(data(), 1).close()
  await make()
  apply(settling(toSettled(after)))
  writeFileSync(data('journal/here-1.log'), toRecordLine(opening(waiting)))
  openMark(data(), 3).close()

  const done = await run()
  expect(done).toMatchObject({ requests: 1, findings: [], replaced: data('backups/replaced-2026-11-21T12-00-00Z') })
  expect(use(statusesOf)).toEqual({ [before.id]: 'ok' })
  expect(use((database) => findingsOf(database, data()))).toEqual([])
  expect(readMark(data())).toBe(1)
  expect(existsSync(data('journal'))).toBe(false)
  const replaced = done.replaced ?? ''
  expect(statSync(replaced).mode & 0o777).toBe(0o700)
  expect(readMark(replaced)).toBe(3)
  expect(readdirSync(join(replaced, 'journal'))).toEqual(['here-1.log'])
  expect(readdirSync(data()).filter((name) => name.startsWith('restore'))).toEqual([])

  // The replaced files are a backup themselves, with the journal.
  const back = await run({ file: join(replaced, 'tollgate.db') })
  expect(back).toMatchObject({ requests: 3, applied: 1, givenUp: 1, findings: [] })
  expect(back.replaced).not.toBe(replaced)
  expect(use(statusesOf)).toEqual({ [before.id]: 'ok', [after.id]: 'ok', [waiting.id]: 'abandoned' })
})

describe('keys', () => {
  const by = { actor: 'cli', nowMs: HOUR }
  const ends = () =>
    use((database) =>
      database
        .query<{ name: string; revoked: number | null; ends: number | null }, []>(
          `SELECT name, revoked_ms AS revoked, key_secrets.expires_ms AS ends
           FROM keys JOIN key_secrets ON key_id = keys.id ORDER BY name, hash`,
        )
        .all(),
    )

  /** Of active keys at the backup, one is revoked since, one has another secret; one was created. */
  async function change(): Promise<void> {
    for (const name of ['as-before', 'revoked', 'rotated'])
      await use((database) => createKey(createConfigStore(database), { name, models: [] }, by))
    await make()
    await use((database) => revokeKey(createConfigStore(database), 'revoked', { ...by, nowMs: HOUR + 5 }))
    await use((database) => createKey(createConfigStore(database), { name: 'new', models: [] }, by))
    use((database) => {
      const id = "(SELECT id FROM keys WHERE name = 'rotated')"
      database.run(`DELETE FROM key_secrets WHERE key_id = ${id}`)
      database.run(
        `INSERT INTO key_secrets (hash, key_id, last_four, created_ms) VALUES ('later', ${id}, 'abcd', ${HOUR})`,
      )
    })
  }

  test('that were revoked since stay revoked, and old secrets stay ended', async () => {
    await change()
    const { kept } = await run()
    expect(kept).toMatchObject({ revoked: ['revoked'], secretsEnded: 1, withoutSecret: ['rotated'] })
    expect(ends()).toEqual([
      { name: 'as-before', revoked: null, ends: null },
      { name: 'revoked', revoked: HOUR + 5, ends: null },
      { name: 'rotated', revoked: null, ends: HOUR },
    ])
  })

  test('that were revoked and removed since do not become active again, nor by a later backup', async () => {
    const { key } = await use((database) => createKey(createConfigStore(database), { name: 'gone', models: [] }, by))
    await make()
    const removeAsRetentionDoes = (database: Database) =>
      dropSlice(database, { what: 'keys', untilMs: HOUR + 10, limit: 10 }, HOUR + 20)
    await use((database) => revokeKey(createConfigStore(database), key.id, { ...by, nowMs: HOUR + 5 }))
    expect(use(removeAsRetentionDoes).rows).toBe(1)
    expect((await run()).kept).toMatchObject({ revoked: ['gone'] })
    expect(ends()).toEqual([{ name: 'gone', revoked: HOUR + 10, ends: null }])
    expect(use(removeAsRetentionDoes).rows).toBe(0)
    use((database) => database.run('DELETE FROM key_secrets'))
    use((database) => database.run('DELETE FROM keys'))
    expect((await run()).kept).toMatchObject({ revoked: ['gone'] })
  })

  test('are restored unchanged on request', async () => {
    await change()
    expect((await run({ reinstateRevoked: true })).kept).toBeNull()
    expect(ends().map(({ revoked, ends }) => revoked ?? ends)).toEqual([null, null, null])
  })

  test('of an unreadable database are not reactivated silently', async () => {
    await change()
    truncateSync(databasePath(data()), 5_000)
    rmSync(data('tollgate.db-wal'), { force: true })
    const before = contents()
    await expect(run()).rejects.toMatchObject({ failure: { kind: 'revoked_unknown' } })
    expect(contents()).toEqual(before)
    expect((await run({ reinstateRevoked: true })).requests).toBe(0)
    const keys = await use((database) => listKeys(createConfigStore(database), HOUR))
    expect(keys.map(({ name, status }) => `${name} ${status}`)).toEqual([
      'as-before active',
      'revoked active',
      'rotated active',
    ])
  })
})

describe('nothing changes', () => {
  const write = (statement: string) => use((database) => database.run(statement), file())

  test.each<[what: string, kind: string, spoil: () => void]>([
    ['that is not there', 'backup_unusable', () => rmSync(file())],
    ['that is no database', 'backup_unusable', () => writeFileSync(file(), 'x'.repeat(10_000))],
    ['that is empty', 'backup_unusable', () => truncateSync(file())],
    ['that is only a part', 'backup_unusable', () => truncateSync(file(), statSync(file()).size - 8_192)],
    ["that is somebody else's", 'backup_unusable', () => write('DROP TABLE migrations')],
    ['of a newer version', 'schema_newer', () => write("INSERT INTO migrations VALUES ('9999_later', 1)")],
    ['whose ledger does not add up', 'backup_findings', () => write('UPDATE usage_hourly SET requests = 7')],
  ])('with a backup %s', async (_, kind, spoil) => {
    apply(settling(toSettled(toOpen())))
    await make()
    spoil()
    const before = contents()
    await expect(run()).rejects.toMatchObject({ failure: { kind } })
    expect(contents()).toEqual(before)
  })

  test('with a backup that is not a database, whatever the state of the current one', async () => {
    openMark(data(), 5).close()
    rmSync(databasePath(data()))
    writeFileSync(file(), 'x'.repeat(10_000))
    await expect(run()).rejects.toThrow(`${file()} is not a database`)
    expect(existsSync(databasePath(data()))).toBe(false)
  })

  test('while another process locks the database, even if revoked keys may be reactivated', async () => {
    await make()
    using other = openDatabase(databasePath(data()), { busyMs: 0 })
    other.query('PRAGMA locking_mode = EXCLUSIVE').all()
    other.run("INSERT INTO settings (key, value, updated_ms) VALUES ('a', 'b', 1)")
    for (const reinstateRevoked of [false, true])
      await expect(run({ reinstateRevoked, busyMs: 0 })).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
    expect(existsSync(data('backups'))).toBe(false)
  })

  test.skipIf(whyNoSmallDisk() !== null)('on a disk that is too small for a second copy', async () => {
    apply(...Array.from({ length: 10_000 }, () => settling(toSettled(toOpen()))))
    await make()
    const disk = mountSmallDisk(join(root.path, 'disk'), 1)
    if (typeof disk === 'string') throw new Error(disk)
    try {
      const refused = run({ dataFolder: join(root.path, 'disk') })
      await expect(refused).rejects.toMatchObject({ failure: { kind: 'no_room', folder: join(root.path, 'disk') } })
      expect(readdirSync(join(root.path, 'disk'))).toEqual(['serve.lock'])
    } finally {
      disk.unmount()
    }
  })

  test('while a server uses the folder, and if the backup is the database itself', async () => {
    await make()
    const before = contents()
    await expect(run({ file: databasePath(data()) })).rejects.toThrow('is the current database')
    const release = takeLock(data())
    await expect(run()).rejects.toMatchObject({ failure: { kind: 'already_served' } })
    release()
    expect(contents()).toEqual(before)
    const endDraining = takeDrainingLock(data(), 'i')
    await expect(run()).rejects.toThrow('from before the last restart still finishes its requests')
    endDraining?.()
  })
})

test('a ledger with findings is restored on request, and reported', async () => {
  apply(settling(toSettled(toOpen())))
  await make()
  use((database) => database.run('UPDATE usage_hourly SET errors = 7'), file())
  expect((await run({ force: true })).findings).toMatchObject([{ kind: 'difference' }])
})

test("a backup of an older version is migrated; the file itself doesn't change", async () => {
  rmSync(data(), { recursive: true })
  use((database) => migrate(database, null, HOUR, MIGRATIONS.slice(0, 2)), file())
  const before = readFileSync(file())
  expect(await run()).toMatchObject({ requests: 0, replaced: null, kept: null })
  expect(readFileSync(file()).equals(before)).toBe(true)
  use((database) => migrate(database, data(), HOUR))
  expect(readdirSync(data()).sort()).toEqual(expect.arrayContaining(['ledger.mark', 'tollgate.db']))
  expect(readdirSync(data('backups'))).toEqual([])
})

test('a copied data folder is restored with its log and its journal', async () => {
  const [inLog, waiting] = [toOpen(), toOpen()]
  const database = openDatabase(databasePath(data()), { busyMs: 0 })
  createLedgerWriter(database).apply([settling(toSettled(inLog))])
  writeFileSync(data('journal/here-1.log'), toRecordLine(settling(toSettled(waiting))))
  cpSync(data(), join(root.path, 'copied'), { recursive: true })
  database.close()
  rmSync(data(), { recursive: true })
  expect(await run({ file: join(root.path, 'copied/tollgate.db') })).toMatchObject({ requests: 2, applied: 1 })
  expect(use(statusesOf)).toEqual({ [inLog.id]: 'ok', [waiting.id]: 'ok' })
})

test.skipIf(process.getuid?.() !== 0)("files that root restores belong to the folder's owner", async () => {
  await make()
  chownSync(data(), 12_345, 12_345)
  const { replaced } = await run()
  for (const path of [databasePath(data()), data('ledger.mark'), data('serve.lock'), data('backups'), replaced ?? ''])
    expect(`${path} ${statSync(path).uid}`).toBe(`${path} 12345`)
})

test('the secret next to a backup is restored with it', async () => {
  await make()
  writeFileSync(data('secret'), 'new')
  writeFileSync(`${file()}.secret`, 'old')
  const { replaced, isSecretRestored } = await run()
  expect(isSecretRestored).toBe(true)
  expect(readFileSync(data('secret'), 'utf8')).toBe('old')
  expect(readFileSync(join(replaced ?? '', 'secret'), 'utf8')).toBe('new')
})
