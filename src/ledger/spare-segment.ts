/**
 * The segment that the journal writes next, made while there is still room in the one before. A disk or a limit that leaves no
 * room for it is told once, and asked again now and then. Of `journal.ts` alone.
 */
import { join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import type { Log } from '../log.ts'
import { beginSegment, createSegment, type Segment } from './segment.ts'

/**
 * The first segment is made while the server starts, and the first request waits for it: it takes some 500 of them. It is
 * written once, unless a full disk leaves no room for another.
 */
const FIRST_SEGMENT_BYTES = 1024 * 1024
/** A disk without room for a segment is asked again after this, and a process without a file for one. */
const RETRY_MS = 1_000
const FILES_RETRY_MS = 50

export interface SpareOptions {
  folder: string
  instance: string
  /** What each segment begins with. */
  head: Buffer
  segmentBytes: number
  /** What all segments together may take of the disk. */
  maxBytes: number
  /** What those take that are in use. */
  usedBytes(): number
  log: Log
}

export interface Spare {
  /** Null while there is none. */
  readonly segment: Segment | null
  /** Whether there is none, and none on its way. */
  readonly isMissing: boolean
  /** Whether the last one could not be made. */
  readonly hasFailed: boolean
  /** Whether the limit leaves no room for one more. */
  isAtLimit(): boolean
  /** Makes sure that there is one, or tries to; null where that is of no use now. */
  grow(): Promise<void> | null
  /** Makes one in the room that a segment has which is given up. */
  reuse(segment: Segment): Promise<void>
  /** Gives it away, for good. */
  take(): Segment | null
  /** From now on `grow` makes none. */
  stop(): void
  /** Resolves once none is on its way. */
  settled(): Promise<void>
}

export function createSpare(options: SpareOptions): Spare {
  const { folder, instance, head, segmentBytes, maxBytes, usedBytes, log } = options
  let spare: Segment | null = null
  let preparing: Promise<void> | null = null
  /** When a segment that could not be made may be tried again; null where the last one could. */
  let againMs: number | null = null
  let isLimitTold = false
  let isStopped = false
  let number = 0

  const prepare = (segment: Promise<Segment>): Promise<void> => {
    const done = async () => {
      try {
        spare = await segment
        againMs = null
        isLimitTold = false
      } catch (error) {
        if (againMs === null) log.warn('journal_full', 'the journal cannot grow', { error: String(error) })
        againMs = performance.now() + (/^E[MN]FILE$/.test(codeOf(error)) ? FILES_RETRY_MS : RETRY_MS)
      }
      preparing = null
    }
    preparing = done()
    return preparing
  }

  const isAtLimit = () => usedBytes() + segmentBytes > maxBytes

  return {
    get segment() {
      return spare
    },
    get isMissing() {
      return spare === null && preparing === null
    },
    get hasFailed() {
      return againMs !== null
    },
    isAtLimit,
    grow() {
      if (spare) return null
      if (preparing) return preparing
      // Each try takes what room there is for a moment: not at every group of a full disk.
      const isTooSoon = againMs !== null && performance.now() < againMs
      if (isStopped || isTooSoon) return null
      if (isAtLimit()) {
        if (!isLimitTold)
          log.warn('journal_full', 'the journal has reached its size and grows no further', { bytes: maxBytes })
        isLimitTold = true
        return null
      }
      const bytes = usedBytes() === 0 ? Math.min(FIRST_SEGMENT_BYTES, segmentBytes) : segmentBytes
      return prepare(createSegment(join(folder, `${instance}-${++number}.log`), bytes, head))
    },
    reuse: (segment) => prepare(beginSegment(segment, head)),
    take() {
      const taken = spare
      spare = null
      return taken
    },
    stop() {
      isStopped = true
    },
    async settled() {
      await preparing
    },
  }
}
