/** What a start does with what a killed server left behind. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { recover } from '../../src/usage/recover.ts'
import { listSegments, toLine } from '../../src/usage/segment.ts'
import { createSpool, type Spool } from '../../src/usage/spool.ts'
import {
  contentsOf,
  createFolder,
  createTestLog,
  type Folder,
  opening,
  settling,
  statusesOf,
  toOpen,
  toSettled,
} from './fixture.ts'

let folder: Folder
let spool: Spool
const log = createTestLog()
beforeEach(() => {
  folder = createFolder()
  spool = createSpool({ folder: folder.spool, instance: 'new' })
  log.messages.length = 0
})
afterEach(() => folder.close())

const start = () => recover(folder.database, spool, folder.spool, 'new', log)
const leave = (file: string, lines: string) => writeFileSync(join(folder.spool, file), lines + '\0'.repeat(4_096))

test('every segment is replayed, whoever wrote it, and what no settle ends is given up', () => {
  const [settled, open, fresh] = [
    toOpen({ instance: 'old' }),
    toOpen({ instance: 'older' }),
    toOpen({ instance: 'new' }),
  ]
  leave('old-1.log', toLine(settling(toSettled(settled))))
  leave('old-2.log', toLine(opening(settled)) + toLine(opening(open)).slice(0, -20))
  leave('older-1.log', toLine(opening(open)))
  leave('old-3.log', '')
  leave('new-1.log', toLine(opening(fresh)))
  expect(start()).toEqual({ replayed: 4, abandoned: 1 })
  expect(statusesOf(folder.database)).toEqual({ [settled.id]: 'ok', [open.id]: 'abandoned', [fresh.id]: 'open' })
  expect(listSegments(folder.spool)).toEqual([])
})

test('a start that was killed half way changes nothing when it is made again', () => {
  const rows = [toOpen({ instance: 'old' }), toOpen({ instance: 'old' })]
  const lines = rows.map((row) => toLine(opening(row))).join('') + toLine(settling(toSettled(rows[0] ?? toOpen())))
  leave('old-1.log', lines)
  start()
  const before = contentsOf(folder.database)
  leave('old-1.log', lines)
  expect(start()).toEqual({ replayed: 3, abandoned: 0 })
  expect(contentsOf(folder.database)).toEqual(before)
})

test('a segment stays where another process keeps its records out of the database file', () => {
  leave('old-1.log', toLine(opening(toOpen({ instance: 'old' }))))
  const reader = folder.other()
  reader.run('BEGIN')
  reader.query('SELECT COUNT(*) FROM requests').get()
  expect(start()).toEqual({ replayed: 1, abandoned: 1 })
  expect(listSegments(folder.spool)).toHaveLength(1)
  reader.run('COMMIT')
  start()
  expect(listSegments(folder.spool)).toEqual([])
})

test('a database that refuses stops the start and keeps the segments', () => {
  leave('old-1.log', toLine(opening(toOpen({ instance: 'old' }))))
  folder.other().run('BEGIN IMMEDIATE')
  expect(start).toThrow('locked')
  expect(listSegments(folder.spool)).toHaveLength(1)
})

test('a record that does not fit is kept in the spool folder and stops nothing', () => {
  const broken = toSettled(toOpen({ instance: 'old' }))
  Reflect.set(broken, 'attempts', null)
  const good = toOpen({ instance: 'new' })
  leave('old-1.log', toLine(settling(broken)) + toLine(opening(good)))
  start()
  expect(statusesOf(folder.database)).toEqual({ [good.id]: 'open' })
  expect(existsSync(join(folder.spool, 'new.rejected'))).toBe(true)
})
