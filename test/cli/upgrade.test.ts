/** `tollgate upgrade check`: the effects of an upgrade, tested on a copy. */
import { expect, test } from 'bun:test'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { MIGRATIONS, migrate } from '../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { HOUR, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const COPY = `The first start needs N MiB of free space: it keeps a copy of N MiB in backups/ until the next migration. To go back: tollgate rollback\n`

const bench = forEachTest(() => createBench(HOUR))
const open = () => openDatabase(databasePath(bench.folder), { busyMs: 0 })
const check = (...argv: string[]) => bench.run('upgrade', 'check', ...argv)
const SAFE = 'Requests, spend, keys, teams, models, and routes stay the same, and the ledger is consistent.\n'

test('a current database needs none, and keeps rows that are only in the WAL', async () => {
  using sqlite = open()
  createLedgerWriter(sqlite).apply([settling(toSettled(toOpen()))])
  expect(await check()).toEqual({
    code: 0,
    stdout: `The database is current: no migration needed.\n${SAFE}`,
    stderr: '',
  })
  expect(readdirSync(join(bench.folder, 'backups'))).toEqual([])
})

test("an older database doesn't change; renamed settings and the copy that will be kept are listed", async () => {
  rmSync(databasePath(bench.folder))
  const names = MIGRATIONS.map(({ name }) => name).filter((name) => name >= '0030')
  const known = MIGRATIONS.filter(({ name }) => name < '0030')
  using sqlite = open()
  migrate(sqlite, null, 0, known)
  sqlite.run(`INSERT INTO settings VALUES ('keep', '30d', 0)`)
  const { code, stdout, stderr } = await check()
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout.replace(/of .* took .* m?s on/, 'took').replaceAll(/[\d.]+ MiB/g, 'N MiB')).toBe(
    `${names.length} migrations took a copy.\n  ${names.join('\n  ')}\nChanged settings:\n  - keep=30d\n  + retention=30d\n${COPY}${SAFE}`,
  )
  expect(sqlite.query('SELECT COUNT(*) AS n FROM migrations').get()).toEqual({ n: known.length })
  expect(JSON.parse((await check('--json')).stdout)).toMatchObject({
    ok: true,
    migrations: names,
    changes: [{ what: 'settings', removed: ['keep=30d'], added: ['retention=30d'] }],
  })
})

test('exits 1 if the copy would be inconsistent', async () => {
  using sqlite = open()
  createLedgerWriter(sqlite).apply([settling(toSettled(toOpen()))])
  sqlite.run('UPDATE usage_hourly SET cost_nano_usd = cost_nano_usd + 1')
  const { code, stdout, stderr } = await check()
  expect([code, stdout]).toEqual([1, expect.stringContaining('cost_nano_usd 500 in the ledger, 501 in the rollup')])
  expect(stderr).toStartWith("error: Don't upgrade")
})

test('a database of a newer version, or none, is refused', async () => {
  using sqlite = open()
  sqlite.run(`INSERT INTO migrations VALUES ('9999_next', 0)`)
  expect((await check()).stderr).toContain('used by a newer Tollgate (unknown migrations: 9999_next). Use that version')
  sqlite.run('PRAGMA user_version = 1002003')
  expect((await check()).stderr).toContain(
    'used by Tollgate 1.2.3, which is newer (unknown migrations: 9999_next). Use that version. To go back to this one, run `tollgate rollback` with 1.2.3, or restore an older backup.',
  )
  const elsewhere = join(bench.folder, 'empty')
  expect((await check('--data', elsewhere)).code).toBe(1)
  expect(existsSync(elsewhere)).toBe(false)
})
