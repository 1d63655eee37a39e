/** The data folder: ours where we made it; where it was there before, its mode is its owner's decision. */
import { expect, test } from 'bun:test'
import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepareDataFolder, requireReadable } from '../../../src/store/data-folder.ts'
import { toDatabaseTrouble } from '../../../src/store/sqlite/errors.ts'
import { createTestFolder, forEachTest } from '../../support/lifetime.ts'

const parent = forEachTest(createTestFolder)

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8)

test('a new data folder is for its owner alone, whatever the umask', () => {
  const before = process.umask(0o277)
  try {
    prepareDataFolder(join(parent.path, 'data'))
  } finally {
    process.umask(before)
  }
  expect(modeOf(join(parent.path, 'data'))).toBe('700')
})

test.each([0o755, 0o2770])('a folder that was there keeps its mode %o', (mode) => {
  const folder = join(parent.path, 'data')
  mkdirSync(folder)
  chmodSync(folder, mode)
  prepareDataFolder(folder)
  expect(modeOf(folder)).toBe(mode.toString(8))
})

test('a folder that its owner made read-only is refused, also to root, and stays so', () => {
  const folder = join(parent.path, 'data')
  mkdirSync(folder)
  chmodSync(folder, 0o500)
  expect(() => prepareDataFolder(folder)).toThrow(`Can't use ${folder} as the data folder: it is not writable.`)
  expect(modeOf(folder)).toBe('500')
})

test("another user's folder is named as one, and so is a file", () => {
  const folder = join(parent.path, 'data')
  mkdirSync(folder)
  chmodSync(folder, 0)
  const me = process.geteuid?.() ?? 0
  // Root may look anywhere.
  if (me === 0) process.seteuid?.(65_534)
  try {
    expect(() => requireReadable(folder)).toThrow(`This user cannot read ${folder}.`)
  } finally {
    if (me === 0) process.seteuid?.(0)
  }
  writeFileSync(join(parent.path, 'file'), '')
  expect(() => requireReadable(join(parent.path, 'file'))).toThrow(`${join(parent.path, 'file')} is a file.`)
  expect(() => requireReadable(join(parent.path, 'none'))).not.toThrow()
})

test('a database that found no room on its disk is not called damaged', () => {
  const full = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_SHMSIZE' })
  expect(toDatabaseTrouble('tollgate.db', full)).toBe(full)
  const unread = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_READ' })
  expect(String(toDatabaseTrouble('tollgate.db', unread))).toContain('cannot be read or written')
})
