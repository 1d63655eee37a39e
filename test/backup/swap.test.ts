/** A restore that is killed has done nothing, or is finished by whoever comes next: whatever it had moved by then. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beginSwap, requireSettled, settleSwap, swap } from '../../src/backup/swap.ts'

const NOW = Date.UTC(2026, 10, 21, 12)
const OLD = ['journal/a.log', 'ledger.mark', 'tollgate.db', 'tollgate.db-shm', 'tollgate.db-wal']
const NEW = ['ledger.mark', 'tollgate.db']

let data: string
beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), 'tollgate-swap-'))
  mkdirSync(join(data, 'journal'))
  for (const name of OLD) writeFileSync(join(data, name), 'old')
  const folder = beginSwap(data)
  for (const name of NEW) writeFileSync(join(folder, name), 'new')
})
afterEach(() => rmSync(data, { recursive: true, force: true }))

const contents = (folder = data) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => `${path.slice(data.length + 1)} ${readFileSync(path, 'utf8')}`)
    .sort()

const TARGET = 'backups/replaced-2026-11-21T12-00-00Z'
const SWAPPED = [...OLD.map((name) => `${TARGET}/${name} old`), ...NEW.map((name) => `${name} new`)].sort()

/** In the order in which they are made. */
const MOVES = [
  ...['tollgate.db-wal', 'tollgate.db-shm', 'journal', 'ledger.mark'].map((name) => [name, `${TARGET}/${name}`]),
  ['restore/ledger.mark', 'ledger.mark'],
  ['tollgate.db', `${TARGET}/tollgate.db`],
  ['restore/tollgate.db', 'tollgate.db'],
] as const

test('it leaves the new files in place and the old ones aside', () => {
  expect(swap(data, NOW)).toBe(join(data, TARGET))
  expect(contents()).toEqual(SWAPPED)
  expect(settleSwap(data)).toEqual({ kind: 'none' })
})

test('killed before it was decided, it has changed nothing', () => {
  expect(settleSwap(data)).toEqual({ kind: 'undone' })
  expect(contents()).toEqual(OLD.map((name) => `${name} old`))
})

test.each(MOVES.map((_, moved) => moved).concat(MOVES.length))('killed after %d moves, it is finished', (moved) => {
  mkdirSync(join(data, TARGET), { recursive: true })
  writeFileSync(join(data, 'restore.part/replaced'), TARGET)
  renameSync(join(data, 'restore.part'), join(data, 'restore'))
  for (const [from, to] of MOVES.slice(0, moved)) renameSync(join(data, from), join(data, to))
  expect(() => requireSettled(data)).toThrow('was broken off before its end')
  expect(settleSwap(data)).toEqual({ kind: 'finished', replaced: join(data, TARGET) })
  expect(contents()).toEqual(SWAPPED)
  requireSettled(data)
})

test('killed when all was moved and its folder was nearly gone, it is finished', () => {
  swap(data, NOW)
  mkdirSync(join(data, 'restore'))
  settleSwap(data)
  expect(settleSwap(data)).toEqual({ kind: 'none' })
  expect(contents()).toEqual(SWAPPED)
})

test('what was put away is never written over by a second one', () => {
  swap(data, NOW)
  writeFileSync(join(beginSwap(data), 'tollgate.db'), 'newer')
  expect(swap(data, NOW)).toBe(join(data, `${TARGET}-2`))
  expect(readFileSync(join(data, `${TARGET}-2/tollgate.db`), 'utf8')).toBe('new')
  expect(existsSync(join(data, TARGET, 'tollgate.db'))).toBe(true)
})
