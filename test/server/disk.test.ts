/** When a disk has little room, who is told of it, and how often. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DiskState } from '../../src/documents/server.ts'
import { type DiskWatch, measureDisk, toDiskState, watchDisk } from '../../src/server/disk.ts'
import type { Space } from '../../src/store/ledger-store.ts'

const DAY = 86_400_000
const NOW = Date.UTC(2026, 10, 21, 12)
const MB = 1e6
const GB = 1e9
const measured = (fields = {}) => ({ usedBytes: 5 * GB, reusableBytes: 0, freeBytes: 100 * GB, ...fields })

test.each<[string, Parameters<typeof toDiskState>, DiskState['state']]>([
  ['a disk with much room is fine', [measured(), null], 'ok'],
  ['one with little is told of', [measured({ freeBytes: 500 * MB }), null], 'filling'],
  ['one without room for the journal is full', [measured({ freeBytes: MB }), null], 'full'],
  ['the disk counts where it is full before the budget', [measured({ freeBytes: MB }), 50 * GB], 'full'],
  ['a budget of which a tenth is left is fine', [measured(), 5.6 * GB], 'ok'],
  ['one with less left is told of', [measured(), 5.5 * GB], 'filling'],
  ['empty pages of the database are room', [measured({ reusableBytes: GB }), 5.5 * GB], 'ok'],
  ['a budget that is used up is full', [measured({ reusableBytes: GB }), 5 * GB], 'full'],
])('%s', (_, given, state) => {
  expect(toDiskState(...given)).toMatchObject({ state })
})

describe('a server that looks', () => {
  const SPACE: Space = { pageBytes: 4_096, pages: 10, freePages: 2, canShrink: true }
  let folder: string
  let lines: string[]
  let atMs: number
  let watch: DiskWatch
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tollgate-disk-'))
    lines = []
    atMs = NOW
  })
  afterEach(() => {
    watch?.stop()
    rmSync(folder, { recursive: true })
  })
  const note = (event: string) => void lines.push(event)
  const start = (budgetBytes: number | null) => {
    watch = watchDisk({
      dataFolder: folder,
      budgetBytes,
      space: () => SPACE,
      monotonicMs: () => atMs,
      log: { info: note, warn: note, error: note, flush: async () => {} },
    })
    return watch
  }
  const write = (bytes: number) => writeFileSync(join(folder, 'tollgate.db'), Buffer.alloc(bytes))

  test('counts every file in the folder, and in the folders in it', async () => {
    write(1_000)
    mkdirSync(join(folder, 'backups/old'), { recursive: true })
    writeFileSync(join(folder, 'backups/old/copy'), Buffer.alloc(500))
    expect(await measureDisk(folder, SPACE)).toMatchObject({ usedBytes: 1_500, reusableBytes: 8_192 })
  })

  test('counts a file with two names once, and follows no link', async () => {
    write(1_000)
    const elsewhere = mkdtempSync(join(tmpdir(), 'tollgate-elsewhere-'))
    writeFileSync(join(elsewhere, 'model.gguf'), Buffer.alloc(5_000))
    mkdirSync(join(folder, 'engines/one'), { recursive: true })
    writeFileSync(join(folder, 'engines/one/server'), Buffer.alloc(300))
    linkSync(join(folder, 'engines/one/server'), join(folder, 'engines/one/server-1'))
    symlinkSync(join(folder, 'engines/one'), join(folder, 'engines/current'))
    symlinkSync(elsewhere, join(folder, 'models'))
    symlinkSync(folder, join(folder, 'engines/around'))
    expect(await measureDisk(folder, SPACE)).toMatchObject({ usedBytes: 1_300 })
    rmSync(elsewhere, { recursive: true })
  })

  test('warns once a day, again when it gets worse, and says when it is over', async () => {
    write(1_000)
    start(1_000_000)
    await watch.look()
    expect(lines).toEqual([])
    write(960_000)
    for (let hour = 0; hour < 30; hour++) {
      await watch.look()
      atMs += DAY / 24
    }
    expect(lines).toEqual(['disk_filling', 'disk_filling'])
    expect(watch.state()).toMatchObject({ state: 'filling' })
    write(1_000_000)
    await watch.look()
    await watch.look()
    expect(lines.length).toBe(3)
    write(1_000)
    await watch.look()
    await watch.look()
    expect(lines.slice(3)).toEqual(['disk_recovered'])
  })

  test('tells once of a folder that it cannot measure', async () => {
    start(1_000)
    await watch.look()
    rmSync(folder, { recursive: true })
    await watch.look()
    await watch.look()
    mkdirSync(folder)
    expect(lines).toEqual(['disk_unknown'])
  })
})
