/** Reads the journal of another process, to apply its records. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { basename, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import type { Link } from '../domain/link.ts'
import type { Log } from '../log.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { Written } from './cursor.ts'
import { isOf, listSegments } from './journal-file.ts'
import { readRecords, timeOfRecord } from './segment.ts'
import type { Places } from './worker-applier.ts'

/**
 * How far a journal is read. `told`: up to the position reported by its process. `written`: all complete lines. `all`:
 * for a process that has ended, also past an incomplete line.
 */
export type Extent = 'told' | 'written' | 'all'

/** Records that were read but not applied yet. */
export interface Part {
  records: LedgerRecord[]
  /** Requests that opened and settled. The records have only their outcome. */
  opened: number
  /** Opening records of these and other requests. */
  opens(): LedgerRecord[]
  /** Call once the records are applied. */
  done(): void
}

class FollowedSegment {
  readonly path: string
  #fd: number | null = null
  /** Where the next record starts. */
  at = 0
  /** Position reported by its process: complete, and final. */
  told: Written = { bytes: 0, records: 0 }
  taken = 0
  /** Position before the first line that was unreadable while its process ran, perhaps during a write. */
  skippedAt: number | null = null
  /** Since when it has unapplied records, monotonic ms. */
  sinceMs: number | null = null
  /** Creation time of the oldest request in records taken from it, ms. */
  oldestMs = Number.POSITIVE_INFINITY

  constructor(path: string) {
    this.path = path
  }

  /** Stays open, so that records of a deleted file can still be read. Throws the system's error. */
  get fd(): number {
    this.#fd ??= openSync(this.path, 'r')
    return this.#fd
  }

  get waiting(): number {
    return this.at < this.told.bytes ? Math.max(0, this.told.records - this.taken) : 0
  }

  /** Reads up to a position, or up to the zeros at the end of the file. */
  read(limit: number, untilBytes?: number, leavesOut = false) {
    if (this.at >= (untilBytes ?? Number.POSITIVE_INFINITY)) return null
    const { fd } = this
    const first = new Uint8Array(1)
    if (readSync(fd, first, 0, 1, this.at) === 0 || first[0] === 0) return null
    const end = untilBytes ?? fstatSync(fd).size
    return { ...readRecords(fd, this.at, end, limit, leavesOut), end }
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd)
    this.#fd = null
  }
}

export class FollowedJournal {
  readonly instance: string
  /** Null for a process without a link. Its segments are read to their end. */
  readonly link: Link | null
  readonly #folder: string
  readonly #log: Log
  readonly #segments = new Map<string, FollowedSegment>()
  /** True if a lease protects its open requests from being abandoned. */
  isLeased = false
  /** If false, the worker is still running. */
  isLinkLost = false
  /** True once all records are applied and open requests are abandoned. */
  isFinal = false
  #hasTroubleLogged = false

  constructor(instance: string, link: Link | null, dataFolder: string, log: Log) {
    this.instance = instance
    this.link = link
    this.#folder = join(dataFolder, 'journal')
    this.#log = log
  }

  get paths(): string[] {
    return listSegments(this.#folder).filter((path) => isOf(path, this.instance))
  }

  told(places: Places<Written>, nowMs: number): void {
    for (const [name, told] of Object.entries(places)) {
      const segment = this.#segmentAt(join(this.#folder, basename(name)))
      segment.told = told
      if (segment.at < told.bytes) segment.sinceMs ??= nowMs
    }
  }

  /** Call after its process has ended. */
  rereadSkipped(): void {
    for (const segment of this.#segments.values()) segment.at = segment.skippedAt ?? segment.at
  }

  removed(names: readonly string[]): void {
    for (const name of names) {
      this.#segments.get(name)?.close()
      this.#segments.delete(name)
    }
  }

  get waiting(): number {
    return this.#sum(({ waiting }) => waiting)
  }

  waitsMs(nowMs: number): number {
    return Math.max(0, ...[...this.#segments.values()].map(({ sinceMs }) => nowMs - (sinceMs ?? nowMs)))
  }

  /** See `Journal.oldestMs`. */
  get oldestMs(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...[...this.#segments.values()].map(({ oldestMs }) => oldestMs))
  }

  /** Null if everything is applied. */
  take(limit: number, extent: Extent): Part | null {
    if (extent !== 'told') for (const path of this.paths) this.#segmentAt(path)
    for (const segment of this.#segments.values()) {
      const part = this.#takeFrom(segment, limit, extent)
      if (part !== null) return part
    }
    return null
  }

  /** Position up to which the database has all records, by segment. */
  applied(): Record<string, number> {
    return Object.fromEntries([...this.#segments].map(([name, { at }]) => [name, at]))
  }

  /** Returns a check whether everything reported until now is applied. */
  reach(): () => boolean {
    const told = [...this.#segments].map(([name, segment]) => [name, segment.told.bytes] as const)
    return () => told.every(([name, bytes]) => (this.#segments.get(name)?.at ?? bytes) >= bytes)
  }

  /** All unapplied records in the files. */
  *unapplied(): Generator<LedgerRecord> {
    for (const path of this.paths) {
      const ahead = new FollowedSegment(path)
      ahead.at = this.#segments.get(basename(path))?.at ?? 0
      try {
        for (let read = ahead.read(MANY); read !== null && ahead.at < read.next; read = ahead.read(MANY)) {
          yield* read.records
          ahead.at = read.next
        }
      } catch (error) {
        // The file was removed, so its records are applied.
        if (codeOf(error) !== 'ENOENT') throw error
      } finally {
        ahead.close()
      }
    }
  }

  close(): void {
    this.removed([...this.#segments.keys()])
  }

  #segmentAt(path: string): FollowedSegment {
    const known = this.#segments.get(basename(path))
    if (known) return known
    const segment = new FollowedSegment(path)
    this.#segments.set(basename(path), segment)
    return segment
  }

  #takeFrom(segment: FollowedSegment, limit: number, extent: Extent): Part | null {
    let read: ReturnType<FollowedSegment['read']>
    try {
      read = segment.read(limit, extent === 'told' ? segment.told.bytes : undefined, extent === 'told')
    } catch (error) {
      this.#onTrouble(segment, error)
      return null
    }
    if (read === null || read.next === segment.at) return null
    const { records, opened, skipped, next, end } = read
    const from = segment.at
    if (extent === 'written' && records.length === 0 && next === end) return null
    // The first line is the header.
    if (extent === 'written' && skipped > (segment.at === 0 ? 1 : 0)) segment.skippedAt ??= segment.at
    // Set before records are applied: from then on, retention must keep their rows.
    for (const record of records) segment.oldestMs = Math.min(segment.oldestMs, timeOfRecord(record))
    return {
      records,
      opened,
      opens: () => readRecords(segment.fd, from, next, MANY).records.filter(({ kind }) => kind === 'open'),
      done() {
        segment.at = next
        segment.taken += records.length + opened
        if (segment.at >= segment.told.bytes) segment.sinceMs = null
      },
    }
  }

  /** One unreadable file must not stop the others. */
  #onTrouble(segment: FollowedSegment, error: unknown): void {
    const isGone = codeOf(error) === 'ENOENT'
    // A predecessor or worker removes applied segments.
    if (isGone && segment.at >= segment.told.bytes) {
      this.removed([basename(segment.path)])
      return
    }
    if (!this.#hasTroubleLogged)
      this.#log.error('journal_failed', "cannot read another process's journal", { error: String(error) })
    this.#hasTroubleLogged = true
    if (isGone) segment.at = segment.told.bytes
  }

  #sum(count: (segment: FollowedSegment) => number): number {
    return [...this.#segments.values()].reduce((sum, each) => sum + count(each), 0)
  }
}

const MANY = 1_000
