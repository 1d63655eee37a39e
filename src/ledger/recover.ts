/**
 * What a start does with the past, before it listens: replays every spool segment, whoever wrote it, and gives up the
 * open rows of instances that are gone. Throws where the database refuses: a server must not begin on half a ledger.
 */
import type { Database } from 'bun:sqlite'
import { unlinkSync } from 'node:fs'
import type { Log } from '../log.ts'
import { createApplier, isRefusal } from './apply.ts'
import { listSegments, readSegment } from './segment.ts'
import type { Spool } from './spool.ts'

const SLICE = 1_000

export interface Recovered {
  replayed: number
  abandoned: number
}

export function recover(writer: Database, spool: Spool, spoolFolder: string, instance: string, log: Log): Recovered {
  const applier = createApplier(writer, (record, error) => {
    log.error('ledger_row_rejected', 'a spooled ledger row does not fit the database; it is kept in the spool folder', {
      error: String(error),
    })
    spool.setAside(record)
  })
  // On a full disk this is the room that the replay needs: in the WAL, and in segments that a killed server never used.
  moveToFile(writer, 'PASSIVE')
  const segments = listSegments(spoolFolder).filter((path) => {
    const isUsed = readSegment(path).length > 0
    if (!isUsed) unlinkSync(path)
    return isUsed
  })
  let replayed = 0
  for (const path of segments) {
    const records = readSegment(path)
    for (let at = 0; at < records.length; at += SLICE) applier.commit(records.slice(at, at + SLICE))
    replayed += records.length
  }
  const abandoned = applier.abandonOthers(instance)
  if (segments.length > 0 && moveToFile(writer, 'TRUNCATE')) for (const path of segments) unlinkSync(path)
  return { replayed, abandoned }
}

/** Tells whether every commit has reached the database file: a segment goes only after those that replayed it have. */
function moveToFile(writer: Database, mode: 'PASSIVE' | 'TRUNCATE'): boolean {
  try {
    return writer.query<{ busy: number }, []>(`PRAGMA wal_checkpoint(${mode})`).get()?.busy === 0
  } catch (error) {
    if (isRefusal(error)) return false
    throw error
  }
}
