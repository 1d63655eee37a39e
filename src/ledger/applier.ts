/** Applies the journal to the store in small batches, since the store may be on this thread. What the store rejects is retried while the journal grows. */
import type { Log } from '../log.ts'
import type { LedgerStore } from '../store/ledger-store.ts'
import { StoreRefusal } from '../store/refusal.ts'
import type { Journal } from './journal.ts'

const INTERVAL_MS = 200
const BATCH = 500
/** Event loop time per batch; slower stores get smaller batches. */
const SLICE_MS = 5
const MIN_BATCH = 20
/** Shorter refusals are not logged: they only mean another writer. */
const REFUSED_MS = 1_000
/** Pause after a checkpoint that covered or freed too little. */
const CHECKPOINT_MS = 1_000

export interface Applier {
  note(): void
  /** Age of the oldest waiting record, ms; 0 if none. */
  waitsMs(): number
  /** Applies all of the journal, for up to `patienceMs`. */
  flush(patienceMs: number): Promise<FlushResult>
  /** From then on, leaves the store to another server. Resolves once the current batch is done. */
  pause(): Promise<void>
  resume(): void
  /** Applies what it can, then closes the journal; while paused, the journal stays for the other server. */
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
  let limit = BATCH
  let applied = 0
  /** No waiting record is older. */
  let oldestMs = performance.now()
  let refusedMs: number | null = null
  let isRefusalLogged = false
  let isKeptTold = false
  let checkpointMs = -CHECKPOINT_MS
  let releaseTimer: Timer | null = null
  let closed = false
  let isPaused = false

  const schedule = (ms: number) => {
    if (closed || isPaused || (timer && (ms > 0 || isDue))) return
    if (timer) clearTimeout(timer)
    isDue = ms === 0
    timer = setTimeout(start, ms)
  }

  /** Full batches don't wait, unless refused. */
  const toPauseMs = () => (refusedMs === null && journal.waiting() >= BATCH ? 0 : INTERVAL_MS)

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
      onRefusal(error)
      return false
    }
    oldestMs = startMs
    if (isRefusalLogged) log.info('ledger_caught_up', 'database accepting ledger rows again', {})
    isRefusalLogged = false
    refusedMs = null
    scheduleRelease()
    return true
  }

  const applyBatch = async (): Promise<number> => {
    const batch = journal.take(limit)
    if (!batch) return 0
    const startMs = performance.now()
    const rejected = await store.apply(batch.records)
    const tookMs = performance.now() - startMs
    onApplied(tookMs)
    for (const each of rejected) journal.setAside(each)
    batch.done()
    const count = batch.records.length
    applied += count
    if (count === limit || tookMs > SLICE_MS) {
      limit = Math.round(Math.min(BATCH, Math.max(MIN_BATCH, (count * SLICE_MS) / tookMs)))
    }
    onCommit()
    return count
  }

  const onRefusal = (error: unknown) => {
    const nowMs = performance.now()
    refusedMs ??= nowMs
    // On a full disk, a checkpoint frees space in the WAL.
    if (error instanceof StoreRefusal && error.reason === 'full' && nowMs - checkpointMs >= CHECKPOINT_MS) {
      checkpointMs = nowMs
      store.checkpoint().catch(() => {})
    }
    const isUnexpected = !(error instanceof StoreRefusal)
    if (isRefusalLogged || (!isUnexpected && nowMs - refusedMs < REFUSED_MS)) return
    isRefusalLogged = true
    log.warn('ledger_behind', 'database not accepting ledger rows; queued in the journal', { error: String(error) })
  }

  /** Rate-limited: a reader of the database may block it, and each try costs work. */
  const scheduleRelease = () => {
    const waitMs = Math.max(0, checkpointMs + CHECKPOINT_MS - performance.now())
    if (!closed && !isPaused && journal.hasApplied()) releaseTimer ??= setTimeout(release, waitMs).unref()
  }

  const release = () => {
    checkpointMs = performance.now()
    journal
      .release(store.checkpoint)
      .then(
        () => {
          isKeptTold = false
        },
        (error) => {
          if (!isKeptTold)
            log.warn('journal_retained', 'applied journal segments are retained for now', { error: String(error) })
          isKeptTold = true
        },
      )
      .finally(() => {
        releaseTimer = null
        scheduleRelease()
      })
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
    waitsMs: () => (journal.waiting() > 0 ? performance.now() - oldestMs : 0),
    flush,
    async pause() {
      isPaused = true
      if (timer) clearTimeout(timer)
      if (releaseTimer) clearTimeout(releaseTimer)
      timer = null
      releaseTimer = null
      await running
    },
    resume() {
      isPaused = false
      if (journal.waiting() > 0) schedule(0)
      scheduleRelease()
    },
    async close() {
      await running
      if (isPaused) return journal.close(false)
      await start()
      closed = true
      if (timer) clearTimeout(timer)
      if (releaseTimer) clearTimeout(releaseTimer)
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
