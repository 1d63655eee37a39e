/** The journal on a real disk: damage, space reserved for outcomes, and a full disk. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createJournal, type Journal, type JournalOptions, SEGMENT_BYTES } from '../../src/ledger/journal.ts'
import { listSegments, readSegment } from '../../src/ledger/journal-file.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { mountSmallDisk, whyNoSmallDisk } from '../e2e/crash-trouble.ts'
import { createFolder, createTestLog, type Folder, HOUR, opening, settling, toOpen, toSettled } from './fixture.ts'

const SEGMENT = 64 * 1024
const log = createTestLog()
let folder: Folder
let journal: Journal
const open: Journal[] = []

function create(options: Partial<JournalOptions> = {}): Journal {
  const made = createJournal({
    folder: folder.journal,
    instance: 'here',
    schema: '0002',
    log,
    maxBytes: 16 * SEGMENT,
    segmentBytes: SEGMENT,
    ...options,
  })
  open.push(made)
  return made
}

beforeEach(() => {
  folder = createFolder()
  log.messages.length = 0
  journal = create()
})
afterEach(async () => {
  for (const each of open.splice(0)) await each.close(false)
  folder.close()
})

const segments = () => listSegments(folder.journal)
const onDisk = () => segments().flatMap(readSegment)
const some = (count: number) => Array.from({ length: count }, () => opening(toOpen()))
/** Appends as the ledger does: records without space wait for a segment in preparation. */
async function append(records: readonly LedgerRecord[], to = journal): Promise<LedgerRecord[]> {
  let rest = records.map((record) => ({ record }))
  for (;;) {
    rest = to.append(rest)
    const growing = rest.length > 0 ? to.grow() : null
    if (!growing) return rest.map(({ record }) => record)
    await growing
  }
}
const takeAll = (from = journal): LedgerRecord[] => {
  const all: LedgerRecord[] = []
  for (let batch = from.take(7); batch; batch = from.take(7)) {
    all.push(...batch.records)
    batch.done()
  }
  return all
}
const covered = () => Promise.resolve(true)

test('segments of an earlier run are deleted with the first checkpoint that covers them', async () => {
  const inherited = ['old-1.log', 'old-2.log'].map((name) => join(folder.journal, name))
  for (const path of inherited) writeFileSync(path, '')
  const heir = create({ instance: 'heir', inherited })
  expect(heir.hasApplied()).toBe(true)
  await heir.release(() => Promise.resolve(false))
  expect(segments()).toEqual(inherited)
  await heir.release(() => Promise.resolve(true))
  expect([segments(), heir.hasApplied()]).toEqual([[], false])
})

test("a segment of an earlier run that was removed manually doesn't prevent the deletion of others", async () => {
  const inherited = ['old-1.log', 'old-2.log'].map((name) => join(folder.journal, name))
  writeFileSync(inherited[1] ?? '', '')
  const heir = create({ instance: 'heir', inherited })
  await heir.release(covered)
  expect([segments(), heir.hasApplied()]).toEqual([[], false])
})

test("a segment that can't be deleted is reported for as long as it exists", async () => {
  // A folder can't be unlinked.
  const inherited = ['old-1.log', 'old-2.log'].map((name) => join(folder.journal, name))
  for (const path of inherited) mkdirSync(path)
  const heir = create({ instance: 'heir', inherited })
  await expect(heir.release(covered)).rejects.toThrow()
  expect([heir.oldestMs(), heir.hasApplied()]).toEqual([0, true])
})

describe('a segment', () => {
  test('has its whole size on the disk before its first record, and states its schema', async () => {
    await journal.grow()
    const [path = ''] = segments()
    expect(statSync(path).size).toBe(SEGMENT)
    expect(statSync(path).blocks * 512).toBeGreaterThanOrEqual(SEGMENT)
    expect(readSegment(path)).toEqual([])
    expect(readFileSync(path, 'utf8')).toContain('{"v":1,"schema":"0002"}\n')
    await append(some(20))
    expect(statSync(path).size).toBe(SEGMENT)
  })

  test('returns its records, without a torn last line', async () => {
    const records = some(5)
    await append(records)
    const [path = ''] = segments()
    expect(readSegment(path)).toEqual(records)
    truncateSync(path, readFileSync(path).indexOf('\0') - 10)
    expect(readSegment(path)).toEqual(records.slice(0, 4))
  })

  test('loses one record to a damaged line in its middle, not the others', async () => {
    const rows = Array.from({ length: 5 }, () => toOpen())
    const records = rows.map(opening)
    await append(records)
    const [path = ''] = segments()
    const bytes = readFileSync(path)
    const at = bytes.indexOf(rows[2]?.id ?? '')
    bytes.fill(0xff, at, at + 4)
    writeFileSync(path, bytes)
    expect(readSegment(path)).toEqual(records.filter((_, i) => i !== 2))
  })
})

test('groups are complete, in order, over several segments, and are taken once', async () => {
  const groups = Array.from({ length: 60 }, () => some(8))
  for (const group of groups) expect(await append(group)).toEqual([])
  expect(onDisk()).toHaveLength(480)
  expect(segments().length).toBeGreaterThan(2)
  expect(journal.waiting()).toBe(480)
  expect([...journal.unapplied()]).toEqual(groups.flat())
  expect(takeAll()).toEqual(groups.flat())
  expect([journal.waiting(), [...journal.unapplied()]]).toEqual([0, []])
})

test('records beyond its memory limit are read back from the disk, even while more arrive', async () => {
  const small = create({ instance: 'small', maxInMemory: 10 })
  const records = some(200)
  await append(records.slice(0, 9), small)
  await append(records.slice(9, 150), small)
  const taken: LedgerRecord[] = []
  for (let batch = small.take(7); batch; batch = small.take(7)) {
    taken.push(...batch.records)
    await append(records.slice(150 + taken.length - batch.records.length, 150 + taken.length), small)
    expect([...small.unapplied()].length).toBe(small.waiting())
    batch.done()
  }
  expect(taken.map((record) => record)).toEqual(records)
  expect(small.waiting()).toBe(0)
})

test('a segment is deleted once a checkpoint covers all of it, and the current one stays', async () => {
  await append(some(400))
  const before = segments().length
  expect(before).toBeGreaterThan(2)
  expect(journal.hasApplied()).toBe(false)
  takeAll()
  expect(journal.hasApplied()).toBe(true)
  await journal.release(() => Promise.resolve(false))
  expect(segments()).toHaveLength(before)
  await journal.release(covered)
  expect(segments().length).toBeLessThan(before)
  const next = some(3)
  await append(next)
  expect(takeAll()).toEqual(next)
})

test('it grows to its limit: then only outcomes have space, and there is space again once it is applied', async () => {
  const small = create({ instance: 'small', maxBytes: 2 * SEGMENT })
  expect(small.isFull()).toBe(false)
  let refused: LedgerRecord[] = []
  while (refused.length === 0) refused = await append(some(8), small)
  expect(small.isFull()).toBe(true)
  expect(log.messages).toEqual(['the journal has reached --max-journal-size'])
  expect(await append([settling(toSettled(toOpen()))], small)).toEqual([])
  let outcomes = 0
  while ((await append([settling(toSettled(toOpen()))], small)).length === 0) outcomes++
  expect(outcomes).toBeGreaterThan(5)
  expect(segments()).toHaveLength(2)
  takeAll(small)
  // Outcomes written during the checkpoint would be lost with the segment, so it stays.
  await small.release(covered)
  expect(small.isFull()).toBe(false)
  const more = some(30)
  expect(await append(more, small)).toEqual([])
  expect(takeAll(small)).toEqual(more)
})

test('the current segment is reused, unless a record was written during the checkpoint', async () => {
  const one = create({ instance: 'one', maxBytes: SEGMENT })
  while ((await append(some(1), one)).length === 0);
  takeAll(one)
  const late = settling(toSettled(toOpen()))
  await one.release(async () => {
    expect(await append([late], one)).toEqual([])
    return true
  })
  expect([...one.unapplied()]).toEqual([late])
  expect(onDisk()).toContainEqual(late)
  takeAll(one)
  await one.release(covered)
  expect(onDisk()).toEqual([])
  const records = some(3)
  expect(await append(records, one)).toEqual([])
  expect(onDisk()).toEqual(records)
  expect(segments()).toHaveLength(1)
})

test('a segment being released holds its records until the disk has confirmed the release', async () => {
  await append([opening(toOpen({ createdMs: HOUR }))])
  await append(some(400))
  takeAll()
  const done = journal.release(covered)
  // All steps without the disk are complete by then.
  for (let turns = 0; turns < 20; turns++) await null
  expect(journal.oldestMs()).toBe(HOUR)
  await done
  expect(journal.oldestMs()).toBe(HOUR + 1_000)
})

test('a start reserves little space, since the first request waits for it, and the next segment has full size', async () => {
  const one = create({ instance: 'one', segmentBytes: SEGMENT_BYTES, maxBytes: 1e9 })
  await one.grow()
  const sizes = () => segments().map((path) => statSync(path).size)
  expect(sizes()).toEqual([1024 * 1024])
  const records = some(4_000)
  expect(await append(records, one)).toEqual([])
  expect(sizes()).toEqual([1024 * 1024, SEGMENT_BYTES])
  expect([...one.unapplied()]).toEqual(records)
})

test('the small segment of a start is written once: later ones have full size, up to the limit', async () => {
  const one = create({ instance: 'one', segmentBytes: SEGMENT_BYTES, maxBytes: 2 * SEGMENT_BYTES })
  expect(await append(some(4_000), one)).toEqual([])
  takeAll(one)
  await one.release(covered)
  while ((await append(some(500), one)).length === 0);
  expect(segments().map((path) => statSync(path).size)).toEqual([SEGMENT_BYTES, SEGMENT_BYTES])
})

test('closing keeps only records that no checkpoint covers', async () => {
  const records = some(2)
  await append(records)
  takeAll()
  await journal.close(false)
  expect(onDisk()).toEqual(records)
  const other = create({ instance: 'other' })
  await append(records, other)
  takeAll(other)
  await other.close(true)
  expect(segments()).toHaveLength(1)
})

test('closing loses nothing that is read meanwhile', async () => {
  await journal.grow()
  await append(some(3))
  // So that there is a current segment, and a spare one.
  await journal.grow()
  let isClosed = false
  const closing = journal.close(true).then(() => {
    isClosed = true
  })
  const seen = new Set<boolean>()
  while (!isClosed) {
    seen.add(journal.isThere())
    await new Promise(setImmediate)
  }
  await closing
  expect([...seen]).toEqual([true])
})

test('a record that the store rejects is kept where an administrator finds it', () => {
  const records = some(2)
  for (const record of records) journal.setAside({ record, error: new Error('NOT NULL') })
  expect(readdirSync(folder.journal)).toEqual(['here.rejected'])
  expect(readSegment(join(folder.journal, 'here.rejected'))).toEqual(records)
})

const noDisk = whyNoSmallDisk()
describe.skipIf(noDisk !== null)('on a full disk', () => {
  test('a segment with only part of its space is not used', async () => {
    const disk = mountSmallDisk(folder.journal, 1)
    if (typeof disk === 'string') throw new Error(disk)
    const full = create({ instance: 'full', segmentBytes: SEGMENT_BYTES, maxBytes: 1e9 })
    try {
      // Its write is truncated, without an error.
      writeFileSync(join(folder.journal, 'other'), Buffer.alloc(100_000))
      await full.grow()
      expect(segments()).toEqual([])
      expect(full.isFull()).toBe(true)
      expect(full.grow()).toBeNull()
      expect(log.messages).toEqual(['cannot extend the journal'])
    } finally {
      await full.close(false)
      disk.unmount()
    }
  })

  test('a write that fails midway leaves nothing behind', async () => {
    const disk = mountSmallDisk(folder.journal, 1)
    if (typeof disk === 'string') throw new Error(disk)
    const full = create({ instance: 'full', maxBytes: 1e9 })
    try {
      const before = some(1)
      await append(before, full)
      // As on a file system that copies on overwrite: the space was there, and then it was not.
      truncateSync(segments()[0] ?? '', 8_192)
      await disk.fill()
      const refused = some(40)
      expect(await append(refused, full)).toEqual(refused)
      expect(log.messages).toContain('cannot write to the journal')
      expect([onDisk(), full.waiting()]).toEqual([before, 1])
    } finally {
      await full.close(true)
      disk.unmount()
    }
  })

  test("if the second segment of a group can't be written, records in the first one are kept", async () => {
    const disk = mountSmallDisk(folder.journal, 1)
    if (typeof disk === 'string') throw new Error(disk)
    const full = create({ instance: 'full', maxBytes: 1e9 })
    try {
      while (segments().length < 2) await append(some(1), full)
      await full.grow()
      truncateSync(segments()[1] ?? '', 4_096)
      await disk.fill()
      const group = some(100).map((record) => ({ record }))
      const rest = full.append(group)
      expect(rest.length).toBeGreaterThan(0)
      expect(rest.length).toBeLessThan(group.length)
      const placed = group.slice(0, -rest.length).map(({ record }) => record)
      expect([...full.unapplied()].slice(-placed.length)).toEqual(placed)
      expect(onDisk()).toEqual([...full.unapplied()])
    } finally {
      await full.close(true)
      disk.unmount()
    }
  })

  test('requests are accepted until its last quarter, outcomes to the end, and it continues in place once they are applied', async () => {
    const disk = mountSmallDisk(folder.journal, 1)
    if (typeof disk === 'string') throw new Error(disk)
    const full = create({ instance: 'full', maxBytes: 1e9 })
    try {
      await full.grow()
      await disk.fill()
      const taken: LedgerRecord[] = []
      const fill = async (toRecord: () => LedgerRecord) => {
        for (;;) {
          const record = toRecord()
          if ((await append([record], full)).length > 0) return
          taken.push(record)
        }
      }
      await fill(() => opening(toOpen()))
      expect(Buffer.byteLength(JSON.stringify(taken))).toBeGreaterThan(SEGMENT / 2)
      expect(full.isFull()).toBe(true)
      await fill(() => settling(toSettled(toOpen())))
      expect(onDisk()).toEqual(taken)
      expect(takeAll(full)).toEqual(taken)
      await full.release(covered)
      expect([full.isFull(), onDisk()]).toEqual([false, []])
      expect(await append(some(5), full)).toEqual([])
    } finally {
      await full.close(true)
      disk.unmount()
    }
  })
})
