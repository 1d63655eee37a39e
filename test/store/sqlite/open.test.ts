/** The data folder: ours where we made it; where it was there before, its mode is its owner's decision. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { prepareDataFolder } from '../../../src/store/sqlite/open.ts'

let parent: string
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'tollgate-open-'))
})
afterEach(() => rmSync(parent, { recursive: true }))

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8)

test('a new data folder is for its owner alone, whatever the umask', () => {
  const before = process.umask(0o277)
  try {
    prepareDataFolder(join(parent, 'data'))
  } finally {
    process.umask(before)
  }
  expect(modeOf(join(parent, 'data'))).toBe('700')
})

test.each([0o755, 0o2770])('a folder that was there keeps its mode %o', (mode) => {
  const folder = join(parent, 'data')
  mkdirSync(folder)
  chmodSync(folder, mode)
  prepareDataFolder(folder)
  expect(modeOf(folder)).toBe(mode.toString(8))
})

test('a folder that its owner made read-only is refused, also to root, and stays so', () => {
  const folder = join(parent, 'data')
  mkdirSync(folder)
  chmodSync(folder, 0o500)
  expect(() => prepareDataFolder(folder)).toThrow(`Cannot use ${folder} as the data folder: it cannot be written.`)
  expect(modeOf(folder)).toBe('500')
})
