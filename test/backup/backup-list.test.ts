/** When a scheduled backup is created, which ones are deleted, and how failures are handled. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BackupList, createBackupList, type MakeBackup, toScheduledName } from '../../src/backup/backup-list.ts'
import { createTestLog } from '../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const HOUR = 3_600_000
const START = Date.UTC(2026, 10, 21, 12)

let nowMs: number
let schedule: BackupList | null
afterEach(() => schedule?.stop())
const data = forEachTest(createTestFolder)
beforeEach(() => {
  nowMs = START
  schedule = null
})

const log = createTestLog()
const write: MakeBackup = async (file) => {
  writeFileSync(file, 'whole')
  return null
}
const start = (make = write, keep = 2) => {
  const store = {
    changeSettings: () => {
      throw new Error('the schedule changes nothing')
    },
  }
  schedule = createBackupList({ dataFolder: data.path, store, everyMs: 24 * HOUR, keep, make, now: () => nowMs, log })
  return schedule
}
const files = () => (existsSync(join(data.path, 'backups')) ? readdirSync(join(data.path, 'backups')).sort() : [])
const leave = (...names: string[]) => {
  mkdirSync(join(data.path, 'backups'), { recursive: true })
  for (const name of names) writeFileSync(join(data.path, 'backups', name), '')
}
const at = (hours: number) => toScheduledName(START + hours * HOUR)

test('without a backup one is created at once, the next when that is old enough, and the oldest are deleted', async () => {
  const { look } = start()
  const seen: string[][] = []
  for (const hours of [0, 23, 24, 47, 48, 73]) {
    nowMs = START + hours * HOUR
    await look()
    seen.push(files())
  }
  expect(seen).toEqual([[at(0)], [at(0)], [at(0), at(24)], [at(0), at(24)], [at(24), at(48)], [at(48), at(73)]])
})

test('a start uses the time of the last one', async () => {
  leave(at(-23))
  await start().look()
  expect(files()).toEqual([at(-23)])
})

test("other backups stay, as does one from the future, which doesn't prevent a new one", async () => {
  const others = ['before-migration-1.sqlite', 'manual.sqlite', 'replaced-2026-11-21T12-00-00Z', at(1_000)]
  leave(...others, at(-60), at(-30))
  const { look } = start(write, 1)
  await look()
  await look()
  expect(files()).toEqual([...others, at(0)].sort())
})

test.each<[what: string, make: MakeBackup, says: string]>([
  ['says why', async () => 'the disk is full', 'the disk is full'],
  ['breaks', () => Promise.reject(new Error('no process')), 'no process'],
  ['writes nothing', async () => null, 'it was not written'],
])('one that %s removes none, is told, and is tried again after ten minutes', async (_, make, says) => {
  leave(at(-48), at(-24))
  let tried = 0
  const { look } = start((...given) => {
    tried++
    return make(...given)
  }, 1)
  await look()
  nowMs += 599_999
  await look()
  expect([tried, schedule?.scheduledFailed()]).toEqual([1, says])
  expect(files()).toEqual([at(-48), at(-24)])
  nowMs += 1
  await look()
  expect(tried).toBe(2)
})

test('a failure while the clock was ahead is retried once the clock is right', async () => {
  let failed: string | null = 'no room'
  const { look } = start(async (file, signal) => failed ?? write(file, signal))
  nowMs = START + 1_000 * 24 * HOUR
  await look()
  nowMs = START
  failed = null
  await look()
  expect(files()).toEqual([at(0)])
})

test('a backup with ledger findings is kept and reported', async () => {
  const { look } = start(async (file) => {
    await write(file, AbortSignal.abort())
    return 'it does not add up'
  })
  await look()
  expect([files(), schedule?.scheduledFailed()]).toEqual([[at(0)], 'it does not add up'])
})

test('parts of killed runs are removed before the next', async () => {
  const { pid } = Bun.spawnSync(['true'])
  for (const name of [at(-30), 'made-2026-11-21T12-00-00Z.sqlite', 'mine.sqlite']) leave(`${name}.${pid}.part`)
  await start().look()
  expect(files()).toEqual([at(0)])
})

test('a stop ends the one in progress, and no other is created', async () => {
  const begun = Promise.withResolvers<void>()
  const { look, stop } = start((_, signal) => {
    begun.resolve()
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve('killed')))
  })
  const making = look()
  await begun.promise
  await stop()
  await making
  await look()
  expect(files()).toEqual([])
  expect(schedule?.scheduledFailed()).toBe('killed')
})
