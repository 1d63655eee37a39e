/**
 * Servers of the same data folder that handed over and finish their requests. The rule, at every moment:
 *
 * - The holder of `serve.lock` alone writes the database, opens requests, and enforces limits and budgets.
 * - A server takes its `<instance>.draining` lock before it releases `serve.lock`. From then on it only appends to its own journal segments.
 * - The holder of `serve.lock` follows these segments. Requests that are open in them count in its limits: at what they reserved, until they are settled.
 * - Once the other lock is free, by an exit or a kill, it applies the segments as a start does, abandons what is still open, and removes them.
 *
 * Records are idempotent and order-free, so a kill of either at any moment leaves an exact ledger.
 */
import { closeSync, fstatSync, openSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../log.ts'
import { isDraining, removeDrainingLocks } from '../store/data-folder.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { Leases, LedgerReader, LedgerStore, OpenRequest } from '../store/ledger-store.ts'
import { StoreRefusal } from '../store/refusal.ts'
import { isOf, listSegments } from './journal-file.ts'
import { applySegment } from './recover.ts'
import { readRecords } from './segment.ts'

const LOOK_MS = 100
const BATCH = 500

/** A request of a predecessor that has ended. */
export interface EndedRequest extends OpenRequest {
  costNanoUsd: number
}

export interface Predecessors {
  /** Open requests of servers that still run. */
  open(): OpenRequest[]
  /** While true, no row may be pruned: their journals would bring it back. */
  isAny(): boolean
  /** @param onEnded is called once for each request of `open()`. */
  follow(onEnded: (request: EndedRequest) => void): void
  /** Before the folder changes hands: the next holder of `serve.lock` follows them. */
  stop(): Promise<void>
  /** After `stop`. */
  resume(): void
}

export interface PredecessorsDeps {
  dataFolder: string
  /** Of this server. */
  instance: string
  /** Of servers that handed over and still run. */
  living: readonly string[]
  store: LedgerStore
  leases: Pick<Leases, 'renew'>
  reader: Pick<LedgerReader, 'counted' | 'openOf'>
  onCommit(): void
  /** Wall clock, ms. */
  now(): number
  log: Log
}

export function createPredecessors(deps: PredecessorsDeps): Predecessors {
  const { dataFolder, instance, store, leases, reader, onCommit, now, log } = deps
  const folder = join(dataFolder, 'journal')
  const living = new Set(deps.living)
  const open = new Map(reader.openOf(deps.living).map((request) => [request.id, request]))
  /** By segment: where the next record starts. */
  const places = new Map<string, number>()
  let onEnded: (request: EndedRequest) => void = () => {}
  let timer: Timer | null = null
  let looking: Promise<void> = Promise.resolve()

  const segmentsOf = (one: string) => listSegments(folder).filter((path) => isOf(path, one))

  const end = (id: string, costNanoUsd: number) => {
    const request = open.get(id)
    if (request === undefined) return
    open.delete(id)
    onEnded({ ...request, costNanoUsd })
  }

  /** What is torn or in the middle of a write is read once its server has ended. */
  const follow = async (path: string) => {
    const fd = openSync(path, 'r')
    const first = new Uint8Array(1)
    try {
      for (;;) {
        const at = places.get(path) ?? 0
        // The rest of the file is zeros.
        if (readSync(fd, first, 0, 1, at) === 0 || first[0] === 0) return
        const { records, next } = readRecords(fd, at, fstatSync(fd).size, BATCH)
        if (records.length === 0) return
        await store.apply(records)
        onCommit()
        places.set(path, next)
        for (const record of records) note(record)
        await new Promise(setImmediate)
      }
    } finally {
      closeSync(fd)
    }
  }

  const note = (record: LedgerRecord) => {
    if (record.kind === 'settle') end(record.row.id, record.row.costNanoUsd)
  }

  const adopt = async (one: string) => {
    const segments = segmentsOf(one)
    for (const path of segments) await applySegment({ store, dataFolder, instance, log }, path)
    leases.renew(one, now())
    const abandoned = await store.abandonGone(now())
    onCommit()
    if (!(await store.checkpoint())) return
    for (const path of segments) rmSync(path, { force: true })
    removeDrainingLocks(dataFolder)
    living.delete(one)
    for (const [id, request] of open) if (request.instance === one) end(id, reader.counted(id)?.nanoUsd ?? 0)
    if (abandoned > 0) log.warn('ledger_recovered', 'recovered the ledger of the previous server', { abandoned })
  }

  const look = async () => {
    for (const one of living) {
      // Asked first: what it wrote before it ended is there then.
      const hasEnded = !isDraining(dataFolder, one)
      if (hasEnded) await adopt(one)
      else for (const path of segmentsOf(one)) await follow(path)
    }
  }

  const schedule = () => {
    if (living.size > 0) timer = setTimeout(tick, LOOK_MS)
  }

  const tick = () => {
    looking = look()
      .catch((error: unknown) => {
        if (!(error instanceof StoreRefusal))
          log.error('journal_failed', 'cannot follow the journal of the previous server', { error: String(error) })
      })
      .then(() => {
        if (timer !== null) schedule()
      })
  }

  return {
    open: () => [...open.values()],
    isAny: () => living.size > 0,
    follow(listener) {
      onEnded = listener
      schedule()
    },
    resume: schedule,
    async stop() {
      if (timer !== null) clearTimeout(timer)
      timer = null
      await looking
    },
  }
}
