/** A killed restore has changed nothing, or is finished by the next process, whatever it had moved by then. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beginSwap, requireSettled, settleSwap, swap } from '../../src/backup/replace-database.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const NOW = Date.UTC(2026, 10, 21, 12)
const OLD = ['journal/a.log', 'ledger.mark', 'tollgate.db', 'tollgate.db-shm', 'tollgate.db-wal']
const NEW = ['ledger.mark', 'tollgate.db']

const data = forEachTest(createTestFolder)
beforeEach(() => {
  mkdirSync(join(data.path, 'journal'))
  for (const name of OLD) writeFileSync(join(data.path, name), 'old')
  const folder = beginSwap(data.path)
  for (const name of NEW) writeFileSync(join(folder, name), 'new')
})

const contents = (folder = data.path) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => `${path.slice(data.path.length + 1)} ${readFileSync(path, 'utf8')}`)
    .sort()

const TARGET = 'backups/replaced-2026-11-21T12-00-00Z'
const SWAPPED = [...OLD.map((name) => `${TARGET}/${name} old`), ...NEW.map((name) => `${name} new`)].sort()

/** In the order of their creation. */
const MOVES = [
  ...['tollgate.db-wal', 'tollgate.db-shm', 'journal', 'ledger.mark'].map((name) => [name, `${TARGET}/${name}`]),
  ['restore/ledger.mark', 'ledger.mark'],
  ['tollgate.db', `${TARGET}/tollgate.db`],
  ['restore/tollgate.db', 'tollgate.db'],
] as const

test('it puts the new files in place and keeps the old ones', () => {
  expect(swap(data.path, NOW)).toBe(join(data.path, TARGET))
  expect(contents()).toEqual(SWAPPED)
  expect(settleSwap(data.path)).toEqual({ kind: 'none' })
})

test('killed before its commit, it has changed nothing', () => {
  expect(settleSwap(data.path)).toEqual({ kind: 'undone' })
  expect(contents()).toEqual(OLD.map((name) => `${name} old`))
})

test.each(MOVES.map((_, moved) => moved).concat(MOVES.length))('killed after %d moves, it is finished', (moved) => {
  mkdirSync(join(data.path, TARGET), { recursive: true })
  writeFileSync(join(data.path, 'restore.part/replaced'), TARGET)
  renameSync(join(data.path, 'restore.part'), join(data.path, 'restore'))
  for (const [from, to] of MOVES.slice(0, moved)) renameSync(join(data.path, from), join(data.path, to))
  if (moved < MOVES.length) expect(() => requireSettled(data.path)).toThrow('is in progress, or was interrupted')
  expect(settleSwap(data.path)).toEqual({ kind: 'finished', replaced: join(data.path, TARGET) })
  expect(contents()).toEqual(SWAPPED)
  requireSettled(data.path)
})

test('killed when all was moved and its folder was nearly removed, it is finished', () => {
  swap(data.path, NOW)
  mkdirSync(join(data.path, 'restore'))
  settleSwap(data.path)
  expect(settleSwap(data.path)).toEqual({ kind: 'none' })
  expect(contents()).toEqual(SWAPPED)
})

test('replaced files are never overwritten by a second restore', () => {
  swap(data.path, NOW)
  writeFileSync(join(beginSwap(data.path), 'tollgate.db'), 'newer')
  expect(swap(data.path, NOW)).toBe(join(data.path, `${TARGET}-2`))
  expect(readFileSync(join(data.path, `${TARGET}-2/tollgate.db`), 'utf8')).toBe('new')
  expect(existsSync(join(data.path, TARGET, 'tollgate.db'))).toBe(true)
})

describe('a rollback', () => {
  const BROUGHT = ['journal/rollback-1.log', 'ledger.mark', 'tollgate.db']
  const ROLLED_BACK = [
    ...[...OLD, 'spool/s.log'].map((name) => `${TARGET}/${name} old`),
    ...[`${TARGET}/rollback.json new`, ...BROUGHT.map((name) => `${name} new`)],
  ].sort()
  const aside = (name: string) => [name, `${TARGET}/${name}`] as const
  /** In the order of their creation; the database gets a hard link first. */
  const STEPS = [
    ...[aside('tollgate.db-wal'), aside('tollgate.db-shm'), aside('spool')],
    ...[aside('journal'), ['rollback/journal', 'journal'] as const],
    ...[aside('ledger.mark'), ['rollback/ledger.mark', 'ledger.mark'] as const],
    ['rollback/rollback.json', `${TARGET}/rollback.json`] as const,
    ...[aside('tollgate.db'), ['rollback/tollgate.db', 'tollgate.db'] as const],
  ]

  beforeEach(() => {
    mkdirSync(join(data.path, 'spool'))
    writeFileSync(join(data.path, 'spool/s.log'), 'old')
    settleSwap(data.path)
    const folder = beginSwap(data.path, 'rollback')
    mkdirSync(join(folder, 'journal'))
    for (const name of [...BROUGHT, 'rollback.json']) writeFileSync(join(folder, name), 'new')
  })

  test('puts the older files in place and keeps the newer ones', () => {
    expect(swap(data.path, NOW, 'rollback')).toBe(join(data.path, TARGET))
    expect(contents()).toEqual(ROLLED_BACK)
  })

  test.each(STEPS.map((_, done) => done).concat(STEPS.length))(
    'killed after %d steps, only it can be finished',
    (done) => {
      mkdirSync(join(data.path, TARGET), { recursive: true })
      writeFileSync(join(data.path, 'rollback.part/replaced'), TARGET)
      renameSync(join(data.path, 'rollback.part'), join(data.path, 'rollback'))
      for (const [from, to] of STEPS.slice(0, done)) {
        const take = from === 'tollgate.db' ? linkSync : renameSync
        take(join(data.path, from), join(data.path, to))
      }
      const uses = done < STEPS.length ? [requireSettled, settleSwap] : []
      for (const use of uses) expect(() => use(data.path)).toThrow('A rollback of')
      expect(settleSwap(data.path, 'rollback')).toEqual({ kind: 'finished', replaced: join(data.path, TARGET) })
      expect(contents()).toEqual(ROLLED_BACK)
      requireSettled(data.path)
    },
  )

  test('killed before its commit, it has changed nothing', () => {
    expect(settleSwap(data.path)).toEqual({ kind: 'undone' })
    expect(contents()).toEqual([...OLD, 'spool/s.log'].sort().map((name) => `${name} old`))
  })

  test('killed when all was moved, the next process removes the rest', () => {
    swap(data.path, NOW, 'rollback')
    mkdirSync(join(data.path, 'rollback'))
    writeFileSync(join(data.path, 'rollback/replaced'), TARGET)
    requireSettled(data.path)
    expect(settleSwap(data.path)).toEqual({ kind: 'none' })
    expect(contents()).toEqual(ROLLED_BACK)
  })
})
