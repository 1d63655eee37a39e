/** When a disk will be full, who is told of it, and how often. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addToHistory, type DaySize, measureDisk, toDaySizes, toDiskState } from '../../src/server/disk.ts'
import { type DiskWatch, watchDisk } from '../../src/server/disk-watch.ts'
import type { Space } from '../../src/store/ledger-store.ts'

const DAY = 86_400_000
const NOW = Date.UTC(2026, 10, 21, 12)
const MB = 1e6
const GB = 1e9

describe('the forecast', () => {
  const measured = (fields = {}) => ({ usedBytes: 5 * GB, reusableBytes: 0, freeBytes: 100 * GB, ...fields })
  /** So much less each day back. */
  const grown = (bytes: number, days = 7): DaySize[] =>
    Array.from({ length: days }, (_, i) => ({ at_ms: NOW - (i + 1) * DAY, bytes: 5 * GB - (i + 1) * bytes }))
  const scenarios: [string, Parameters<typeof toDiskState>, object][] = [
    [
      'nothing is known on the first day',
      [measured(), [{ at_ms: NOW - DAY / 2, bytes: 0 }], null, NOW],
      { state: 'ok', growth_bytes_per_day: null, days_left: null },
    ],
    [
      'a disk that lasts for years is fine',
      [measured(), grown(10 * MB), null, NOW],
      { state: 'ok', growth_bytes_per_day: 10 * MB, days_left: 10_000 },
    ],
    [
      'a budget that lasts for a week is told of',
      [measured(), grown(100 * MB), 5.7 * GB, NOW],
      { state: 'filling', days_left: 7 },
    ],
    [
      'one that lasts for eight days is not yet',
      [measured(), grown(100 * MB), 5.8 * GB, NOW],
      { state: 'ok', days_left: 8 },
    ],
    [
      'the disk counts where it is full before the budget',
      [measured({ freeBytes: 0.5 * GB }), grown(100 * MB), 50 * GB, NOW],
      { state: 'filling', days_left: 5 },
    ],
    [
      'empty pages of the database are room',
      [measured({ reusableBytes: GB }), [{ at_ms: NOW - DAY, bytes: 3.9 * GB }], 5.1 * GB, NOW],
      { state: 'ok', growth_bytes_per_day: 100 * MB, days_left: 11 },
    ],
    [
      'what gets smaller is never full',
      [measured(), grown(-10 * MB), 6 * GB, NOW],
      { state: 'ok', growth_bytes_per_day: -10 * MB, days_left: null },
    ],
    [
      'a budget with less than a twentieth left is told of, growing or not',
      [measured(), [], 5.1 * GB, NOW],
      { state: 'filling' },
    ],
    ['a budget that is used up is full', [measured(), grown(10 * MB), 5 * GB, NOW], { state: 'full', days_left: 0 }],
    [
      'a disk without room for the journal is full, whatever the budget',
      [measured({ freeBytes: MB }), [], null, NOW],
      { state: 'full' },
    ],
    [
      'what a clock that was ahead has noted is no history',
      [measured(), [{ at_ms: NOW + 50 * DAY, bytes: 0 }], null, NOW],
      { growth_bytes_per_day: null },
    ],
    [
      'nor is what is older than a week',
      [measured(), [{ at_ms: NOW - 9 * DAY, bytes: 0 }], null, NOW],
      { growth_bytes_per_day: null },
    ],
  ]
  test.each(scenarios)('%s', (_, given, expected) => {
    expect(toDiskState(...given)).toMatchObject(expected)
  })

  test('has one size a day, of the last week alone', () => {
    let history: DaySize[] = [{ at_ms: NOW + 5 * DAY, bytes: 1 }]
    for (let hour = 0; hour < 24 * 20; hour++) {
      const at = NOW + (hour * DAY) / 24
      history = addToHistory(toDaySizes(JSON.stringify(history)), measured({ usedBytes: hour }), at) ?? history
    }
    expect(history.length).toBe(8)
    expect(new Set(history.map(({ at_ms }) => Math.floor(at_ms / DAY))).size).toBe(8)
  })

  test.each(['', 'null', '{}', '[1,null,{"at_ms":"x","bytes":1}]'])('reads nothing from %p', (text) =>
    expect(toDaySizes(text)).toEqual([]),
  )
})

describe('a server that looks', () => {
  const SPACE: Space = { pageBytes: 4_096, pages: 10, freePages: 2, canShrink: true }
  let folder: string
  let lines: string[]
  let stored: string | null
  let atMs: number
  let watch: DiskWatch
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tollgate-disk-'))
    lines = []
    stored = null
    atMs = NOW
  })
  afterEach(() => {
    watch?.stop()
    rmSync(folder, { recursive: true })
  })
  const note = (event: string) => void lines.push(event)
  const keep = (text: string) => {
    stored = text
  }
  const start = (budgetBytes: number | null, writeHistory = keep) => {
    watch = watchDisk({
      dataFolder: folder,
      budgetBytes,
      space: () => SPACE,
      readHistory: () => stored,
      writeHistory,
      now: () => atMs,
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
    expect(lines.slice(3)).toEqual(['disk_has_room'])
    expect(toDaySizes(stored).length).toBe(2)
  })

  test('says nothing where the database does not take what it notes at the moment, and notes it later', async () => {
    write(1_000)
    let isLocked = true
    start(1_000, (text) => {
      if (isLocked) throw new Error('locked')
      keep(text)
    })
    await watch.look()
    await watch.look()
    expect(watch.state()).toMatchObject({ state: 'full' })
    expect([lines, stored]).toEqual([['disk_filling'], null])
    isLocked = false
    await watch.look()
    expect(toDaySizes(stored).length).toBe(1)
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
