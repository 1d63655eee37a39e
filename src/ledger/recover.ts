/**
 * Before listening, a start applies all segments that earlier runs left (also in `spool/` of older versions) and abandons their open requests. Throws if the
 * store refuses: a server must not start with half a ledger.
 */
import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../log.ts'
import type { Leases, LedgerStore } from '../store/ledger-store.ts'
import { listJournal, readSegment, setAside } from './journal-file.ts'

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
  /** The only instance on the data folder. */
  instance: string
  nowMs: number
  log: Log
}

export async function recover({ store, leases, dataFolder, instance, nowMs, log }: RecoverDeps): Promise<Recovered> {
  // On a full disk, frees space for the replay: in the WAL, and in unused segments.
  await store.checkpoint()
  const segments = listJournal(dataFolder).filter((path) => {
    const isUsed = readSegment(path).length > 0
    if (!isUsed) unlinkSync(path)
    return isUsed
  })
  let replayed = 0
  for (const path of segments) {
    const records = readSegment(path)
    for (let at = 0; at < records.length; at += SLICE) {
      const rejected = await store.apply(records.slice(at, at + SLICE))
      for (const each of rejected) setAside(join(dataFolder, 'journal'), instance, each, log)
    }
    replayed += records.length
  }
  // Its lock, not a lease time, shows that it is alive.
  leases.begin(instance, { fromMs: nowMs, untilMs: Number.MAX_SAFE_INTEGER }, true)
  const abandoned = await store.abandonGone(nowMs)
  // Segments are removed only once the database file has their records.
  if (segments.length === 0 || !(await store.checkpoint())) return { replayed, abandoned, kept: segments }
  for (const path of segments) unlinkSync(path)
  return { replayed, abandoned, kept: [] }
}
