/**
 * What a start does with the past, before it listens: applies every segment that others left, in the journal and in the
 * `spool/` of older versions, and gives up the open rows of instances that are gone. Throws where the store refuses: a server
 * must not begin on half a ledger.
 */
import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../log.ts'
import type { LedgerStore } from '../store/ledger-store.ts'
import { listSegments, readSegment, setAside } from './journal-file.ts'

const SLICE = 1_000

export interface Recovered {
  replayed: number
  abandoned: number
  /** Segments that were applied and are still there, because no checkpoint covers them: the disk was full, say. */
  kept: string[]
}

export interface RecoverDeps {
  store: LedgerStore
  dataFolder: string
  instance: string
  log: Log
}

export async function recover({ store, dataFolder, instance, log }: RecoverDeps): Promise<Recovered> {
  // On a full disk this is the room that the replay needs: in the database's log, and in segments that nobody used.
  await store.checkpoint()
  const segments = ['journal', 'spool']
    .flatMap((folder) => listSegments(join(dataFolder, folder)))
    .filter((path) => {
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
  const abandoned = await store.abandonOthers(instance)
  // A segment goes only once what it held has reached the database itself.
  if (segments.length === 0 || !(await store.checkpoint())) return { replayed, abandoned, kept: segments }
  for (const path of segments) unlinkSync(path)
  return { replayed, abandoned, kept: [] }
}
