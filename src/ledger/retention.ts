/**
 * Keeps the database from growing for ever: takes away requests, with their calls, that are older than `--retention`; what they come to
 * stays in the rollup. So do keys that had a request; those that ended unused go after that time, and entries of the audit log after
 * `--audit-retention`. In slices of a few ms with pauses between them, so that the ledger's own writer is held up for moments
 * only. `server/storage.ts` starts it. Nothing here is on the way of a request.
 */
import { DAY_MS, hourOf } from '../domain/time.ts'
import type { Log } from '../log.ts'
import type { LedgerUpkeep, OldRows, Took } from '../store/ledger-store.ts'
import type { Journal } from './journal.ts'

/** How often it looks. */
const LOOK_MS = 600_000
/** Not while a start has enough to do. */
const FIRST_LOOK_MS = 60_000
/** What a slice may keep other writers out for. */
const SLICE_MS = 3
const FIRST_SLICE = 32
const MIN_SLICE = 4
const MAX_SLICE = 512
/** So many times longer than a slice took nothing is done: whoever else needs the database, disk or processor has nine tenths of the time. */
const REST = 9
const MIN_REST_MS = 5
/** Another writer is at work. */
const BUSY_MS = 20
/** Slices between checkpoints: some 8 MB of the database's log. */
const CHECKPOINT_SLICES = 64
/** A checkpoint that did not cover everything: a report is being read, say. */
const UNCOVERED_MS = 250
/** Nor may a reader that never lets go, such as a replication, keep old rows for ever. */
const MAX_UNCOVERED = 240
/** Free pages that stay, since they are used again soon: so many, or this part of the file. */
const MIN_FREE_PAGES = 1_024
const FREE_PART = 0.1
/**
 * How far a clock is believed to be ahead of the last request that was on record when the server started. Nobody may have asked
 * for months: one that has run for as long since is believed.
 */
const MAX_AHEAD_MS = 7 * DAY_MS

export interface RetentionDeps {
  /** How long requests are kept, ms; Infinity = for ever. */
  keepMs: number
  /** How long entries of the audit log are kept, ms; Infinity = for ever. */
  auditMs: number
  upkeep: LedgerUpkeep
  journal: Pick<Journal, 'oldestMs' | 'release'>
  /** Has all that was written reach the database file. */
  checkpoint(): Promise<boolean>
  /** The newest hour with a settled request that is on record at the start, 0 for none. */
  latestMs: number
  /** Wall clock, ms. */
  now(): number
  /** A clock that never steps, ms. */
  monotonicMs(): number
  sleep(ms: number): Promise<unknown>
  log: Log
}

/** What a pass has taken away and given back. */
export interface Pass {
  requests: number
  calls: number
  keys: number
  auditRows: number
  /** Bytes that the database file is shorter by. */
  bytes: number
}

export interface Retention {
  /** Takes away what is too old now, and gives back what that leaves. Throws what the store says. */
  pass(): Promise<Pass>
  /** Begins to look by itself, every ten minutes. */
  start(): void
  /** Resolves once the slice that is under way has ended; there is none after it. */
  stop(): Promise<void>
}

export function createRetention(deps: RetentionDeps): Retention {
  const { keepMs, auditMs, upkeep, journal, checkpoint, now, monotonicMs, sleep, log } = deps
  const startedMs = monotonicMs()
  const clockAtStartMs = now()
  let limit = FIRST_SLICE
  let slices = 0
  let isStopped = false
  let timer: Timer | null = null
  let running: Promise<unknown> = Promise.resolve()

  /** By a clock that is wrong by months nothing goes: it says a time that the ledger cannot have reached. */
  const toNowMs = () => Math.min(now(), toBelievedMs())
  const toBelievedMs = () => {
    if (deps.latestMs === 0) return Number.POSITIVE_INFINITY
    const ranMs = monotonicMs() - startedMs
    const fromMs = ranMs < MAX_AHEAD_MS ? deps.latestMs : Math.max(deps.latestMs, clockAtStartMs)
    return fromMs + MAX_AHEAD_MS + ranMs
  }

  /** Requests of before this time go now: never one whose record a start would apply again. */
  const toUntilMs = async (): Promise<number> => {
    const untilMs = hourOf(toNowMs() - keepMs)
    if ((upkeep.oldestMs() ?? untilMs) >= untilMs) return 0
    if (journal.oldestMs() < untilMs) await journal.release(checkpoint, untilMs)
    return Math.min(untilMs, hourOf(journal.oldestMs()))
  }

  /** Runs slices until one says that it was the last, with pauses; at once where the server stops. */
  const repeat = async (slice: () => Promise<(Took & { isLast: boolean }) | 'busy'>) => {
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

  /** The database's log would grow by what is written until a checkpoint has covered it. */
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
      // Of an old request that ends from here on, the journal has the record: its row is to stay until that is gone.
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
    const pass = { requests: 0, calls: 0, keys: 0, auditRows: 0, bytes: 0 }
    await prune(pass)
    // Of a request that the journal alone has, the key is not known to be used.
    pass.keys = await drop('keys', Math.min(toNowMs() - keepMs, journal.oldestMs()))
    pass.auditRows = await drop('audit', toNowMs() - auditMs)
    await giveBack(pass)
    if (hasChanged(pass)) await checkpoint()
    return pass
  }

  const look = async () => {
    try {
      const pass = await run()
      const { requests, calls, keys, auditRows, bytes } = pass
      if (hasChanged(pass))
        log.info(
          'ledger_pruned',
          'removed rows older than --retention and --audit-retention; totals of requests stay',
          {
            requests,
            calls,
            keys,
            audit_rows: auditRows,
            freed_bytes: bytes,
          },
        )
    } catch (error) {
      log.warn('retention_failed', 'could not remove old rows; this is tried again', {
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

const hasChanged = ({ requests, keys, auditRows, bytes }: Pass) => requests + keys + auditRows + bytes > 0
