/** The spool on a real disk: what survives damage, what is kept for settles, and what a full disk still takes. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { fromLine, listSegments, maxLineBytes, readSegment, toLine, writeAll } from '../../src/ledger/segment.ts'
import { createSpool, type Spool } from '../../src/ledger/spool.ts'
import { mountSmallDisk, whyNoSmallDisk } from '../e2e/crash-trouble.ts'
import { createFolder, type Folder, opening, settling, toCall, toOpen, toSettled, toSettledCall } from './fixture.ts'

const SEGMENT = 64 * 1024
let folder: Folder
let spool: Spool
beforeEach(() => {
  folder = createFolder()
  spool = createSpool({ folder: folder.spool, instance: 'here', segmentBytes: SEGMENT })
})
afterEach(async () => {
  await spool.close()
  folder.close()
})

const segments = () => listSegments(folder.spool)
const onDisk = () => segments().flatMap(readSegment)
const some = (count: number) => Array.from({ length: count }, () => opening(toOpen()))

describe('a line', () => {
  test('brings back every record as it was, whatever the client wrote in it', () => {
    for (const user of [
      'plain',
      'ünïcödé 漢字 🙂',
      'a\nb\r\n',
      'separators \u2028 and \u2029',
      '\u0000\u007f"\\',
      null,
    ]) {
      const record = settling(toSettled(toOpen({ user })))
      const line = toLine(record)
      expect(line.indexOf('\n')).toBe(line.length - 1)
      expect(fromLine(line.slice(0, -1))).toEqual(record)
    }
  })

  test('brings back a request with every call that it may have', () => {
    const row = toOpen()
    const reasons = ['retry', 'fallback', 'fan_out', 'schema'] as const
    const calls = Array.from({ length: 127 }, (_, i) => {
      const call = toCall(row, i + 2, { reason: reasons[i % 4] ?? 'retry', priceId: i % 3 === 0 ? null : row.priceId })
      if (i % 2 === 0) return toSettledCall(call, { status: 'failed', httpStatus: null, errorCode: 'upstream_error' })
      return toSettledCall(call, { durationMs: i, firstTokenMs: null, upstreamRequestId: 'ünï"\n' })
    })
    const record = settling(toSettled(row, { attempts: 128 }), calls)
    expect(fromLine(toLine(record).slice(0, -1))).toEqual(record)
  })

  test('holds of a call only what differs from its request', () => {
    const row = toSettled(toOpen(), { attempts: 128 })
    const { id, model, stream, user, keyId, attempts, ...shared } = row
    const calls = Array.from({ length: 127 }, (_, i) =>
      toSettledCall(toCall(row, i + 2, { reason: 'fan_out' }), { ...shared, durationMs: 100 + i }),
    )
    const record = settling(row, calls)
    const line = toLine(record)
    expect(fromLine(line.slice(0, -1))).toEqual(record)
    expect(line.length).toBeLessThan(8_000)
  })

  test('is never longer than the room that is kept for it', () => {
    const long = 'x'.repeat(500)
    const row = toOpen({ user: '\u0001'.repeat(256), model: long, upstream: long, upstreamModel: long })
    const other = { upstream: `${long}y`, upstreamModel: `${long}y`, reservedNanoUsd: Number.MAX_SAFE_INTEGER }
    const outcome = { upstreamRequestId: 'z'.repeat(128), errorCode: 'upstream_unavailable', status: 'failed' as const }
    for (const count of [0, 1, 127, 400]) {
      const calls = Array.from({ length: count }, (_, i) => toSettledCall(toCall(row, i + 2, other), outcome))
      expect(Buffer.byteLength(toLine(settling(toSettled(row), calls)))).toBeLessThan(maxLineBytes(count))
    }
  })

  test('with any byte changed or missing is passed over', () => {
    const line = toLine(opening(toOpen())).slice(0, -1)
    for (let at = 0; at < line.length; at++) {
      expect(fromLine(`${line.slice(0, at)}${line[at] === '7' ? '8' : '7'}${line.slice(at + 1)}`)).toBeNull()
      expect(fromLine(line.slice(0, at))).toBeNull()
    }
  })
})

describe('a segment', () => {
  test('has its whole size on the disk before it takes the first record', async () => {
    await spool.prepare()
    const [path = ''] = segments()
    expect(statSync(path).size).toBe(SEGMENT)
    expect(statSync(path).blocks * 512).toBeGreaterThanOrEqual(SEGMENT)
    expect(readSegment(path)).toEqual([])
    await spool.append(some(20))
    expect(statSync(path).size).toBe(SEGMENT)
  })

  test('gives back what it took, without a torn last line', async () => {
    const records = some(5)
    await spool.append(records)
    const [path = ''] = segments()
    expect(readSegment(path)).toEqual(records)
    truncateSync(path, readFileSync(path).indexOf('\0') - 10)
    expect(readSegment(path)).toEqual(records.slice(0, 4))
  })

  test('loses one record to a damaged line in its middle, not the rest', async () => {
    const rows = Array.from({ length: 5 }, () => toOpen())
    const records = rows.map(opening)
    await spool.append(records)
    const [path = ''] = segments()
    const bytes = readFileSync(path)
    const at = bytes.indexOf(rows[2]?.id ?? '')
    bytes.fill(0xff, at, at + 4)
    writeFileSync(path, bytes)
    expect(readSegment(path)).toEqual(records.filter((_, i) => i !== 2))
  })
})

test('groups that arrive together are all there, in order, over several segments', async () => {
  const groups = Array.from({ length: 60 }, () => some(8))
  await Promise.all(groups.map((group) => spool.append(group)))
  expect(spool.waiting(1_000)).toEqual(groups.flat())
  expect(onDisk()).toHaveLength(480)
  expect(segments().length).toBeGreaterThan(2)
})

test('is emptied once a checkpoint covers it, and not where a record came after that', async () => {
  await spool.append(some(3))
  const mark = spool.appended()
  spool.taken(3)
  await spool.append(some(2))
  await spool.release(mark)
  expect(onDisk()).toHaveLength(5)
  spool.taken(2)
  await spool.release(spool.appended())
  expect(onDisk()).toEqual([])
  expect(spool.heldBytes()).toBe(0)
  const next = some(2)
  await spool.append(next)
  expect(onDisk()).toEqual(next)
})

test('closing leaves only what holds records', async () => {
  const records = some(2)
  await spool.append(records)
  await spool.prepare()
  expect(segments()).toHaveLength(2)
  await spool.close()
  expect(segments()).toHaveLength(1)
  expect(onDisk()).toEqual(records)
})

test('a record that no database takes is kept where an administrator finds it', () => {
  const records = some(2)
  for (const record of records) spool.setAside(record)
  expect(readdirSync(folder.spool)).toEqual(['here.rejected'])
  expect(readSegment(join(folder.spool, 'here.rejected'))).toEqual(records)
})

test('writes everything, however little the disk takes at a time, and says where it takes nothing', async () => {
  const disk = Buffer.alloc(10)
  let most = 3
  const handle = {
    async write(bytes: Uint8Array, from: number, length: number, at: number) {
      const bytesWritten = Math.min(most, length)
      disk.set(bytes.subarray(from, from + bytesWritten), at)
      return { bytesWritten, buffer: bytes }
    },
  }
  await writeAll(handle as unknown as FileHandle, Buffer.from('abcdefgh'), 1)
  expect(disk.toString()).toBe('\0abcdefgh\0')
  most = 0
  await expect(writeAll(handle as unknown as FileHandle, Buffer.from('x'), 0)).rejects.toThrow('none')
})

const noDisk = whyNoSmallDisk()
describe.skipIf(noDisk !== null)('on a full disk', () => {
  test('a segment that finds only a part of its room is none', async () => {
    const disk = mountSmallDisk(folder.spool, 2)
    if (typeof disk === 'string') throw new Error(disk)
    const full = createSpool({ folder: folder.spool, instance: 'full', segmentBytes: 2 * 1024 * 1024 })
    try {
      // The last of its two writes is cut short, without an error.
      writeFileSync(join(folder.spool, 'other'), Buffer.alloc(100_000))
      await expect(full.prepare()).rejects.toThrow('ENOSPC')
      expect(segments()).toEqual([])
      expect(full.hasRoom('open')).toBe(false)
    } finally {
      await full.close()
      disk.unmount()
    }
  })

  test('takes requests until its last quarter, settles to the end, and goes on in place when there is room', async () => {
    const disk = mountSmallDisk(folder.spool, 1)
    if (typeof disk === 'string') throw new Error(disk)
    const full = createSpool({ folder: folder.spool, instance: 'full', segmentBytes: SEGMENT })
    try {
      await full.prepare()
      await disk.fill()
      const taken = []
      while (full.hasRoom('open')) {
        const record = opening(toOpen())
        await full.append([record])
        taken.push(record)
      }
      expect(full.heldBytes()).toBeGreaterThanOrEqual((SEGMENT * 3) / 4)
      // A further call is as new as a request; of settles, those with few calls find a place for longest.
      expect([full.hasRoom('call'), full.hasRoom('settle'), full.hasRoom('settle', 127)]).toEqual([false, true, false])
      while (full.hasRoom('settle')) {
        const record = settling(toSettled(toOpen()))
        await full.append([record])
        taken.push(record)
      }
      await expect(full.append(some(100))).rejects.toThrow('ENOSPC')
      expect(onDisk()).toEqual(taken)

      full.taken(taken.length)
      await full.release(full.appended())
      expect([full.hasRoom('open'), full.heldBytes(), onDisk().length]).toEqual([true, 0, 0])
    } finally {
      await full.close()
      disk.unmount()
    }
  })
})
