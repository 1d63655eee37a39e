/** Output and errors of `backup` and `restore`. */
import { Database } from 'bun:sqlite'
import { beforeEach, expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toRecordLine } from '../../src/ledger/journal-file.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { HOUR, opening, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)
beforeEach(() => {
  const row = toOpen()
  mkdirSync(join(bench.folder, 'journal'))
  mkdirSync(join(bench.folder, 'backups'))
  const records = [settling(toSettled(row)), opening(toOpen({ createdMs: HOUR }))]
  writeFileSync(join(bench.folder, 'journal/gone-1.log'), records.map(toRecordLine).join(''))
})

const FILE = 'backups/copy.sqlite'
const path = () => join(bench.folder, FILE)

test('a backup reports its content and its source, and a restore reports the same', async () => {
  const made = await bench.run('backup', FILE)
  expect(made).toMatchObject({ code: 0, stderr: '' })
  const holds = '2 requests, newest 2026-11-21 12:00 UTC'
  expect(made.stdout.replace(/0\.\d MiB/, 'N MiB')).toBe(
    `${path()}: N MiB, ${holds}, verified.\nApplied 2 ledger records from the journal.\n1 request in flight during the backup: recorded at the reserved cost.\n`,
  )
  const restored = await bench.run('restore', FILE)
  expect(restored).toMatchObject({ code: 0, stderr: '' })
  expect(restored.stdout).toBe(
    `Restored ${path()} to ${bench.folder}: ${holds}.\n${ALL_ELSE}\nThe replaced database is in ${bench.folder}/backups/replaced-2026-11-21T00-00-00Z. Delete it when no longer needed.\n`,
  )
  expect((await bench.run('ledger', 'verify')).stdout).toContain('2 settled requests')
})

const ALL_ELSE = 'Everything else is as of the backup: limits, the catalog, and budget spend.'

test('a restore reports keys that stay revoked, lost changes, or reactivated keys', async () => {
  for (const name of ['ann', 'bob']) await bench.run('keys', 'create', '--name', name, '--rpm', '60')
  await bench.run('backup', FILE)
  await bench.run('keys', 'revoke', 'bob')
  await bench.run('keys', 'edit', 'ann', '--rpm', '5')
  expect((await bench.run('restore', FILE)).stdout).toContain(
    `\nKeys revoked since the backup stay revoked: bob.\n${ALL_ELSE}\nThe replaced`,
  )
  expect(JSON.parse((await bench.run('keys', 'show', 'ann', '--json')).stdout).rpm).toBe(60)
  const reinstated = await bench.run('restore', FILE, '--as-it-was')
  expect(reinstated.stderr).toContain('note: --as-it-was is now --reinstate-revoked.')
  expect(reinstated.stdout).toContain(`${ALL_ELSE}\nKeys revoked since the backup are active again. Review`)
})

test('with --json each prints one document', async () => {
  const made = JSON.parse((await bench.run('backup', FILE, '--json')).stdout)
  expect(made).toEqual({
    file: path(),
    bytes: expect.any(Number),
    secret_file: null,
    requests: 2,
    cost_nano_usd: 9_500,
    newest_ms: HOUR + 1_000,
    from_journal: 2,
    given_up: 1,
    ok: true,
    findings: [],
  })
  const restored = JSON.parse((await bench.run('restore', FILE, '--json')).stdout)
  expect(restored).toMatchObject({ file: path(), requests: 2, kept_revoked: [], secret_restored: false, findings: [] })
})

test('a backup of a ledger with findings is kept, and the exit code says so', async () => {
  await bench.run('backup', 'backups/first.sqlite')
  await bench.run('restore', 'backups/first.sqlite')
  using database = new Database(databasePath(bench.folder))
  database.run('UPDATE usage_hourly SET errors = 7')
  const made = await bench.run('backup', FILE)
  expect(made.code).toBe(1)
  expect(made.stdout).toContain('2 requests')
  expect(made.stderr).toContain('The backup was written, but its ledger, like that of the database, has 1 find')
  expect(made.stderr).toContain('errors 1 in the ledger, 7 in the rollup')
  const refused = await bench.run('restore', FILE)
  expect(refused.stderr).toContain('Restore another backup, or use --force to restore this one anyway.')
  expect((await bench.run('restore', FILE, '--force')).code).toBe(0)
})

test.each([
  ['restore', 'start the server or run restore again.'],
  ['rollback', 'run `tollgate rollback` again.'],
])('beside a %s that was broken off, commands say what to do', async (what, advice) => {
  mkdirSync(join(bench.folder, what))
  for (const name of ['replaced', 'tollgate.db']) writeFileSync(join(bench.folder, what, name), 'backups/replaced-1')
  const { code, stderr } = await bench.run('keys', 'list')
  expect(code).toBe(1)
  expect(stderr).toContain(`A ${what} of ${bench.folder} is in progress, or was interrupted. To finish it, ${advice}`)
  expect((await bench.run('doctor')).stdout).toMatch(new RegExp(`problem +database +A ${what} of`))
})
