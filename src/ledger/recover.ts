/**
 * Before listening, a start applies all segments of earlier runs (also in `spool/` of older versions) and abandons their open requests. Throws if the store
 * refuses: a server must not start with half a ledger. Servers that handed over and still finish requests keep their segments; see `other-journals.ts`.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import type { Log } from '../log.ts'
import type { Leases, LedgerStore } from '../store/ledger-store.ts'
import { isOf, listJournal, readSegment, setAside } from './journal-file.ts'

const SLICE = 1_000

export interface Recovered {
  replayed: number
  abandoned: number
  /** Applied segments that remain because no checkpoint covers them, for example on a full disk. */
  kept: string[]
}

export interface RecoverDeps {
  store: LedgerStore
  leases: Leases
  dataFolder: string
  /** The only instance on the data folder, besides `living`. */
  instance: string
  /** Servers that finish their requests. Their records are applied, and they keep their segments. */
  living?: readonly string[]
  nowMs: number
  log: Log
}

export async function recover(deps: RecoverDeps): Promise<Recovered> {
  const { store, leases, dataFolder, instance, living = [], nowMs } = deps
  // On a full disk, frees space for the replay: in the WAL, and in unused segments.
  await store.checkpoint()
  const segments: string[] = []
  let replayed = 0
  for (const path of listJournal(dataFolder)) {
    const isLiving = living.some((one) => isOf(path, one))
    const records = await applySegment(deps, path)
    replayed += isLiving ? 0 : records
    if (isLiving) continue
    if (records > 0) segments.push(path)
    else rmSync(path, { force: true })
  }
  // The lock, not a lease time, shows that an instance is alive.
  leases.begin(instance, { fromMs: nowMs, untilMs: Number.MAX_SAFE_INTEGER }, living)
  // A worker's server may have been killed before it did this.
  for (const one of living) leases.join(one, { fromMs: nowMs, untilMs: Number.MAX_SAFE_INTEGER })
  const abandoned = await store.abandonGone(nowMs)
  // Segments are removed only once the database file has their records.
  if (segments.length === 0 || !(await store.checkpoint())) return { replayed, abandoned, kept: segments }
  for (const path of segments) rmSync(path, { force: true })
  return { replayed, abandoned, kept: [] }
}

/** Returns its number of records. Throws a StoreRefusal. */
export async function applySegment(
  {
    store,
    dataFolder,
    instance,
    log,
  }: Pick<RecoverDeps, 'dataFolder' | 'instance' | 'log'> & {
    store: Pick<LedgerStore, 'apply'>
  },
  path: string,
): Promise<number> {
  const records = readIfThere(path)
  for (let at = 0; at < records.length; at += SLICE) {
    const rejected = await store.apply(records.slice(at, at + SLICE))
    for (const each of rejected) setAside(join(dataFolder, 'journal'), instance, each, log)
  }
  return records.length
}

/** A server may have deleted the file after applying it. */
function readIfThere(path: string) {
  try {
    return readSegment(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}
