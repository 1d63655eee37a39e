/**
 * What a start does with the past, before it listens: replays every spool segment, whoever wrote it, and gives up the
 * open rows of instances that are gone. Throws where the database refuses: a server must not begin on half a ledger.
 */
import type { Database } from 'bun:sqlite'
import { unlinkSync } from 'node:fs'
import type { Log } from '../log.ts'
import { createApplier } from './apply.ts'
import { listSegments, readSegment, type Spool } from './spool.ts'

const SLICE = 1_000

export interface Recovered {
  replayed: number
  abandoned: number
}

export function recover(writer: Database, spool: Spool, spoolFolder: string, instance: string, log: Log): Recovered {
  const applier = createApplier(writer, (record, error) => {
    log.error('a spooled ledger row does not fit the database; it is kept in the spool folder', {
      error: String(error),
    })
    spool.setAside(record)
  })
  const segments = listSegments(spoolFolder)
  let replayed = 0
  for (const path of segments) {
    const records = readSegment(path)
    for (let at = 0; at < records.length; at += SLICE) applier.commit(records.slice(at, at + SLICE))
    replayed += records.length
  }
  const abandoned = applier.abandonOthers(instance)
  if (segments.length > 0 && hasReachedTheFile(writer)) for (const path of segments) unlinkSync(path)
  return { replayed, abandoned }
}

/** A segment goes only after a checkpoint of the commits that replayed it. */
function hasReachedTheFile(writer: Database): boolean {
  const row = writer.query<{ busy: number }, []>('PRAGMA wal_checkpoint(TRUNCATE)').get()
  return row?.busy === 0
}
