/** Shared by all appliers: batches that don't block the event loop, handling of a store that refuses, and release of segments. */
import type { Log } from '../log.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { LedgerStore, Rejected } from '../store/ledger-store.ts'
import { StoreRefusal } from '../store/refusal.ts'
import type { Journal } from './journal.ts'

export const BATCH = 500
/** Event loop time per batch; slower stores get smaller batches. */
const SLICE_MS = 5
const MIN_BATCH = 20
/** Shorter refusals are not logged: another process was writing. */
const REFUSED_MS = 1_000
/** Pause after a checkpoint that covered or freed too little. */
const CHECKPOINT_MS = 1_000

export interface BatchesDeps {
  store: LedgerStore
  /** Throws the system's error. */
  setAside(rejected: Rejected): void
  log: Log
  onCommit(): void
  onApplied?(ms: number): void
}

export class Batches {
  readonly #deps: BatchesDeps
  #checkpointMs = -CHECKPOINT_MS
  #refusedMs: number | null = null
  #isRefusalLogged = false
  /** Number of records for the next batch. */
  limit = BATCH

  constructor(deps: BatchesDeps) {
    this.#deps = deps
  }

  get isRefused(): boolean {
    return this.#refusedMs !== null
  }

  /**
   * False if the store rejected some records, which are saved. Throws a StoreRefusal, or the system's error if they
   * can't be saved. Then call again.
   */
  async apply(records: readonly LedgerRecord[]): Promise<boolean> {
    const { store, setAside, onCommit, onApplied } = this.#deps
    const startMs = performance.now()
    const rejected = await store.apply(records)
    const tookMs = performance.now() - startMs
    onApplied?.(tookMs)
    for (const each of rejected) setAside(each)
    const count = records.length
    if (count >= this.limit || tookMs > SLICE_MS)
      this.limit = Math.round(Math.min(BATCH, Math.max(MIN_BATCH, (count * SLICE_MS) / tookMs)))
    onCommit()
    return rejected.length === 0
  }

  /** Call once all pending records are applied. */
  caughtUp(): void {
    if (this.#isRefusalLogged) this.#deps.log.info('ledger_caught_up', 'database accepting ledger rows again', {})
    this.#isRefusalLogged = false
    this.#refusedMs = null
  }

  refused(error: unknown): void {
    const { store, log } = this.#deps
    const nowMs = performance.now()
    this.#refusedMs ??= nowMs
    // On a full disk, a checkpoint frees space in the WAL.
    if (error instanceof StoreRefusal && error.reason === 'full' && nowMs - this.#checkpointMs >= CHECKPOINT_MS) {
      this.#checkpointMs = nowMs
      store.checkpoint().catch(() => {})
    }
    const isUnexpected = !(error instanceof StoreRefusal)
    if (this.#isRefusalLogged || (!isUnexpected && nowMs - this.#refusedMs < REFUSED_MS)) return
    this.#isRefusalLogged = true
    log.warn('ledger_behind', 'database not accepting ledger rows; queued in the journal', { error: String(error) })
  }
}

/** Releases applied segments, at most once per second: a database reader may block this, and each attempt costs time. */
export class Releases {
  readonly #journal: Pick<Journal, 'release' | 'hasApplied'>
  readonly #checkpoint: () => Promise<boolean>
  readonly #log: Log
  #timer: Timer | null = null
  #lastMs = -CHECKPOINT_MS
  #isRetainedLogged = false
  #isStopped = false

  constructor(journal: Pick<Journal, 'release' | 'hasApplied'>, checkpoint: () => Promise<boolean>, log: Log) {
    this.#journal = journal
    this.#checkpoint = checkpoint
    this.#log = log
  }

  schedule(): void {
    if (this.#isStopped || !this.#journal.hasApplied()) return
    const waitMs = Math.max(0, this.#lastMs + CHECKPOINT_MS - performance.now())
    this.#timer ??= setTimeout(() => void this.#release(), waitMs).unref()
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  resume(): void {
    this.#isStopped = false
    this.schedule()
  }

  async #release(): Promise<void> {
    this.#lastMs = performance.now()
    try {
      await this.#journal.release(this.#checkpoint)
      this.#isRetainedLogged = false
    } catch (error) {
      if (!this.#isRetainedLogged)
        this.#log.warn('journal_retained', 'applied journal segments are retained for now', { error: String(error) })
      this.#isRetainedLogged = true
    }
    this.#timer = null
    this.schedule()
  }
}
