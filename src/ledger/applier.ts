/** Applies the journal to the store in small batches, since the store may be on this thread. Refused batches are retried while the journal grows. */
import type { Log } from '../log.ts'
import type { LedgerStore } from '../store/ledger-store.ts'
import { BATCH, Batches, Releases } from './applying.ts'
import type { Journal } from './journal.ts'

const INTERVAL_MS = 200

export interface Applier {
  note(): void
  /** Records that are not applied yet. */
  waiting(): number
  /** Age of the oldest pending record, ms; 0 if none. */
  waitsMs(): number
  /** Applies the current records of the journal. False if the store refuses. */
  pass(): Promise<boolean>
  /** Applies the whole journal, for up to `patienceMs`. */
  flush(patienceMs: number): Promise<FlushResult>
  /** From then on, leaves the store to another server. Resolves once the current batch is done. */
  pause(): Promise<void>
  resume(): void
  /** Applies as much as possible, then closes the journal. While paused, the journal stays for the other server. */
  close(): Promise<void>
}

export interface FlushResult {
  applied: number
  waiting: number
}

export interface ApplierDeps {
  journal: Journal
  store: LedgerStore
  log: Log
  onCommit(): void
  onApplied(ms: number): void
}

export function createApplier({ journal, store, log, onCommit, onApplied }: ApplierDeps): Applier {
  let timer: Timer | null = null
  let running: Promise<boolean> | null = null
  let isDue = false
  let isIdle = true
  const batches = new Batches({ store, setAside: journal.setAside, log, onCommit, onApplied })
  const releases = new Releases(journal, store.checkpoint, log)
  let applied = 0
  /** Lower bound for the time of all pending records. */
  let oldestMs = performance.now()
  let closed = false
  let isPaused = false

  const schedule = (ms: number) => {
    if (closed || isPaused || (timer && (ms > 0 || isDue))) return
    if (timer) clearTimeout(timer)
    isDue = ms === 0
    timer = setTimeout(start, ms)
  }

  /** Full batches don't wait, unless refused. */
  const toPauseMs = () => (!batches.isRefused && journal.waiting() >= BATCH ? 0 : INTERVAL_MS)

  const start = (): Promise<boolean> => {
    if (timer) clearTimeout(timer)
    timer = null
    isDue = false
    running ??= run().finally(() => {
      running = null
      isIdle = journal.waiting() === 0
      if (!isIdle) schedule(toPauseMs())
    })
    return running
  }

  /** Resolves false if the store refuses. */
  const run = async (): Promise<boolean> => {
    const startMs = performance.now()
    try {
      for (let left = journal.waiting(); left > 0 && !isPaused; ) {
        const count = await applyBatch()
        if (count === 0) break
        left -= count
        if (left > 0) await new Promise(setImmediate)
      }
    } catch (error) {
      batches.refused(error)
      return false
    }
    oldestMs = startMs
    batches.caughtUp()
    releases.schedule()
    return true
  }

  const applyBatch = async (): Promise<number> => {
    const batch = journal.take(batches.limit)
    if (!batch) return 0
    await batches.apply(batch.records)
    batch.done()
    applied += batch.records.length
    return batch.records.length
  }

  const flush = async (patienceMs: number): Promise<FlushResult> => {
    const before = applied
    const endMs = performance.now() + patienceMs
    while (!isPaused && journal.waiting() > 0 && performance.now() < endMs) {
      if (!(await start())) await Bun.sleep(10)
    }
    return { applied: applied - before, waiting: journal.waiting() }
  }

  return {
    note() {
      if (isIdle) oldestMs = performance.now()
      isIdle = false
      if (running === null) schedule(toPauseMs())
    },
    waiting: journal.waiting,
    waitsMs: () => (journal.waiting() > 0 ? performance.now() - oldestMs : 0),
    async pass() {
      // The current run may have passed newly written records already.
      await running
      return await start()
    },
    flush,
    async pause() {
      isPaused = true
      if (timer) clearTimeout(timer)
      timer = null
      releases.stop()
      await running
    },
    resume() {
      isPaused = false
      if (journal.waiting() > 0) schedule(0)
      releases.resume()
    },
    async close() {
      await running
      if (isPaused) return journal.close(false)
      await start()
      closed = true
      if (timer) clearTimeout(timer)
      releases.stop()
      const waiting = journal.waiting()
      if (waiting > 0)
        log.warn(
          'ledger_behind',
          'database not accepting ledger rows at shutdown; the next start applies the journal',
          { waiting },
        )
      const isCovered = await store.checkpoint().catch(() => false)
      await journal.close(isCovered)
    },
  }
}
