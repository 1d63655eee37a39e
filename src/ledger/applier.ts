/**
 * Has the store follow the journal: in batches, every 200 ms or at 500 records, and never for long at a time, because the
 * store may be in this thread. What the store refuses is tried again while the journal grows. `ledger.ts` tells it of each
 * group.
 */
import type { Log } from '../log.ts'
import type { LedgerStore } from '../store/ledger-store.ts'
import { StoreRefusal } from '../store/refusal.ts'
import type { Journal } from './journal.ts'

const INTERVAL_MS = 200
const BATCH = 500
/** What a batch may take of the event loop. Slower stores get smaller ones. */
const SLICE_MS = 5
const MIN_BATCH = 20
/** A store that refuses for longer is worth a line in the log: until then somebody else is only writing. */
const REFUSED_MS = 1_000
/** A checkpoint that did not cover everything, or did not make room, is tried again after this. */
const CHECKPOINT_MS = 1_000

export interface Applier {
  /** Says that the journal has more. */
  note(): void
  /** For how long the oldest record has been waiting, ms; 0 for none. */
  waitsMs(): number
  /** Applies all that the journal holds, for as long as that may take. */
  flush(patienceMs: number): Promise<Flushed>
  /** Applies what it can, then has the journal closed. */
  close(): Promise<void>
}

/** How many records were applied, and how many are not. */
export interface Flushed {
  applied: number
  waiting: number
}

export interface ApplierDeps {
  journal: Journal
  store: LedgerStore
  log: Log
  /** Called after each transaction, so that somebody can think of a checkpoint. */
  onCommit(): void
}

export function createApplier({ journal, store, log, onCommit }: ApplierDeps): Applier {
  let timer: Timer | null = null
  let running: Promise<boolean> | null = null
  let isDue = false
  let isIdle = true
  let limit = BATCH
  let applied = 0
  /** Everything that is waiting came after this. */
  let oldestMs = performance.now()
  let refusedMs: number | null = null
  let isRefusalLogged = false
  let isKeptTold = false
  let checkpointMs = -CHECKPOINT_MS
  let releaseTimer: Timer | null = null
  let closed = false

  const schedule = (ms: number) => {
    if (closed || (timer && (ms > 0 || isDue))) return
    if (timer) clearTimeout(timer)
    isDue = ms === 0
    timer = setTimeout(start, ms)
  }

  /** A whole batch does not wait, unless it was refused. */
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

  /** Applies what is waiting now, batch by batch. Resolves false where the store refuses. */
  const run = async (): Promise<boolean> => {
    const startMs = performance.now()
    try {
      for (let left = journal.waiting(); left > 0; ) {
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
    if (isRefusalLogged) log.info('ledger_caught_up', 'the database takes the ledger again', {})
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
    // On a full disk, a WAL that a checkpoint has emptied begins again in the room that it has.
    if (error instanceof StoreRefusal && error.reason === 'full' && nowMs - checkpointMs >= CHECKPOINT_MS) {
      checkpointMs = nowMs
      store.checkpoint().catch(() => {})
    }
    const isUnexpected = !(error instanceof StoreRefusal)
    if (isRefusalLogged || (!isUnexpected && nowMs - refusedMs < REFUSED_MS)) return
    isRefusalLogged = true
    log.warn('ledger_behind', 'the database refuses the ledger; its rows wait in the journal', { error: String(error) })
  }

  /** Not more often than once in a while: a reader of the database may be in the way, and each try is work. */
  const scheduleRelease = () => {
    const waitMs = Math.max(0, checkpointMs + CHECKPOINT_MS - performance.now())
    if (!closed && journal.hasApplied()) releaseTimer ??= setTimeout(release, waitMs).unref()
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
            log.warn('journal_retained', 'the journal keeps its applied segments for now', { error: String(error) })
          isKeptTold = true
        },
      )
      .finally(() => {
        releaseTimer = null
        scheduleRelease()
      })
  }

  const flush = async (patienceMs: number): Promise<Flushed> => {
    const before = applied
    const endMs = performance.now() + patienceMs
    while (journal.waiting() > 0 && performance.now() < endMs) {
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
    async close() {
      await running
      await start()
      closed = true
      if (timer) clearTimeout(timer)
      if (releaseTimer) clearTimeout(releaseTimer)
      const waiting = journal.waiting()
      if (waiting > 0)
        log.warn('ledger_behind', 'the database refuses to the end; the next start applies the journal', { waiting })
      const isCovered = await store.checkpoint().catch(() => false)
      await journal.close(isCovered)
    },
  }
}
