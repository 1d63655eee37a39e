/**
 * What a start does with the past, before it listens: applies every segment that others left, in the journal and in the
 * `spool/` of older versions, and gives up the open rows of instances that are gone. Throws where the store refuses: a server
 * must not begin on half a ledger.
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
  /** Segments that were applied and are still there, because no checkpoint covers them: the disk was full, say. */
  kept: string[]
}

export interface RecoverDeps {
  store: LedgerStore
  leases: Leases
  dataFolder: string
  /** Whoever starts it is alone with the data folder. */
  instance: string
  nowMs: number
  log: Log
}

export async function recover({ store, leases, dataFolder, instance, nowMs, log }: RecoverDeps): Promise<Recovered> {
  // On a full disk this is the room that the replay needs: in the database's log, and in segments that nobody used.
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
  // Whether it lives is told by the lock that it holds, and not by a time that it would have to write again and again.
  leases.begin(instance, { fromMs: nowMs, untilMs: Number.MAX_SAFE_INTEGER }, true)
  const abandoned = await store.abandonGone(nowMs)
  // A segment goes only once what it held has reached the database itself.
  if (segments.length === 0 || !(await store.checkpoint())) return { replayed, abandoned, kept: segments }
  for (const path of segments) unlinkSync(path)
  return { replayed, abandoned, kept: [] }
}
