/** `tollgate compact`: what it gives back, and when it refuses. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { rmSync, statSync } from 'node:fs'
import { takeLock } from '../../../src/store/data-folder.ts'
import { databasePath } from '../../../src/store/sqlite/files.ts'
import { migrate } from '../../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import { createBench } from '../../cli/run.ts'
import { forEachTest } from '../../support/lifetime.ts'

const bench = forEachTest(createBench)

const path = () => databasePath(bench.folder)
/** As versions made it whose databases only ever grew, with 2 MB that nothing needs any more. */
function makeOlder(): Database {
  for (const ending of ['', '-wal', '-shm']) rmSync(path() + ending, { force: true })
  new Database(path()).run('PRAGMA journal_mode = WAL')
  const older = openDatabase(path(), { busyMs: 0 })
  migrate(older, bench.folder, 0)
  older.run('CREATE TABLE ballast (text)')
  for (let i = 0; i < 500; i++) older.run(`INSERT INTO ballast VALUES ('${'x'.repeat(4_000)}')`)
  older.run('DROP TABLE ballast')
  older.run("INSERT INTO settings VALUES ('kept', 'yes', 0)")
  older.run('PRAGMA wal_checkpoint(TRUNCATE)')
  return older
}
const vacuumOf = (database: Database) => database.query('PRAGMA auto_vacuum').get()

test('a new database can get shorter by itself', () => {
  const database = openDatabase(path(), { busyMs: 0 })
  expect(vacuumOf(database)).toEqual({ auto_vacuum: 2 })
  database.close()
})

test('one of an older version is written anew without its empty room, and can from then on', async () => {
  makeOlder().close()
  const before = statSync(path()).size
  const { code, stdout } = await bench.run('compact', '--json')
  const after = statSync(path()).size
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toEqual({ before_bytes: before, after_bytes: after })
  expect(after).toBeLessThan(before / 4)
  const database = openDatabase(path(), { busyMs: 0 })
  expect(vacuumOf(database)).toEqual({ auto_vacuum: 2 })
  expect(database.query("SELECT value FROM settings WHERE key = 'kept'").get()).toEqual({ value: 'yes' })
  database.close()
})

test('while a server runs it refuses, and nothing changes', async () => {
  makeOlder().close()
  const before = statSync(path()).size
  const unlock = takeLock(bench.folder)
  expect(await bench.run('compact')).toMatchObject({ code: 1, stderr: expect.stringContaining('Another Tollgate') })
  unlock()
  expect(statSync(path()).size).toBe(before)
})
