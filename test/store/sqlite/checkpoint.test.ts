/** Checkpoints on their own thread: what they cover, who joins whom, and that a reader never stops the writer for long. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { type Checkpointer, createCheckpointer } from '../../../src/store/sqlite/checkpoint.ts'
import { databasePath } from '../../../src/store/sqlite/files.ts'
import { createFolder, createTestLog, type Folder } from '../../ledger/fixture.ts'

let folder: Folder
let checkpointer: Checkpointer
const log = createTestLog()
beforeEach(() => {
  folder = createFolder()
  folder.database.run('PRAGMA wal_autocheckpoint = 0')
  checkpointer = createCheckpointer(databasePath(folder.path), log)
  log.messages.length = 0
})
afterEach(() => {
  checkpointer.close()
  folder.close()
})

const write = () => folder.database.run(`INSERT INTO settings VALUES ('k${Math.random()}', '${'x'.repeat(5_000)}', 0)`)
const walBytes = () => statSync(`${databasePath(folder.path)}-wal`).size

test('what was committed reaches the file, and the WAL begins again instead of growing', async () => {
  for (let i = 0; i < 20; i++) write()
  expect(await checkpointer.run()).toBe('file')
  const size = walBytes()
  for (let i = 0; i < 10; i++) write()
  expect(walBytes()).toBe(size)
  expect(log.messages).toEqual([])
})

test('everybody who asks at once gets an answer, and one run more covers them all', async () => {
  write()
  const first = checkpointer.run()
  write()
  const others = Array.from({ length: 3 }, () => checkpointer.run())
  expect(await Promise.all([first, ...others])).toEqual(['file', 'file', 'file', 'file'])
})

test('comes by itself after a number of commits', async () => {
  for (let i = 0; i < 300; i++) write()
  const size = walBytes()
  for (let i = 0; i < 1_000; i++) checkpointer.note()
  // Joins the one that was begun, or follows it.
  await checkpointer.run()
  for (let i = 0; i < 100; i++) write()
  expect(walBytes()).toBe(size)
})

test('a WAL that is too large is cut at once, and one that somebody reads in not before it has grown by a quarter', async () => {
  const most = 64 * 1024 ** 2
  const reader = folder.other()
  reader.run('BEGIN')
  reader.query('SELECT COUNT(*) FROM settings').get()
  write()
  checkpointer.noteSize(most - 1)
  checkpointer.noteSize(most)
  // Joins the one that was begun.
  await checkpointer.run()
  reader.run('COMMIT')
  checkpointer.noteSize(most)
  await checkpointer.run()
  expect(walBytes()).toBeGreaterThan(0)
  checkpointer.noteSize(most * 1.25)
  await checkpointer.run()
  expect(walBytes()).toBe(0)
})

test('a reader that keeps its snapshot makes it end in the log, soon, and the next one reaches the file', async () => {
  write()
  const reader = folder.other()
  reader.run('BEGIN')
  reader.query('SELECT COUNT(*) FROM settings').get()
  write()
  expect(await checkpointer.run()).toBe('log')
  write()
  reader.run('COMMIT')
  expect(await checkpointer.run()).toBe('file')
})
