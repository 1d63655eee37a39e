/**
 * Counts requests that are rejected before they have a row, in memory, and adds them to the store every few seconds.
 * Bounded: one count per hour, known key, and code. Nothing else that a client chooses adds counts.
 */
import type { ErrorKind, RejectedKey } from '../domain/error.ts'
import { isRefusalCode } from '../domain/refusals.ts'
import { hourOf } from '../domain/time.ts'
import type { Log } from '../log.ts'
import type { RefusalCount, RefusalWriter } from '../store/ledger-store.ts'

const INTERVAL_MS = 3_000
/** Some milliseconds of the event loop. */
const BATCH = 500
/** How long a shutdown waits for a busy store. */
const CLOSE_MS = 1_000
const RETRY_MS = 10
/** If the store refuses for long, further keys are counted together, without a key. */
const MAX_COUNTS = 50_000

export interface Refusals {
  /** Cheap: only adds to a number. */
  note(kind: ErrorKind, key: RejectedKey | undefined, nowMs: number): void
  /** Adds counts of another process. */
  add(counts: readonly RefusalCount[]): void
  /** Adds all counts to the store, unless the store refuses. */
  flush(): Promise<void>
  /** Retries while the store is busy, up to a second. */
  close(): Promise<void>
}

export interface RefusalsDeps {
  writer: RefusalWriter
  onCommit(): void
  log: Log
  /** 3 s by default. */
  intervalMs?: number
}

export function createRefusals({ writer, onCommit, log, intervalMs = INTERVAL_MS }: RefusalsDeps): Refusals {
  let counts = new Map<string, RefusalCount>()
  let timer: Timer | null = null
  let running: Promise<void> = Promise.resolve()
  let isRefused = false
  let isClosed = false

  const schedule = () => {
    if (!isClosed) timer ??= setTimeout(flush, intervalMs).unref()
  }

  const add = (count: RefusalCount) => {
    const { hourMs, keyId, teamId, code } = count
    const id = `${hourMs} ${keyId} ${teamId} ${code}`
    const known = counts.get(id)
    if (known) {
      known.refused += count.refused
      known.lastMs = Math.max(known.lastMs, count.lastMs)
    } else if (counts.size < MAX_COUNTS || keyId === '') counts.set(id, count)
    else add({ ...count, keyId: '', teamId: '' })
  }

  const run = async () => {
    const waiting = [...counts.values()]
    counts = new Map()
    try {
      while (waiting.length > 0) {
        await writer.add(waiting.slice(0, BATCH))
        waiting.splice(0, BATCH)
        onCommit()
        if (waiting.length > 0) await new Promise(setImmediate)
      }
      isRefused = false
    } catch (error) {
      for (const count of waiting) add(count)
      if (!isRefused)
        log.warn('refusals_behind', 'database not accepting counts of rejected requests; will retry', {
          error: String(error),
        })
      isRefused = true
      schedule()
    }
  }

  const flush = () => {
    if (timer) clearTimeout(timer)
    timer = null
    running = running.then(run)
    return running
  }

  return {
    note(kind, key, nowMs) {
      if (!isRefusalCode(kind)) return
      const place = { hourMs: hourOf(nowMs), keyId: key?.id ?? '', teamId: key?.teamId ?? '', code: kind }
      add({ ...place, refused: 1, lastMs: nowMs })
      schedule()
    },
    add(counts) {
      for (const count of counts) add(count)
      if (counts.length > 0) schedule()
    },
    flush,
    async close() {
      isClosed = true
      const endMs = performance.now() + CLOSE_MS
      await flush()
      while (counts.size > 0 && performance.now() < endMs) {
        await Bun.sleep(RETRY_MS)
        await flush()
      }
      if (counts.size === 0) return
      const refused = [...counts.values()].reduce((all, count) => all + count.refused, 0)
      log.warn('refusals_behind', 'database not accepting counts of rejected requests at shutdown; they are lost', {
        refused,
      })
    },
  }
}
