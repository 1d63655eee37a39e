/** `doctor` in every state of an installation, without ever changing one. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { toScheduledName } from '../../src/backup/backup-list.ts'
import { toRecordLine } from '../../src/ledger/journal-file.ts'
import { toDiskState } from '../../src/server/disk.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { opening, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { toUpstreamStatus } from '../support/status.ts'
import { type Clinic, NOW, openClinic } from './doctor-bench.ts'

let clinic: Clinic
beforeEach(async () => {
  clinic = await openClinic()
})
afterEach(() => clinic.end())

const HOUR = 3_600_000
const database = () => databasePath(clinic.folder)
const MEASURED = { usedBytes: 1, reusableBytes: 0, freeBytes: 1e12 }
const UPSTREAMS = [toUpstreamStatus('here'), toUpstreamStatus('keyed')]

describe('a healthy installation', () => {
  test('every line says ok while the server runs', async () => {
    clinic.serve({ upstreams: UPSTREAMS, in_flight: 3, started_ms: NOW - 7_200_000 })
    const { code, troubles, of } = await clinic.examine()
    expect({ code, troubles }).toEqual({ code: 0, troubles: [] })
    expect(of('server')).toBe('ok: Running at http://127.0.0.1:4000/v1 (process 4242, started 2 h ago).')
    expect(of('readiness')).toBe('ok: Accepting requests; 3 in progress.')
    expect(of('models')).toBe('ok: 3 of 3 models ready.')
    const { stdout, stderr } = await clinic.run('doctor')
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^ok {7}data_folder +\//)
    expect(stdout).toContain('tollgate ledger verify')
  })

  test('requests that may have cost more than recorded are reported for thirty days, with their models', async () => {
    const DAY = 24 * HOUR
    const made = (daysAgo: number, model: string, unpriced: number) =>
      settling(toSettled(toOpen({ createdMs: NOW - daysAgo * DAY, model }), { unpriced }))
    const record = (...records: LedgerRecord[]) => createLedgerWriter(clinic.database()).apply(records)
    const prices = async () => (await clinic.examine()).of('prices')
    record(made(40, 'acme/old', 1), made(3, 'acme/fine', 0))
    expect(await prices()).toBe('ok: All usage in the last 30 days has a price.')
    record(made(29, 'acme/voice', 1), made(3, 'acme/search', 1), made(0, 'acme/search', 1))
    expect(await prices()).toMatch(
      /^warning: 3 requests in the last 30 days had usage without a price \(acme\/search, acme\/voice\), .*--model acme\/search/,
    )
  })

  test('models of a wildcard and unlisted ones are checked like others', async () => {
    clinic
      .database()
      .run(
        `UPDATE catalog_entries SET fields = json_set(fields, '$.listed', json(iif(name = 'local/b', 'true', 'false')), '$.fromWildcard', json(iif(name = 'local/b', 'false', 'true'))) WHERE kind = 'models'`,
      )
    clinic.serve({ upstreams: UPSTREAMS })
    expect((await clinic.examine()).of('models')).toBe('ok: 3 of 3 models ready.')
  })

  test("a backup's age is shown, scheduled or not", async () => {
    clinic.serve({ upstreams: UPSTREAMS })
    expect((await clinic.examine()).of('backup')).toStartWith('ok: No backups scheduled')
    mkdirSync(clinic.path('backups'), { mode: 0o700 })
    writeFileSync(clinic.path('backups', toScheduledName(NOW - 3 * HOUR)), '', { mode: 0o600 })
    await clinic.restart({ backups: { every_ms: 2 * HOUR, failed: null } })
    expect((await clinic.examine()).of('backup')).toBe('ok: Newest: 3 h ago, in backups/ of the data folder.')
    await clinic.restart({ backups: { every_ms: HOUR, failed: null } })
    expect((await clinic.examine()).of('backup')).toBe(
      'warning: Newest: 3 h ago, although one is due every 1h. See the server log for the reason.',
    )
    await clinic.restart({ backups: { every_ms: 24 * HOUR, failed: 'The disk is full.' } })
    expect((await clinic.examine()).of('backup')).toBe(
      'warning: The last scheduled backup failed: The disk is full. Newest: 3 h ago.',
    )
  })

  test('there are only warnings while the server is stopped', async () => {
    const { code, troubles, of } = await clinic.examine()
    expect({ code, troubles }).toEqual({
      code: 0,
      troubles: [
        `server: warning: No server is running. Start it: tollgate serve --data ${clinic.folder}`,
        'upstream keyed: warning: Not ready: the variable KEYED is not set here.',
        'models: warning: local/b, local/c: upstream keyed: the variable KEYED is not set here.',
      ],
    })
    expect(of('models')).toStartWith('ok: 1 of 3 models ready.')
  })

  test('disk space is shown: free, used by the folder, and as a share of its budget', async () => {
    expect((await clinic.examine()).of('disk')).toMatch(/^ok: .* GiB free .* which uses \d.*\.$/)
    clinic.serve({ upstreams: UPSTREAMS, disk: toDiskState(MEASURED, 64 * 1024 ** 2) })
    expect((await clinic.examine()).of('disk')).toMatch(/^ok: .* of 64\.0 MiB \(--disk-budget\)/)
    const size = statSync(clinic.path('tollgate.db')).size
    await clinic.restart({ upstreams: UPSTREAMS, disk: toDiskState(MEASURED, Math.ceil(size * 1.05)) })
    expect((await clinic.examine()).of('disk')).toMatch(/^warning: .*, raise --disk-budget, or lower the retention/)
  })

  test.each(['stopped', 'running'])('nothing is created or changed: %s', async (state) => {
    if (state === 'running') {
      clinic.database().run("INSERT INTO settings VALUES ('x', 'y', 0)")
      clinic.serve({ upstreams: UPSTREAMS })
    }
    const picture = () =>
      readdirSync(clinic.folder)
        .sort()
        .map((name) => {
          const path = clinic.path(name)
          const { mode, mtimeMs } = statSync(path)
          // The shared memory of a database changes with every reader.
          return name.endsWith('-shm') ? [name, mode] : [name, mode, mtimeMs, name.endsWith('.sock') || digest(path)]
        })
    const before = picture()
    expect((await clinic.examine()).code).toBe(0)
    expect(picture()).toEqual(before)
    expect(before.length).toBe(state === 'running' ? 5 : 1)
  })
})

const digest = (path: string) => Bun.hash(readFileSync(path))

describe('the data folder', () => {
  test('that is missing is a problem, and is not created', async () => {
    const { code, troubles } = await clinic.examine('--data', clinic.path('nowhere'))
    expect([code, troubles]).toEqual([1, [expect.stringContaining('Start the server once (tollgate serve --data')]])
    expect(existsSync(clinic.path('nowhere'))).toBe(false)
  })

  test('that is a file is a problem', async () => {
    writeFileSync(clinic.path('file'), '')
    expect((await clinic.examine('--data', clinic.path('file'))).troubles).toEqual([
      expect.stringContaining('is a file'),
    ])
  })

  test('without a database is a problem', async () => {
    mkdirSync(clinic.path('empty'), { mode: 0o700 })
    const { of } = await clinic.examine('--data', clinic.path('empty'))
    expect(of('database')).toMatch(/^problem: .*tollgate.db doesn't exist. Start the server once/)
    expect(readdirSync(clinic.path('empty'))).toEqual([])
  })

  test('that others can read is a warning that names the files', async () => {
    chmodSync(clinic.folder, 0o755)
    chmodSync(database(), 0o644)
    mkdirSync(clinic.path('journal'), { mode: 0o700 })
    writeFileSync(clinic.path('journal', 'a.log'), '')
    chmodSync(clinic.path('journal', 'a.log'), 0o640)
    const { code, of } = await clinic.examine()
    expect(code).toBe(0)
    expect(of('permissions')).toBe(
      `warning: Other users can access the folder, journal/a.log, tollgate.db. Fix: chmod -R go= ${clinic.folder}`,
    )
  })

  test("is also checked for files with commands and the lock of the secret; a link has its target's permissions", async () => {
    const shared = ['models.d/own.yaml', 'engines/b1.json', 'secret.lock']
    for (const folder of ['models.d', 'engines', 'engines/b1']) mkdirSync(clinic.path(folder), { mode: 0o700 })
    symlinkSync(clinic.path('engines/b1'), clinic.path('engines/current'))
    for (const name of shared) writeFileSync(clinic.path(name), '', { mode: 0o600 })
    expect((await clinic.examine()).of('permissions')).toStartWith('ok: ')
    for (const name of shared) chmodSync(clinic.path(name), 0o664)
    expect((await clinic.examine()).of('permissions')).toContain(
      'Other users can access engines/b1.json, models.d/own.yaml, secret.lock.',
    )
  })

  test.skipIf(process.getuid?.() !== 0)('with files of another user is reported', async () => {
    chownSync(clinic.path('tollgate.db'), 12_345, 12_345)
    expect((await clinic.examine()).of('permissions')).toBe(
      `warning: Another user owns tollgate.db, so the server may fail. Fix: chown -R 0:0 ${clinic.folder}`,
    )
  })

  test("that can't be written is a problem, and other checks still run", async () => {
    chmodSync(clinic.folder, 0o500)
    const { of } = await clinic.examine()
    expect(of('data_folder')).toMatch(/^problem: This user can't write to /)
    expect(of('database')).toStartWith('ok: ')
  })
})

describe('the database', () => {
  test.each<[what: string, harm: () => void]>([
    ['overwritten', () => writeFileSync(database(), 'no database at all, '.repeat(100))],
    ['cut off', () => truncateSync(database(), Math.floor(statSync(database()).size / 2))],
  ])('%s is told as damaged, and the rest is looked at', async (_, harm) => {
    harm()
    const { code, of } = await clinic.examine()
    expect(code).toBe(1)
    expect(of('database')).toMatch(/^problem: .*tollgate\.db is (damaged|not a database) \(.* restore a backup/)
    expect(of('server')).toStartWith('warning: ')
  })

  test('that another process has locked is reported', async () => {
    const other = clinic.database()
    other.run('PRAGMA locking_mode = EXCLUSIVE')
    other.run("INSERT INTO settings VALUES ('x', 'y', 0)")
    expect((await clinic.examine()).of('database')).toMatch(/^problem: Another process has locked /)
  })

  test.each([
    [
      "INSERT INTO migrations VALUES ('9999_tomorrow', 0)",
      /^problem: .* newer Tollgate \(unknown migrations: 9999_tomorrow\)/,
    ],
    ['DELETE FROM migrations WHERE name = (SELECT MAX(name) FROM migrations)', /^problem: .* older Tollgate/],
    ['DROP TABLE migrations', /^problem: \/.*tollgate\.db is not a Tollgate database/],
  ])('of another version is told so: %s', async (sql, expected) => {
    clinic.database().run(sql)
    const { of } = await clinic.examine()
    expect(of('database')).toStartWith('ok: ')
    expect(of('schema')).toMatch(expected)
  })

  test('whose newest row is in the future suggests a wrong clock', async () => {
    const commit = (createdMs: number) => createLedgerWriter(clinic.database()).apply([opening(toOpen({ createdMs }))])
    commit(NOW + 30_000)
    expect((await clinic.examine()).of('clock')).toStartWith('ok: ')
    commit(NOW + 7_200_000)
    expect((await clinic.examine()).of('clock')).toMatch(/^warning: The newest request is 2 h in the future/)
  })
})

test('a catalog file is reported: applied, not yet applied, or invalid for a start', async () => {
  const path = clinic.path('catalog.yaml')
  const found = async () => (await clinic.examine()).of('catalog_file')
  expect(await found()).toBe('')
  const applied = await Bun.file(clinic.path('..', 'c.yaml')).text()
  await Bun.write(path, applied)
  expect(await found()).toBe(`ok: ${path} is applied.`)
  await Bun.write(path, `${applied}# more`)
  expect(await found()).toBe(`ok: ${path} is valid but not applied. Preview: tollgate catalog plan ${path}`)
  await Bun.write(path, 'version: 1\nmodels: 7\nfoo: bar\n')
  expect(await found()).toMatch(
    /^warning: .* has 3 problems\. .* can't start\. List them: tollgate catalog validate \//,
  )
})

describe('the journal', () => {
  const leave = (folder: string, name: string, text: string) => {
    mkdirSync(clinic.path(folder), { recursive: true, mode: 0o700 })
    writeFileSync(join(clinic.path(folder), name), text, { mode: 0o600 })
  }
  const line = () => toRecordLine(opening(toOpen()))

  test('with rows of an earlier server is a warning, and with rejected ones a problem', async () => {
    const applied = opening(toOpen())
    createLedgerWriter(clinic.database()).apply([applied])
    leave('journal', 'dead-1.log', `${line()}${line()}${toRecordLine(applied)}\0\0\0`)
    leave('journal', 'dead-2.log', '\0\0\0')
    expect((await clinic.examine()).of('journal')).toBe(
      'warning: journal/dead-1.log holds 2 ledger rows of a stopped server. The next start applies them.',
    )
    leave('spool', 'dead.rejected', line())
    const { code, of } = await clinic.examine()
    expect(code).toBe(1)
    expect(of('journal')).toContain('problem: spool/dead.rejected holds ledger rows')
  })

  test('with rows of the running server is ok', async () => {
    leave('journal', 'alive-1.log', line())
    clinic.serve({ instance: 'alive', upstreams: UPSTREAMS })
    expect((await clinic.examine()).troubles).toEqual([])
  })

  test("is not reported for a server that can't be reached", async () => {
    clinic.database().run("INSERT INTO instances VALUES ('alive', 1, 0, 0)")
    leave('journal', 'alive-1.log', line())
    clinic.serve()
    renameSync(clinic.path('control.sock'), clinic.path('elsewhere'))
    const { code, of } = await clinic.examine()
    expect(code).toBe(1)
    expect(of('journal')).toStartWith('ok: ')
    expect(of('control_socket')).toMatch(/^problem: Can't reach the server: control.sock is missing/)
    rmSync(clinic.path('elsewhere'))
  })
})
