/**
 * Ships the rows named by the node's outbox to PostgreSQL, one batch at a time. Each transaction also moves the cursor. When in doubt, the shipper reads the
 * cursor:
 *
 * - If the cursor is at an entry of this outbox, the shipper continues after this entry. A failover that lost transactions moves the cursor back.
 * - If this outbox doesn't have the entry, the data folder was restored, or a crash lost the outbox's end. The shipper sends all entries again.
 * - If the cursor is before the oldest kept entry, the shipper also adds entries for the requests in between.
 *
 * Rows that PostgreSQL already has change nothing there.
 */
import { toFirstId } from '../domain/id.ts'
import { DAY_MS, hourOf } from '../domain/time.ts'
import type { Log } from '../log.ts'
import type { Outbox, OutboxBatch } from '../store/ledger-store.ts'
import { PostgresRefusal } from '../store/postgres/client.ts'
import type { SharedLedger } from '../store/postgres/ledger.ts'
import { StoreRefusal } from '../store/refusal.ts'

const BATCH = 500
const MIN_BATCH = 20
/** Event loop time for reading a batch. */
const SLICE_MS = 5
/** Delay before a batch, so that transactions are few under low load. */
const GATHER_MS = 50
const RETRY_MS = 200
const BEHIND_MS = 10_000
const TIDY_MS = 1_000
/** How long a stop waits for the remaining entries to arrive. */
const STOP_MS = 1_000
/** Maximum duration of a request, with rare exceptions. */
const LONGEST_MS = DAY_MS
/** Maximum number of points in `came`. */
const MAX_POINTS = 1_000
const BUSY_MS = 20

export interface ShipperOptions {
  outbox: Outbox
  shared: Pick<SharedLedger, 'cursor' | 'ship'>
  /** How long shipped entries are kept, ms. */
  keepMs: number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
}

export interface Shipping {
  /** `behind`: the oldest entry has waited for 10 s. */
  state: 'ok' | 'behind' | 'unreachable'
  /** Number of entries that PostgreSQL doesn't have. */
  waiting: number
  /** Age of the oldest entry that PostgreSQL doesn't have, ms. */
  lagMs: number
  /** Entries since the start whose rows PostgreSQL rejected because of their data. */
  refused: number
  /** Error of the last attempt. */
  trouble: string | null
}

export interface Shipper {
  /** Call after adding entries. */
  note(): void
  /** Ships all entries without delay. Resolves once they have arrived; pending while PostgreSQL is unreachable. */
  shipped(): Promise<void>
  state(): Shipping
  start(): void
  /** Resolves once sending has stopped. Waits a second for remaining entries, unless another process ships them. */
  stop(isSuccessors: boolean): Promise<void>
}

interface Point {
  seq: number
  ms: number
}

export function createShipper({ outbox, shared, keepMs, monotonicMs, log }: ShipperOptions): Shipper {
  /** The cursor in PostgreSQL, and the last shipped entry; null in doubt. */
  let place: { there: number; after: number } | null = null
  let lastAfter = 0
  let limit = BATCH
  let refused = 0
  let trouble: string | null = null
  let isUnreachable = false
  let isBehindLogged = false
  let isRunning = false
  let isStopped = true
  let timer: Timer | null = null
  let tidyTimer: Timer | null = null
  /** The cursor whose gap has been filled with entries already. */
  let filled = -1
  /** When entries were added, and when they arrived in PostgreSQL. */
  const came: Point[] = []
  const arrived: Point[] = []
  let waiters: { until: number; resolve(): void }[] = []
  let running: Promise<void> = Promise.resolve()

  /** Merges points within `apartMs`; the earliest time stays. */
  const addPoint = (points: Point[], seq: number, apartMs: number) => {
    const ms = monotonicMs()
    const last = points.at(-1)
    if (last && ms - last.ms < apartMs) last.seq = Math.max(last.seq, seq)
    else points.push({ seq, ms })
  }

  const schedule = (ms: number) => {
    if (isStopped || isRunning || (timer !== null && ms > 0)) return
    if (timer !== null) clearTimeout(timer)
    timer = setTimeout(start, ms)
  }

  const start = () => {
    timer = null
    if (isRunning || isStopped) return
    isRunning = true
    running = run()
      .then(succeeded, failed)
      .then((pauseMs) => {
        isRunning = false
        if (pauseMs !== null) schedule(pauseMs)
        else if (waiters.length > 0) schedule(0)
      })
  }

  const run = async (): Promise<void> => {
    while (!isStopped) {
      place ??= await agree()
      const batch = take(place.after)
      if (batch === null) return arrivedAt(outbox.range().last)
      const shipped = await send(place.there, batch)
      if (shipped === null) continue
      place = shipped.isApplied ? { there: batch.to, after: batch.to } : null
      if (shipped.isApplied) arrivedAt(batch.to)
      if (shipped.ignored > 0)
        log.warn('ledger_row_rejected', 'PostgreSQL has removed the requests of that time, so they were not added', {
          requests: shipped.ignored,
        })
      await new Promise(setImmediate)
    }
  }

  /** Null if the caller should send a smaller batch. */
  const send = async (there: number, batch: OutboxBatch) => {
    try {
      return await shared.ship(there, batch)
    } catch (error) {
      if (!isOfData(error)) throw error
      if (batch.entries > 1) {
        limit = Math.ceil(batch.entries / 2)
        return null
      }
      refused++
      log.error('ledger_row_rejected', "PostgreSQL can't store a row of the ledger; only this node has it", {
        entry: batch.mark,
        error: String(error),
      })
      return await shared.ship(there, { ...batch, ids: [], rows: '{}' })
    }
  }

  const take = (after: number): OutboxBatch | null => {
    const startMs = performance.now()
    const batch = outbox.take(after, limit)
    const tookMs = performance.now() - startMs
    if (batch !== null && (tookMs > SLICE_MS || limit < BATCH)) {
      const fits = (batch.entries * SLICE_MS) / Math.max(tookMs, 0.1)
      limit = Math.round(Math.min(BATCH, limit * 2, Math.max(MIN_BATCH, fits)))
    }
    return batch
  }

  const agree = async () => {
    const cursor = await shared.cursor()
    const { first } = outbox.range()
    if (cursor.seq > 0 && outbox.markAt(cursor.seq) === cursor.mark) {
      if (cursor.seq < lastAfter)
        log.warn('ledger_shipping_again', 'PostgreSQL lost rows of this node; sending them again', {
          entries: lastAfter - cursor.seq,
        })
      return { there: cursor.seq, after: cursor.seq }
    }
    if (cursor.seq + 1 < first && filled !== cursor.seq) {
      const sinceMs = Math.max(0, cursor.shippedMs - LONGEST_MS)
      log.warn('ledger_shipping_again', 'PostgreSQL lost rows from before --cluster-keep; sending all since then', {
        since: new Date(sinceMs).toISOString(),
      })
      await fill(sinceMs)
      filled = cursor.seq
    } else if (cursor.seq > 0)
      log.warn(
        'ledger_shipping_again',
        'this data folder is older than what PostgreSQL has of this node; sending all recent rows again',
        { there: cursor.seq, here: outbox.range().last },
      )
    return { there: cursor.seq, after: 0 }
  }

  const fill = async (sinceMs: number) => {
    await untilFree(() => outbox.refusalsAgain(hourOf(sinceMs)))
    for (let after: string | null = toFirstId(sinceMs); after !== null && !isStopped; ) {
      const from: string = after
      after = await untilFree(() => outbox.again(from, BATCH))
      await new Promise(setImmediate)
    }
  }

  const arrivedAt = (seq: number) => {
    lastAfter = seq
    addPoint(arrived, seq, Math.max(TIDY_MS, keepMs / MAX_POINTS))
    while (came[0] && came[0].seq <= seq) came.shift()
    const done = waiters.filter(({ until }) => until <= seq)
    if (done.length === 0) return
    waiters = waiters.filter(({ until }) => until > seq)
    for (const { resolve } of done) resolve()
  }

  const succeeded = () => {
    if (isBehindLogged) log.info('ledger_shipped', 'PostgreSQL has all rows of this node again')
    isBehindLogged = false
    isUnreachable = false
    trouble = null
    return null
  }

  const failed = (error: unknown) => {
    place = null
    trouble = error instanceof Error ? error.message : String(error)
    isUnreachable = error instanceof PostgresRefusal && (error.kind === 'unreachable' || error.kind === 'timeout')
    if (!isBehindLogged && lagMs() >= BEHIND_MS) {
      isBehindLogged = true
      log.warn('ledger_unshipped', 'PostgreSQL does not get the rows of this node; rows are pending', {
        error: trouble,
      })
    }
    return RETRY_MS
  }

  const toWaiting = () => {
    const { first, last } = outbox.range()
    return Math.max(0, last - Math.max(lastAfter, first - 1))
  }

  const lagMs = () => (came[0] ? monotonicMs() - came[0].ms : 0)

  /** Removes one batch of old entries at a time. The last entry stays. */
  const tidy = () => {
    const endMs = monotonicMs() - keepMs
    while (arrived[1] && arrived[1].ms <= endMs) arrived.shift()
    const [oldest] = arrived
    if (!oldest || oldest.ms > endMs) return
    try {
      if (outbox.remove(oldest.seq, BATCH) === BATCH) setImmediate(tidy)
    } catch {
      // Retried at the next tick.
    }
  }

  const note = () => {
    addPoint(came, outbox.range().last, came.length < MAX_POINTS ? 0 : Number.POSITIVE_INFINITY)
    schedule(trouble === null ? GATHER_MS : RETRY_MS)
  }

  return {
    note,
    shipped() {
      const until = outbox.range().last
      if (place !== null && place.after >= until) return Promise.resolve()
      return new Promise((resolve) => {
        waiters.push({ until, resolve })
        if (trouble === null) schedule(0)
      })
    },
    state: () => ({
      state: lagMs() === 0 ? 'ok' : isUnreachable ? 'unreachable' : lagMs() >= BEHIND_MS ? 'behind' : 'ok',
      waiting: toWaiting(),
      ...{ lagMs: Math.round(lagMs()), refused, trouble },
    }),
    start() {
      if (!isStopped) return
      isStopped = false
      tidyTimer = setInterval(tidy, TIDY_MS)
      tidyTimer.unref()
      note()
    },
    async stop(isSuccessors) {
      if (isStopped) return
      if (!isSuccessors && trouble === null) {
        const { promise, resolve } = Promise.withResolvers<void>()
        waiters.push({ until: outbox.range().last, resolve })
        schedule(0)
        await Promise.race([promise, Bun.sleep(STOP_MS)])
      }
      isStopped = true
      if (timer !== null) clearTimeout(timer)
      if (tidyTimer !== null) clearInterval(tidyTimer)
      timer = null
      await running
    },
  }
}

/** Retries while another process, such as retention, is writing. */
async function untilFree<T>(work: () => T): Promise<T> {
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof StoreRefusal) || error.reason !== 'busy') throw error
    }
    await Bun.sleep(BUSY_MS)
  }
}

/** True if PostgreSQL would reject the same rows again. */
const isOfData = (error: unknown) => error instanceof PostgresRefusal && /^2[23]/.test(error.sqlstate ?? '')
