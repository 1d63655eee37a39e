/** Content of a backup, remains of a failed one, and files that it never overwrites. */
import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BackupOptions, backUp } from '../../src/backup/create.ts'
import { HOUR_MS } from '../../src/domain/time.ts'
import { toRecordLine } from '../../src/ledger/journal-file.ts'
import { openMark } from '../../src/ledger/mark.ts'
import { takeLock } from '../../src/store/data-folder.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { toStore } from '../../src/store/sqlite/store.ts'
import { mountSmallDisk, whyNoSmallDisk } from '../e2e/crash-trouble.ts'
import {
  calling,
  createFolder,
  type Folder,
  findingsOf,
  HOUR,
  opening,
  settling,
  statusesOf,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from '../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

let folder: Folder
afterEach(() => folder.close())
const away = forEachTest(createTestFolder)
beforeEach(() => {
  folder = createFolder()
})

const apply = (...records: LedgerRecord[]) => createLedgerWriter(folder.database).apply(records)
const wait = (...records: LedgerRecord[]) =>
  writeFileSync(join(folder.journal, 'here-1.log'), records.map(toRecordLine).join('') + '\0'.repeat(100))
const file = () => join(away.path, 'copy.sqlite')
const make = (options: Partial<BackupOptions> = {}, source = folder.other()) =>
  backUp(toStore(source, folder.path), { dataFolder: folder.path, file: file(), flush: async () => {}, ...options })
const open = () => new Database(file(), { readonly: true })

test('a backup has the records of database and journal, ends requests in flight, and is consistent', async () => {
  const [settled, waiting, underWay, late] = [toOpen(), toOpen(), toOpen(), toOpen()]
  apply(settling(toSettled(settled)), opening(underWay), opening(late))
  wait(settling(toSettled(waiting)), settling(toSettled(late)), settling(toSettled(settled)))
  openMark(folder.path, 4).close()
  const made = await make()
  expect(made).toMatchObject({ requests: 4, applied: 2, givenUp: 1, rejected: [], findings: [], file: file() })
  expect(made.bytes).toBe(statSync(file()).size)
  expect(statSync(file()).mode & 0o777).toBe(0o600)
  expect(readdirSync(away.path)).toEqual(['copy.sqlite'])
  using copy = open()
  expect(statusesOf(copy)).toEqual({
    [settled.id]: 'ok',
    [waiting.id]: 'ok',
    [late.id]: 'ok',
    [underWay.id]: 'abandoned',
  })
  expect(findingsOf(copy, away.path)).toEqual([])
  // The database is unchanged.
  expect(statusesOf(folder.database)).toEqual({ [settled.id]: 'ok', [underWay.id]: 'open', [late.id]: 'open' })
  expect(readdirSync(folder.journal)).toEqual(['here-1.log'])
})

test("records that arrive during a backup don't lose earlier ones: all from before it began are in it", async () => {
  const row = toOpen()
  wait(settling(toSettled(row)))
  const made = await make({
    async flush() {
      apply(settling(toSettled(row)))
      rmSync(join(folder.journal, 'here-1.log'))
    },
  })
  expect(made).toMatchObject({ requests: 1, applied: 0, findings: [] })
})

describe('rows that retention deletes while the journal is read', () => {
  /** A deleted row whose records are still read, and an equally old one that the database does not have yet. */
  const prune = () => {
    const [old, behind] = [toOpen({ createdMs: HOUR }), toOpen({ createdMs: HOUR + 1 })]
    apply(settling(toSettled(old)))
    pruneSlice(folder.database, { untilMs: HOUR + HOUR_MS, after: '', limit: 10, spared: [] }, HOUR)
    const call = toCall(old, 2)
    wait(opening(old), calling(call), settling(toSettled(old, { attempts: 2 }), [toSettledCall(call)]))
    return { old, behind }
  }
  const counted = (copy: Database) => copy.query('SELECT SUM(requests) AS n FROM usage_hourly').get()

  test('are counted once in the copy', async () => {
    prune()
    using served = new DisposableStack()
    served.defer(takeLock(folder.path))
    expect(await make()).toMatchObject({ requests: 1, applied: 0, givenUp: 0, findings: [] })
    using copy = open()
    expect([counted(copy), statusesOf(copy)]).toEqual([{ n: 1 }, {}])
  })

  test("don't exist if the request is still in flight, or if no server ran that would have deleted them", async () => {
    const { behind } = prune()
    wait(settling(toSettled(behind)))
    expect(await make()).toMatchObject({ requests: 2, applied: 1, findings: [] })
    apply(opening(behind))
    using served = new DisposableStack()
    served.defer(takeLock(folder.path))
    expect(await make({ force: true })).toMatchObject({ requests: 2, applied: 1, givenUp: 0, findings: [] })
  })
})

test('rows that the database has lost are findings, but rejected ones are not', async () => {
  const row = toOpen()
  apply(settling(toSettled(row)))
  writeFileSync(join(folder.journal, 'here.rejected'), toRecordLine(opening(toOpen())))
  openMark(folder.path, 2).close()
  expect((await make()).findings).toEqual([])
  openMark(folder.path, 4).close()
  expect((await make({ force: true })).findings).toEqual([{ kind: 'missing', requests: 2 }])
  expect(existsSync(file())).toBe(true)
})

describe('there is no new file', () => {
  const kept = () => readFileSync(file(), 'utf8')

  test('if its name is taken, unless forced', async () => {
    writeFileSync(file(), 'mine')
    await expect(make()).rejects.toMatchObject({ failure: { kind: 'backup_exists', path: file() } })
    expect(kept()).toBe('mine')
    await make({ force: true })
    expect(open().query('SELECT COUNT(*) AS n FROM requests').get()).toEqual({ n: 0 })
  })

  test('if the name is taken meanwhile', async () => {
    const flush = async () => writeFileSync(file(), 'mine')
    await expect(make({ flush })).rejects.toMatchObject({ failure: { kind: 'backup_exists' } })
    expect(kept()).toBe('mine')
    expect(readdirSync(away.path)).toEqual(['copy.sqlite'])
  })

  test.each<[what: string, path: () => string]>([
    ['in a folder that is not there', () => join(away.path, 'none/copy.sqlite')],
    ['in place of a folder', () => away.path],
    ['in place of the database', () => databasePath(folder.path)],
    ['among the files of the data folder', () => join(folder.journal, 'copy.sqlite')],
  ])('%s, forced or not', async (_, path) => {
    const before = readdirSync(folder.path, { recursive: true })
    await expect(make({ file: path(), force: true })).rejects.toMatchObject({ failure: { kind: 'backup_unwritable' } })
    expect(readdirSync(folder.path, { recursive: true })).toEqual(before)
  })

  test('for a damaged database', async () => {
    apply(...Array.from({ length: 500 }, () => opening(toOpen())))
    folder.database.run('PRAGMA wal_checkpoint(TRUNCATE)')
    const source = folder.other()
    const path = databasePath(folder.path)
    const bytes = readFileSync(path)
    writeFileSync(path, bytes.fill(1, bytes.length / 2))
    await expect(make({}, source)).rejects.toMatchObject({ code: expect.stringMatching(/^SQLITE_CORRUPT/) })
    expect(readdirSync(away.path)).toEqual([])
  })

  test.skipIf(whyNoSmallDisk() !== null)(
    'on a disk that is too small, or fills up; on another disk there is',
    async () => {
      for (let n = 0; n < 10_000; n += 500) apply(...Array.from({ length: 500 }, () => settling(toSettled(toOpen()))))
      for (const [megabytes, isFilled, left] of [
        [1, false, []],
        [8, true, ['ballast']],
        [8, false, ['copy.sqlite']],
      ] as const) {
        const disk = mountSmallDisk(join(away.path, 'disk'), megabytes)
        if (typeof disk === 'string') throw new Error(disk)
        try {
          // There was space when it began.
          const flush = async () => (isFilled ? disk.fill() : undefined)
          const made = make({ file: join(disk.folder, 'copy.sqlite'), flush })
          if (left[0] === 'copy.sqlite') expect(await made).toMatchObject({ requests: 10_000, findings: [] })
          else
            await expect(made).rejects.toThrow(
              isFilled ? 'the disk is full' : /not enough disk space: .* 1 MiB free, \d+ MiB missing/,
            )
          expect<readonly string[]>(readdirSync(disk.folder)).toEqual(left)
        } finally {
          disk.unmount()
        }
      }
    },
  )
})

test('parts of a killed run are removed, those of other files after a day; those in progress are not', async () => {
  const ended = Bun.spawnSync(['true']).pid
  const journal = `copy.sqlite.${ended}.part-journal`
  for (const name of [
    journal,
    `copy.sqlite.${ended}.part`,
    `copy.sqlite.${process.ppid}.part`,
    `other.sqlite.${ended}.part`,
  ])
    writeFileSync(join(away.path, name), 'half')
  const old = join(away.path, `yesterday.sqlite.${ended}.part`)
  writeFileSync(old, 'half')
  const then = new Date(Date.now() - 25 * HOUR_MS)
  utimesSync(old, then, then)
  await make()
  expect(readdirSync(away.path).sort()).toEqual([
    'copy.sqlite',
    `copy.sqlite.${process.ppid}.part`,
    `other.sqlite.${ended}.part`,
  ])
})

test("the folder's secret is copied on request, readable only by its owner", async () => {
  writeFileSync(join(folder.path, 'secret'), 'of the folder')
  expect((await make()).secretFile).toBeNull()
  mkdirSync(join(away.path, 'two'))
  const two = join(away.path, 'two/copy.sqlite')
  expect((await make({ file: two, withSecret: true })).secretFile).toBe(`${two}.secret`)
  expect(readFileSync(`${two}.secret`, 'utf8')).toBe('of the folder')
  expect(statSync(`${two}.secret`).mode & 0o777).toBe(0o600)
  expect(readdirSync(away.path)).not.toContain('copy.sqlite.secret')
})
