/**
 * Where ledger records go while the database refuses them: append-only segments `spool/<instance>-<n>.log`, written in
 * zeros beforehand so that a full disk still takes rows, one record a line with its length and CRC-32, synced off the
 * event loop once a group. The ledger appends and replays; nobody else touches the folder.
 */
import { appendFileSync, mkdirSync, unlinkSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { LedgerRecord } from './rows.ts'
import { maxLineBytes, REJECTED, toLine, writeAll } from './segment.ts'

export const SEGMENT_BYTES = 8 * 1024 * 1024
/** A disk without room for a segment is asked again after this. */
const RETRY_MS = 1_000

export interface Spool {
  /** Makes sure that an empty segment waits on the disk. Throws what the disk says. */
  prepare(): Promise<void>
  /** Tells whether a record of this kind, with so many calls in it, would find a place. All leave the last quarter to settles. */
  hasRoom(kind: LedgerRecord['kind'], calls?: number): boolean
  /** Appends records and resolves once they are on the disk. Throws if there is no place or the disk refuses. */
  append(records: readonly LedgerRecord[]): Promise<void>
  /** Records of this instance that no `taken` call has covered yet, oldest first, at most `limit`. */
  waiting(limit: number): LedgerRecord[]
  /** Says that the first `count` waiting records are committed. */
  taken(count: number): void
  /** How many records were ever appended: a mark for `release`. */
  appended(): number
  /** Empties the spool, once a checkpoint covers all that was appended up to `mark` and nothing came after it. */
  release(mark: number): Promise<void>
  /** Keeps a record that no database takes, in `<instance>.rejected`. Throws what the disk says. */
  setAside(record: LedgerRecord): void
  /** Bytes on the disk that hold records not yet released. */
  heldBytes(): number
  /** Leaves on the disk only what holds records. */
  close(): Promise<void>
}

interface Segment {
  path: string
  handle: FileHandle
  used: number
}

export interface SpoolOptions {
  folder: string
  instance: string
  segmentBytes?: number
}

export function createSpool({ folder, instance, segmentBytes = SEGMENT_BYTES }: SpoolOptions): Spool {
  /** Full ones first, the one being written last. Records stay in memory too, bounded by the segments on the disk. */
  const segments: Segment[] = []
  const records: LedgerRecord[] = []
  let spare: Segment | null = null
  let number = 0
  let appended = 0
  let writing: Promise<void> = Promise.resolve()
  let preparing: Promise<void> | null = null
  let refusal: { error: unknown; untilMs: number } | null = null

  const create = async (): Promise<Segment> => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const path = join(folder, `${instance}-${++number}.log`)
    const handle = await open(path, 'wx', 0o600)
    try {
      const zeros = Buffer.alloc(1024 * 1024)
      for (let at = 0; at < segmentBytes; at += zeros.length) {
        await writeAll(handle, zeros.subarray(0, segmentBytes - at), at)
      }
      await handle.sync()
      return { path, handle, used: 0 }
    } catch (error) {
      await handle.close()
      unlinkSync(path)
      throw error
    }
  }

  const prepare = (): Promise<void> => {
    if (spare) return Promise.resolve()
    // Each try takes what room there is for a moment: not at every group of a full disk.
    if (refusal && performance.now() < refusal.untilMs) return Promise.reject(refusal.error)
    preparing ??= create()
      .then(
        (segment) => {
          spare = segment
        },
        (error) => {
          refusal = { error, untilMs: performance.now() + RETRY_MS }
          throw error
        },
      )
      .finally(() => {
        preparing = null
      })
    return preparing
  }

  const active = () => segments.at(-1)
  const free = () => segmentBytes - (active()?.used ?? segmentBytes)
  /** Nobody has asked the disk yet: the first group will. */
  const untried = () => segments.length === 0 && refusal === null
  const hasRoom = (kind: LedgerRecord['kind'], calls = 0) =>
    spare !== null || untried() || free() > (kind === 'settle' ? maxLineBytes(calls) : segmentBytes / 4)

  const write = async (batch: readonly LedgerRecord[]): Promise<void> => {
    if (batch.length === 0) return
    const bytes = Buffer.from(batch.map(toLine).join(''))
    if (bytes.length > free()) {
      if (!spare) await prepare()
      if (!spare || bytes.length > segmentBytes) throw new Error('the spool is full')
      segments.push(spare)
      spare = null
    }
    const segment = active()
    if (!segment) throw new Error('the spool has no segment')
    await writeAll(segment.handle, bytes, segment.used)
    await segment.handle.datasync()
    segment.used += bytes.length
    records.push(...batch)
    appended += batch.length
    // The next segment is made while there is still room in this one; a full disk leaves us with the last quarter.
    if (segment.used > segmentBytes / 2) prepare().catch(() => {})
  }

  const release = async (mark: number): Promise<void> => {
    // A group may have arrived in the meantime: what no checkpoint covers is not released.
    if (appended !== mark || records.length > 0) return
    // Where the disk had no room for a spare, the last segment goes on in the place that it has.
    const last = spare ? undefined : segments.at(-1)
    if (last) {
      await writeAll(last.handle, Buffer.alloc(last.used), 0)
      await last.handle.datasync()
      last.used = 0
    }
    const released = segments.splice(0, segments.length - (last ? 1 : 0))
    for (const segment of released) {
      await segment.handle.close()
      unlinkSync(segment.path)
    }
  }

  return {
    prepare,
    hasRoom,
    append(batch) {
      const done = writing.then(() => write(batch))
      writing = done.catch(() => {})
      return done
    },
    waiting: (limit) => records.slice(0, limit),
    taken: (count) => void records.splice(0, count),
    appended: () => appended,
    release(mark) {
      const done = writing.then(() => release(mark))
      writing = done.catch(() => {})
      return done
    },
    setAside(record) {
      appendFileSync(join(folder, `${instance}${REJECTED}`), toLine(record), { mode: 0o600, flush: true })
    },
    heldBytes: () => segments.reduce((sum, segment) => sum + segment.used, 0),
    async close() {
      await writing
      await preparing?.catch(() => {})
      const all = segments.splice(0).concat(spare ?? [])
      spare = null
      for (const segment of all) {
        await segment.handle.close()
        if (segment.used === 0) unlinkSync(segment.path)
      }
    },
  }
}
