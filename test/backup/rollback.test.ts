/** A rollback restores the database from before the last migration, with the requests since; or it changes nothing. */
import type { Database, SQLQueryBindings } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { rollBack } from '../../src/backup/rollback.ts'
import { sumOfCounts } from '../../src/domain/call-counts.ts'
import { createKey, revokeKey } from '../../src/keys/service.ts'
import { toRecordLine } from '../../src/ledger/journal-file.ts'
import { recover } from '../../src/ledger/recover.ts'
import { takeDrainingLock, takeLock } from '../../src/store/data-folder.ts'
import type { OpenRow } from '../../src/store/ledger-rows.ts'
import { storeOf } from '../../src/store/open.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { MIGRATIONS, migrate, readSchemaState } from '../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { mountSmallDisk, whyNoSmallDisk } from '../e2e/crash-trouble.ts'
import {
  createTestLog,
  findingsOf,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from '../ledger/fixture.ts'
import { fillSchema } from '../store/sqlite/old-rows.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const folder = forEachTest(createTestFolder)
const open = (path = folder.path) => openDatabase(databasePath(path), { busyMs: 0 })
const run = (options: { dryRun?: boolean; force?: boolean; dataFolder?: string } = {}) =>
  rollBack({ dataFolder: folder.path, version: '1.2.3', nowMs: HOUR, ...options })

/** A database with rows of the schema, migrated by the version. @param at index of its last migration. */
function upgrade(at: number, version = '1.2.3', dataFolder = folder.path): Database {
  const database = open(dataFolder)
  migrate(database, dataFolder, HOUR, MIGRATIONS.slice(0, at + 1))
  fillSchema(database, at)
  migrate(database, dataFolder, HOUR + 1, MIGRATIONS, version)
  return database
}

/** Two requests, one with several calls, and one that only the journal has. Each costs 500 nano-dollars. Returns the first one's ID. */
function serveSome(database: Database): string {
  const [alone, waiting] = [toSettled(toOpen()), toSettled(toOpen())]
  const row = toOpen()
  const calls = [1, 2].map((number) => toSettledCall(toCall(row, number), { costNanoUsd: 250 }))
  const several = toSettled(row, { ...sumOfCounts(calls), attempts: 2 })
  createLedgerWriter(database).apply([settling(alone), settling(several, calls)])
  mkdirSync(join(folder.path, 'journal'))
  writeFileSync(join(folder.path, 'journal', 'i-1.log'), toRecordLine(settling(waiting)))
  return alone.id
}

/** Opens a request in tables that may lack current columns. */
function openThere(database: Database, row: OpenRow): void {
  using today = openDatabase(join(folder.path, 'today.db'), { busyMs: 0 })
  migrate(today, folder.path, HOUR)
  createLedgerWriter(today).apply([opening(row)])
  const [opened = {}] = today.query<Record<string, SQLQueryBindings>, []>('SELECT * FROM requests').all()
  const names = database.query<{ name: string }, []>('SELECT name FROM pragma_table_info("requests")').all()
  const columns = names.map(({ name }) => name)
  database
    .query(`INSERT INTO requests (${columns}) VALUES (${columns.map(() => '?')})`)
    .run(...columns.map((name) => opened[name] ?? null))
}

/** Starts like the next version. */
async function start(): Promise<Database> {
  const dataFolder = folder.path
  const options = { version: '1.2.3', startedMs: HOUR, now: () => HOUR, log: createTestLog() }
  const served = await storeOf(dataFolder).serve(options)
  const store = { ...served.writer, checkpoint: async () => true }
  await recover({ store, leases: served.leases, dataFolder, instance: 'i', nowMs: HOUR, log: options.log })
  served.close()
  return open()
}

const totalOf = (database: Database) =>
  database.query('SELECT COUNT(*) AS requests, SUM(cost_nano_usd) AS cost FROM requests').get()

const LAST = MIGRATIONS.length - 1

test.each(MIGRATIONS.slice(0, LAST).map(({ name }, at) => [name, at] as const))(
  'back to %s and forward again, nothing is lost',
  async (_, at) => {
    const database = upgrade(at)
    serveSome(database)
    database.close()
    const done = await run()
    expect(done.undone).toEqual(MIGRATIONS.slice(at + 1).map(({ name }) => name))
    expect(done).toMatchObject({ requests: { carried: 3, costNanoUsd: '1500', rejected: [] }, spend: [], changes: [] })
    const restored = open()
    expect(readSchemaState(restored).applied).toEqual(MIGRATIONS.slice(0, at + 1).map(({ name }) => name))
    expect(totalOf(restored)).toEqual({ requests: 4, cost: 7_000_000_005_000 })
    const [noted] = await createConfigStore(restored).readAudit({ action: 'database' })
    expect(noted?.detail).toMatchObject({
      name: expect.stringMatching(/^before-migration-/),
      after: { kept_revoked: [] },
    })
    restored.close()
    expect(readdirSync(join(folder.path, 'journal'))).toEqual(['rollback-1.log'])
    expect(readdirSync(done.replaced ?? '')).toContain('tollgate.db')
    const again = await start()
    expect(totalOf(again)).toEqual({ requests: 7, cost: 7_000_000_006_500 })
    expect(findingsOf(again, folder.path)).toEqual([])
    again.close()
  },
)

describe('after a migration', () => {
  const BEFORE = LAST - 1
  const contents = () =>
    readdirSync(folder.path, { recursive: true, encoding: 'utf8' }).filter(
      (name) => !/-(wal|shm)$|serve\.lock/.test(name) && statSync(join(folder.path, name)).isFile(),
    )

  test('lost changes are named and recorded, and revocations stay', async () => {
    const database = upgrade(BEFORE)
    const store = createConfigStore(database)
    const by = { actor: 'cli', nowMs: HOUR + 1 }
    await createKey(store, { name: 'new' }, by)
    mkdirSync(join(folder.path, 'journal'))
    writeFileSync(join(folder.path, 'journal', 'i.rejected'), 'a record')
    await revokeKey(store, 'ann', by)
    database.close()
    const done = await run()
    expect(done.changes).toEqual([
      { atMs: HOUR + 1, actor: 'cli', action: 'keys.create', subject: expect.any(String), name: 'new' },
    ])
    expect(done.kept.revoked).toEqual(['ann'])
    expect(readdirSync(join(folder.path, 'journal'))).toEqual(['i.rejected'])
    const { replaced, ...report } = done
    expect(JSON.parse(readFileSync(join(replaced ?? '', 'rollback.json'), 'utf8'))).toEqual(report)
    expect(statSync(join(replaced ?? '', 'rollback.json')).mode & 0o777).toBe(0o600)
    using restored = open()
    expect(restored.query(`SELECT name FROM keys WHERE revoked_ms IS NULL`).all()).toEqual([])
  })

  test("requests that retention deleted since are missing in their key's spend", async () => {
    const database = upgrade(BEFORE)
    const gone = serveSome(database)
    database.query('DELETE FROM requests WHERE id = ?').run(gone)
    database.close()
    expect(await run()).toMatchObject({
      requests: { carried: 2 },
      spend: [{ key: 'key-a', name: 'ann', newer: '6500', restored: '6000' }],
    })
  })

  test('a request that the older tables reject is named, and stays in the journal', async () => {
    const database = open()
    migrate(database, folder.path, HOUR, MIGRATIONS.slice(0, BEFORE + 1))
    database.run(
      `CREATE TRIGGER old BEFORE INSERT ON requests WHEN NEW.user = 'new' BEGIN SELECT RAISE(ABORT, 'no'); END`,
    )
    migrate(database, folder.path, HOUR)
    database.run('DROP TRIGGER old')
    const rows = ['new', 'usual'].map((user) => toSettled(toOpen({ user })))
    createLedgerWriter(database).apply(rows.map((row) => settling(row)))
    database.close()
    const { requests, spend } = await run()
    expect([requests.carried, requests.rejected]).toEqual([2, [rows[0]?.id ?? '']])
    expect(spend).toEqual([{ key: 'key-a', name: null, newer: '1000', restored: '500' }])
    using again = await start()
    expect(totalOf(again)).toEqual({ requests: 1, cost: 500 })
    expect(readdirSync(join(folder.path, 'journal'))).toEqual(['i.rejected'])
  })

  test('a request that was in progress at the migration has its outcome afterwards, once', async () => {
    const row = toOpen()
    const database = open()
    migrate(database, folder.path, HOUR, MIGRATIONS.slice(0, BEFORE + 1))
    openThere(database, row)
    migrate(database, folder.path, HOUR)
    createLedgerWriter(database).apply([settling(toSettled(row))])
    database.close()
    expect(await run()).toMatchObject({ requests: { carried: 1, costNanoUsd: '500' } })
    using again = await start()
    expect(again.query('SELECT status, cost_nano_usd AS cost FROM requests').all()).toEqual([
      { status: 'ok', cost: 500 },
    ])
    expect(findingsOf(again, folder.path)).toEqual([])
  })

  test('a dry run reports the same, and changes nothing', async () => {
    const database = upgrade(BEFORE)
    serveSome(database)
    database.close()
    const planned = await run({ dryRun: true })
    const before = contents()
    expect(await run({ dryRun: true })).toEqual(planned)
    expect(contents()).toEqual(before)
    expect(await run()).toEqual({ ...planned, replaced: expect.any(String) })
  })

  test('a dry run does not finish an interrupted one', async () => {
    upgrade(BEFORE).close()
    const [copy = ''] = readdirSync(join(folder.path, 'backups'))
    mkdirSync(join(folder.path, 'rollback'))
    copyFileSync(join(folder.path, 'backups', copy), databasePath(join(folder.path, 'rollback')))
    writeFileSync(join(folder.path, 'rollback', 'replaced'), 'backups/replaced-now')
    await expect(run({ dryRun: true })).rejects.toMatchObject({ failure: { kind: 'rollback_unfinished' } })
    expect(existsSync(databasePath(join(folder.path, 'rollback')))).toBe(true)
  })

  test('a running server, a damaged copy, and no copy are refused', async () => {
    const database = upgrade(BEFORE)
    database.close()
    const unlock = takeLock(folder.path)
    await expect(run()).rejects.toThrow('Another Tollgate server is using')
    unlock()
    const endDraining = takeDrainingLock(folder.path, 'i')
    await expect(run({ dryRun: true })).rejects.toThrow('from before the last restart still finishes its requests')
    endDraining?.()
    const [copy = ''] = readdirSync(join(folder.path, 'backups'))
    const path = join(folder.path, 'backups', copy)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const bytes = readFileSync(path)
    for (const damaged of [bytes.fill(0xff, bytes.length - 8_192), 'nothing']) {
      writeFileSync(path, damaged)
      await expect(run()).rejects.toThrow(/before-migration-.* is damaged/)
    }
    rmSync(path)
    await expect(run()).rejects.toThrow('Nothing to roll back: backups/ has no copy from before a migration.')
    expect(existsSync(join(folder.path, 'rollback.part'))).toBe(false)
    expect(readSchemaState(open()).missing).toEqual([])
  })

  test("a version that migrated nothing rolls back an earlier version's migration only with --force", async () => {
    upgrade(BEFORE, '1.2.2').close()
    await expect(run()).rejects.toThrow(
      'Version 1.2.2 migrated this database, and this one (1.2.3) has changed nothing.',
    )
    expect((await run({ force: true })).copy.madeBy).toBe('1.2.2')
  })

  test('a second one has nothing to roll back', async () => {
    upgrade(BEFORE).close()
    await run()
    await expect(run()).rejects.toThrow("Nothing to roll back: this version hasn't migrated the database.")
  })

  test.skipIf(whyNoSmallDisk() !== null)('without space it changes nothing, and says how much it needs', async () => {
    const disk = mountSmallDisk(join(folder.path, 'disk'), 70)
    if (typeof disk === 'string') throw new Error(disk)
    try {
      upgrade(BEFORE, '1.2.3', disk.folder).close()
      writeFileSync(join(disk.folder, 'full'), Buffer.alloc(8 * 1024 ** 2))
      await expect(run({ dataFolder: disk.folder })).rejects.toThrow(/Not enough disk space in .*: 65 MiB needed/)
      expect(readdirSync(disk.folder)).not.toContain('rollback.part')
    } finally {
      disk.unmount()
    }
  })
})
