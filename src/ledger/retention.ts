/**
 * Deletes requests older than `--retention` with their calls (totals stay), counts of rejected requests and unused keys that ended before that time, and audit
 * entries older than `--audit-retention`. Runs in slices of a few ms with pauses, so that the ledger's writer is blocked only briefly.
 */
import { DAY_MS, hourOf } from '../domain/time.ts'
import type { Log } from '../log.ts'
import type { LedgerUpkeep, OldRows, SliceTiming } from '../store/ledger-store.ts'
import type { Journal } from './journal.ts'

const LOOK_MS = 600_000
/** After the startup load. */
const FIRST_LOOK_MS = 60_000
/** How long a slice may block other writers. */
const SLICE_MS = 3
const FIRST_SLICE = 32
const MIN_SLICE = 4
const MAX_SLICE = 512
/** Pause relative to a slice's duration: leaves nine tenths of the time to others. */
const REST = 9
const MIN_REST_MS = 5
/** Pause while another writer is active. */
const BUSY_MS = 20
/** About 8 MB of WAL. */
const CHECKPOINT_SLICES = 64
/** Pause after a checkpoint that a reader blocked. */
const UNCOVERED_MS = 250
/** A permanent reader, such as a replication, must not block retention forever. */
const MAX_UNCOVERED = 240
/** Free pages to keep for reuse: this many, or this part of the file. */
const MIN_FREE_PAGES = 1_024
const FREE_PART = 0.1
/**
 * How far the clock may be ahead of the last recorded request at startup. After months without requests, such a clock may be right, so it is trusted once the
 * server has run this long.
 */
const MAX_AHEAD_MS = 7 * DAY_MS

export interface RetentionDeps {
  /** Retention of requests, ms; Infinity = forever. */
  keepMs: number
  /** Retention of audit entries, ms; Infinity = forever. */
  auditMs: number
  upkeep: LedgerUpkeep
  journal: Pick<Journal, 'oldestMs' | 'release'>
  checkpoint(): Promise<boolean>
  /** Newest hour with a settled request at startup; 0 if none. */
  latestMs: number
  /** In a cluster, one node removes keys and audit entries for all. */
  removesShared?(): boolean
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  sleep(ms: number): Promise<unknown>
  log: Log
}

/** Removed rows and freed space of one run. */
export interface Pass {
  requests: number
  calls: number
  /** Counts of rejected requests. */
  refusals: number
  keys: number
  auditRows: number
  /** Bytes by which the database file shrank. */
  bytes: number
}

export interface Retention {
  /** Runs once. Throws the store's error. */
  pass(): Promise<Pass>
  /** Runs every ten minutes. */
  start(): void
  /** Resolves once the current slice has ended; no other follows. */
  stop(): Promise<void>
}

export function createRetention(deps: RetentionDeps): Retention {
  const { keepMs, auditMs, upkeep, journal, checkpoint, now, monotonicMs, sleep, log } = deps
  const { removesShared = () => true } = deps
  const startedMs = monotonicMs()
  const clockAtStartMs = now()
  let limit = FIRST_SLICE
  let slices = 0
  let isStopped = false
  let timer: Timer | null = null
  let running: Promise<unknown> = Promise.resolve()

  /** Limits a clock that is far ahead of the ledger's latest possible time. */
  const toNowMs = () => Math.min(now(), toBelievedMs())
  const toBelievedMs = () => {
    if (deps.latestMs === 0) return Number.POSITIVE_INFINITY
    const ranMs = monotonicMs() - startedMs
    const fromMs = ranMs < MAX_AHEAD_MS ? deps.latestMs : Math.max(deps.latestMs, clockAtStartMs)
    return fromMs + MAX_AHEAD_MS + ranMs
  }

  /** Requests before this time are deleted now, except those whose records a start would apply again. */
  const toUntilMs = async (): Promise<number> => {
    const untilMs = hourOf(toNowMs() - keepMs)
    if ((upkeep.oldestMs() ?? untilMs) >= untilMs) return 0
    if (journal.oldestMs() < untilMs) await journal.release(checkpoint, untilMs)
    return Math.min(untilMs, hourOf(journal.oldestMs()))
  }

  /** Runs slices with pauses until the last, or until the server stops. */
  const repeat = async (slice: () => Promise<(SliceTiming & { isLast: boolean }) | 'busy'>) => {
    while (!isStopped) {
      const done = await slice()
      if (done === 'busy') {
        await sleep(BUSY_MS)
        continue
      }
      if (++slices % CHECKPOINT_SLICES === 0) await cover()
      if (done.isLast) return
      await sleep(Math.max(MIN_REST_MS, done.tookMs * REST))
    }
  }

  /** Makes checkpoints, without which the WAL would grow with each write. */
  const cover = async () => {
    for (let tries = 0; tries < MAX_UNCOVERED && !isStopped && !(await checkpoint()); tries++) await sleep(UNCOVERED_MS)
  }

  const adapt = (lockedMs: number) => {
    const fits = lockedMs > SLICE_MS ? (limit * SLICE_MS) / lockedMs : lockedMs < SLICE_MS / 2 ? limit * 2 : limit
    limit = Math.round(Math.min(MAX_SLICE, Math.max(MIN_SLICE, fits)))
  }

  const prune = async (pass: Pass) => {
    const untilMs = await toUntilMs()
    if (untilMs <= 0) return
    let after = ''
    await repeat(async () => {
      // If an old request ends now, the journal has its record. Its row must stay until the record is removed.
      const sliceMs = Math.min(untilMs, hourOf(journal.oldestMs()))
      const pruned = await upkeep.prune({ untilMs: sliceMs, after, limit, spared: upkeep.openBefore(sliceMs) })
      if (pruned === 'busy') return pruned
      pass.requests += pruned.requests
      pass.calls += pruned.calls
      after = pruned.next ?? after
      adapt(pruned.lockedMs)
      return { ...pruned, isLast: pruned.next === null }
    })
  }

  const drop = async (what: OldRows['what'], untilMs: number): Promise<number> => {
    let rows = 0
    if (untilMs <= 0) return rows
    limit = FIRST_SLICE
    await repeat(async () => {
      const old = { what, untilMs, limit }
      const done = await upkeep.drop(old)
      if (done === 'busy') return done
      rows += done.rows
      adapt(done.lockedMs)
      return { ...done, isLast: done.rows < old.limit }
    })
    return rows
  }

  const giveBack = async (pass: Pass) => {
    const surplus = () => {
      const { pages, freePages, canShrink } = upkeep.space()
      return canShrink ? freePages - Math.max(MIN_FREE_PAGES, Math.ceil(pages * FREE_PART)) : 0
    }
    const before = upkeep.space()
    if (surplus() <= 0) return
    limit = FIRST_SLICE
    await repeat(async () => {
      const done = await upkeep.giveBack(Math.min(limit, Math.max(1, surplus())))
      if (done === 'busy') return done
      adapt(done.lockedMs)
      return { ...done, isLast: surplus() <= 0 }
    })
    limit = FIRST_SLICE
    pass.bytes = Math.max(0, before.pages - upkeep.space().pages) * before.pageBytes
  }

  const run = async (): Promise<Pass> => {
    const pass = { requests: 0, calls: 0, refusals: 0, keys: 0, auditRows: 0, bytes: 0 }
    await prune(pass)
    // Before the keys, which stay while they have rejected requests.
    pass.refusals = await drop('refusals', toNowMs() - keepMs)
    // Requests that are only in the journal don't yet mark their key as used.
    if (removesShared()) {
      pass.keys = await drop('keys', Math.min(toNowMs() - keepMs, journal.oldestMs()))
      pass.auditRows = await drop('audit', toNowMs() - auditMs)
    }
    await giveBack(pass)
    if (hasChanged(pass)) await checkpoint()
    return pass
  }

  const look = async () => {
    try {
      const pass = await run()
      const { requests, calls, refusals, keys, auditRows, bytes } = pass
      if (hasChanged(pass))
        log.info(
          'ledger_pruned',
          'removed rows older than --retention and --audit-retention; totals of requests stay',
          {
            requests,
            calls,
            refusals,
            keys,
            audit_rows: auditRows,
            freed_bytes: bytes,
          },
        )
    } catch (error) {
      log.warn('retention_failed', 'could not remove old rows; will retry', {
        error: String(error),
      })
    }
    schedule(LOOK_MS)
  }

  const schedule = (ms: number) => {
    if (isStopped) return
    timer = setTimeout(() => {
      running = look()
    }, ms).unref()
  }

  return {
    pass: run,
    start: () => schedule(FIRST_LOOK_MS),
    async stop() {
      isStopped = true
      if (timer) clearTimeout(timer)
      await running
    },
  }
}

const hasChanged = ({ requests, refusals, keys, auditRows, bytes }: Pass) =>
  requests + refusals + keys + auditRows + bytes > 0
