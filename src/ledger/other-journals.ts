/**
 * Journals of other processes on this data folder: predecessors, which handed over and finish their requests, and workers. Rules at every moment:
 *
 * - Only the holder of `serve.lock`, the keeper, writes the database, and enforces limits and budgets.
 * - Other processes hold their `<instance>.draining` lock, and only append to their own journal segments. A server takes this lock before it releases
 *   `serve.lock`.
 * - The keeper follows these segments. A predecessor's open requests count in its limits at their reservation, until they are settled. Requests of workers are
 *   in its limits anyway, except in budgets that were added since.
 * - A running worker releases its segments once the keeper's database has their records.
 * - Once the `.draining` lock is free, by an exit or a kill, the keeper applies the segments as at a start, abandons open requests, and removes the segments.
 *
 * Records are idempotent and order-free, so a kill of any process at any moment leaves an exact ledger.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Link } from '../domain/link.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import { isDraining, removeDrainingLock } from '../store/data-folder.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { Leases, LedgerReader, LedgerStore, OpenRequest, Span } from '../store/ledger-store.ts'
import type { FlushResult } from './applier.ts'
import { BATCH, Batches } from './applying.ts'
import { type Extent, FollowedJournal, type Part } from './followed.ts'
import { setAside } from './journal-file.ts'
import type { Share } from './sharing.ts'
import { isGrowth, toUnapplied } from './unapplied.ts'
import { APPLIED, COVER, FLUSH, RELEASE, REMOVED, SHARE, TELL, WRITTEN } from './worker-applier.ts'

const LOOK_MS = 100
const FLUSH_MS = 2_000
/** How long a flush waits for a worker that may hang. */
const TOLD_MS = 500
/** How long retention waits for a worker. */
const RELEASE_MS = 5_000
/** With more records, the files are read for each budget, instead of once. */
const MAX_IN_MEMORY = 20_000

/** A request of another process that has ended. */
export interface EndedRequest extends Pick<OpenRequest, 'id' | 'keyId' | 'teamId'> {
  costNanoUsd: number
}

export interface OtherJournals {
  /** Requests of predecessors that were open at the start. */
  open(): OpenRequest[]
  hasPredecessors(): boolean
  /** @param onEnded called once a request of another process is settled or abandoned; more than once after damage. */
  follow(onEnded: (request: EndedRequest) => void): void
  /**
   * Adds a worker that holds its `.draining` lock. The worker may write from now on.
   *
   * @param onGone called once it has ended and all its rows are final: `reader.counted` has the cost of each request.
   */
  add(instance: string, link: Link, on: Pick<Other, 'onEnded' | 'onGone'>): void
  /** Applies written records, for up to 2 s. */
  flush(): Promise<FlushResult>
  /** Call after all workers have ended. Resolves once their journals are applied and removed, or after 2 s. */
  settled(): Promise<void>
  /** Records of workers that the database does not have yet, and the age of the oldest, ms. */
  backlog(): { records: number; ms: number }
  /** For records of workers. See `OwnLedger.unapplied`. */
  unapplied(spender: Spender, span: Span, underWay?: Map<string, number>): number
  /** Makes workers release segments that are in the database. See `Journal.release`. */
  release(beforeMs: number): Promise<void>
  /** See `Journal.oldestMs`. */
  oldestMs(): number
  /** Call before a handover of the folder: the next holder of `serve.lock` follows the journals. */
  stop(): Promise<void>
  /** Continues after `stop`. */
  resume(): void
}

export interface OtherJournalsDeps {
  dataFolder: string
  /** ID of this server's run. */
  instance: string
  /** IDs of processes that run at the start. */
  living: readonly string[]
  store: LedgerStore
  leases: Pick<Leases, 'join' | 'renew'>
  reader: Pick<LedgerReader, 'counted' | 'openOf'>
  /** Counts requests of workers. */
  mark: { add(requests: number): void }
  onCommit(): void
  onApplied?(ms: number): void
  /** Set on a cluster node. */
  share?: Share | null
  /** Wall clock, ms. */
  now(): number
  log: Log
}

interface Other {
  journal: FollowedJournal
  /** The callback of `follow`; may be called earlier. */
  onEnded(request: EndedRequest): void
  onGone(): void
}

export function createOtherJournals(deps: OtherJournalsDeps): OtherJournals {
  const { dataFolder, instance, store, leases, reader, mark, onCommit, now, log } = deps
  const others = new Set<Other>()
  for (const one of deps.living)
    others.add({ journal: new FollowedJournal(one, null, dataFolder, log), onEnded() {}, onGone() {} })
  const open = new Map(reader.openOf(deps.living).map((request) => [request.id, request]))
  const batches = new Batches({
    ...{ store, log, onCommit },
    ...(deps.onApplied && { onApplied: deps.onApplied }),
    setAside: (rejected) => setAside(join(dataFolder, 'journal'), instance, rejected, log),
  })
  let onEnded: (request: EndedRequest) => void = () => {}
  let timer: Timer | null = null
  let running: Promise<boolean> | null = null
  let isStopped = true
  /** Waiting for records that must be applied at once. */
  let waiters: { isReached(): boolean; resolve(): void }[] = []
  /** Unapplied records, in this event loop turn. */
  let unapplied: LedgerRecord[] | null = null

  const workers = () => [...others].filter(({ journal }) => journal.link !== null)
  const predecessors = () => [...others].filter(({ journal }) => journal.link === null)
  /** Without a link, only its lock shows that a process is running, and only its files show its records. */
  const mayHaveEnded = ({ journal }: Other) => journal.link === null || journal.isLinkLost
  const sumOf = (count: (journal: FollowedJournal) => number) =>
    [...others].reduce((sum, { journal }) => sum + count(journal), 0)

  const end = (other: Other, request: EndedRequest) => {
    open.delete(request.id)
    other.onEnded(request)
    onEnded(request)
  }

  /** One batch for all processes, so that many workers take no more transactions than one. False if nothing is pending. */
  const applyBatch = async (some: readonly { other: Other; extent: Extent }[]): Promise<boolean> => {
    const share = Math.ceil(batches.limit / some.length)
    const parts: { other: Other; part: Part; opened: number }[] = []
    for (const { other, extent } of some) {
      const part = other.journal.take(share, extent)
      if (part !== null)
        parts.push({ other, part, opened: part.opened + countOpened(other.journal, part.records, extent) })
    }
    if (parts.length === 0) return false
    const records = parts.flatMap(({ part }) => part.records)
    // If an outcome is rejected, its opening record is still applied.
    if (records.length > 0 && !(await batches.apply(records)))
      await batches.apply(parts.flatMap(({ part }) => part.opens()))
    for (const { other, part, opened } of parts) {
      const { journal } = other
      part.done()
      if (opened > 0) mark.add(opened)
      if (!journal.isLinkLost) journal.link?.tell(APPLIED, journal.applied())
    }
    const reached = waiters.filter((waiter) => waiter.isReached())
    if (reached.length > 0) waiters = waiters.filter((waiter) => !reached.includes(waiter))
    for (const { resolve } of reached) resolve()
    for (const { other, part } of parts)
      for (const record of part.records)
        if (record.kind === 'settle') {
          const { id, keyId, teamId, costNanoUsd } = record.row
          end(other, { id, keyId, teamId, costNanoUsd })
        }
    await new Promise(setImmediate)
    return true
  }

  /** Counts requests that the mark lacks. */
  const countOpened = ({ link }: FollowedJournal, records: readonly LedgerRecord[], extent: Extent): number => {
    // A start counts requests of predecessors.
    if (link === null) return 0
    const opened = records.filter((record) => record.kind === 'open' && !isGrowth(record))
    // If a worker is killed while emptying a segment for reuse, the segment has records that are already applied.
    if (extent !== 'all') return opened.length
    return opened.filter((record) => record.kind === 'open' && reader.counted(record.row.id) === null).length
  }

  const follow = async () => {
    const living = [...others].flatMap((other) => {
      const extent: Extent = mayHaveEnded(other) ? 'written' : 'told'
      return other.journal.isFinal ? [] : { other, extent }
    })
    for (const { other } of living) secure(other.journal)
    while (!isStopped && living.length > 0 && (await applyBatch(living)));
  }

  /** Takes a lease before the process has rows that another process's recovery could abandon. */
  const secure = (journal: FollowedJournal) => {
    if (!journal.isLeased) leases.join(journal.instance, { fromMs: now(), untilMs: Number.MAX_SAFE_INTEGER })
    journal.isLeased = true
  }

  /** Rows are final before this returns. The segments are removed by the first call with a checkpoint. */
  const adopt = async (other: Other) => {
    const { journal, onGone } = other
    if (!journal.isFinal) {
      journal.rereadSkipped()
      while (!isStopped && (await applyBatch([{ other, extent: 'all' }])));
      if (isStopped) return
      leases.renew(journal.instance, now())
      const left = reader.openOf([journal.instance])
      const abandoned = await store.abandonGone(now())
      onCommit()
      journal.isFinal = true
      for (const request of left) end(other, { ...request, costNanoUsd: reader.counted(request.id)?.nanoUsd ?? 0 })
      const whose = journal.link === null ? 'the previous server' : 'a worker process'
      if (abandoned > 0) log.warn('ledger_recovered', `recovered the ledger of ${whose}`, { abandoned })
      onGone()
    }
    if (isStopped || !(await store.checkpoint())) return
    for (const path of journal.paths) rmSync(path, { force: true })
    removeDrainingLock(dataFolder, journal.instance)
    journal.close()
    others.delete(other)
  }

  const look = async () => {
    // Check this first: then all records written before their end are in the files.
    const ended = [...others].filter((other) => mayHaveEnded(other) && !isDraining(dataFolder, other.journal.instance))
    await follow()
    for (const other of ended) await adopt(other)
  }

  /** Resolves false if the store refuses. */
  const run = (): Promise<boolean> => {
    if (timer !== null) clearTimeout(timer)
    timer = null
    running ??= look()
      .then(
        () => {
          batches.caughtUp()
          return true
        },
        (error: unknown) => {
          batches.refused(error)
          return false
        },
      )
      .finally(() => {
        running = null
        if (!batches.isRefused && waiters.length > 0) schedule(0)
        else if (batches.isRefused || [...others].some(mayHaveEnded) || sumOf(({ waiting }) => waiting) > 0) schedule()
      })
    return running
  }

  const schedule = (ms = LOOK_MS) => {
    if (isStopped || others.size === 0) return
    if (ms === 0 && timer !== null) clearTimeout(timer)
    if (ms === 0 || timer === null) timer = setTimeout(run, ms)
  }

  /** Applies a worker's reported records without delay. Returns at once if the successor applies them. */
  const applied = async (journal: FollowedJournal): Promise<void> => {
    const isReached = journal.reach()
    if (isStopped || isReached()) return
    await new Promise<void>((resolve) => {
      waiters.push({ isReached, resolve })
      schedule(0)
    })
  }

  const flush = async (): Promise<FlushResult> => {
    const before = sumOf(({ waiting }) => waiting)
    const endMs = performance.now() + FLUSH_MS
    // The current run may have passed newly written records already.
    await running
    while (!isStopped && others.size > 0 && performance.now() < endMs) {
      if ((await run()) && sumOf(({ waiting }) => waiting) === 0) break
      await Bun.sleep(10)
    }
    const waiting = sumOf((journal) => journal.waiting)
    return { applied: Math.max(0, before - waiting), waiting }
  }

  const resume = () => {
    isStopped = false
    schedule()
  }

  return {
    open: () => [...open.values()],
    hasPredecessors: () => predecessors().length > 0,
    follow(listener) {
      onEnded = listener
      resume()
    },
    add(worker, link, on) {
      const journal = new FollowedJournal(worker, link, dataFolder, log)
      others.add({ journal, ...on })
      link.on(WRITTEN, (places) => {
        journal.told(places, performance.now())
        schedule(journal.waiting < BATCH ? LOOK_MS : 0)
      })
      link.on(REMOVED, (names) => journal.removed(names))
      link.on(FLUSH, async (places) => {
        journal.told(places, performance.now())
        await flush()
        return null
      })
      link.on(SHARE, async ({ places, requestIds }) => {
        journal.told(places, performance.now())
        await applied(journal)
        return (await deps.share?.(requestIds)) ?? false
      })
      link.on(COVER, async () => !isStopped && (await store.checkpoint()))
      void link.ended.then(() => {
        journal.isLinkLost = true
        schedule(0)
      })
    },
    async flush() {
      const told = workers().map(({ journal }) => journal.link?.ask(TELL, null).catch(() => null))
      await Promise.race([Promise.all(told), Bun.sleep(TOLD_MS)])
      return flush()
    },
    async settled() {
      for (const endMs = performance.now() + FLUSH_MS; performance.now() < endMs; await Bun.sleep(10)) {
        if (isStopped || workers().length === 0) return
        await run()
      }
    },
    backlog: () => ({
      records: sumOf(({ waiting }) => waiting),
      ms: Math.max(0, ...[...others].map(({ journal }) => journal.waitsMs(performance.now()))),
    }),
    unapplied(spender, span, underWay) {
      const journals = workers().map(({ journal }) => journal)
      if (journals.length === 0) return 0
      const isMuch = sumOf(({ waiting }) => waiting) > MAX_IN_MEMORY
      if (unapplied === null && !isMuch) {
        unapplied = journals.flatMap((journal) => [...journal.unapplied()])
        setImmediate(() => {
          unapplied = null
        })
      }
      const sum = (records: Iterable<LedgerRecord>) =>
        toUnapplied(records, reader.counted, spender, span, underWay, true)
      if (unapplied !== null) return sum(unapplied)
      return journals.reduce((all, journal) => all + sum(journal.unapplied()), 0)
    },
    async release(beforeMs) {
      const old = workers().filter(({ journal }) => !journal.isLinkLost && journal.oldestMs < beforeMs)
      const asked = old.map(({ journal }) => journal.link?.ask(RELEASE, beforeMs).catch(() => null))
      await Promise.race([Promise.all(asked), Bun.sleep(RELEASE_MS)])
    },
    // Records of predecessors may have been applied before this process read them.
    oldestMs: () => (predecessors().length > 0 ? 0 : Math.min(...[...others].map(({ journal }) => journal.oldestMs))),
    async stop() {
      isStopped = true
      if (timer !== null) clearTimeout(timer)
      timer = null
      await running
      for (const { resolve } of waiters.splice(0)) resolve()
    },
    resume,
  }
}
