/**
 * What lies in the folder of a journal: segments of any instance, and records that no store takes. `recover.ts`, `audit.ts` and
 * `doctor` read what others left. The `spool/` of versions before the journal holds the same lines.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../log.ts'
import { filesIn } from '../store/disk.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { Rejected } from '../store/ledger-store.ts'
import { fromLine, toRecordLine } from './line.ts'

/** Endings of a segment, and of the file that keeps records which no store takes. */
export const SEGMENT = '.log'
export const REJECTED = '.rejected'

/** Keeps a record that no store takes where an administrator finds it. Throws what the disk says. */
export function setAside(folder: string, instance: string, { record, error }: Rejected, log: Log): void {
  log.error('ledger_row_rejected', 'a ledger row does not fit the database; it is kept in the journal folder', {
    error: String(error),
  })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  appendFileSync(join(folder, `${instance}${REJECTED}`), toRecordLine(record), { mode: 0o600, flush: true })
}

/** Path of every segment in the folder, of whatever instance. Their order does not matter: records are order-free. */
export function listSegments(folder: string): string[] {
  return filesIn(folder)
    .filter((name) => name.endsWith(SEGMENT))
    .map((name) => join(folder, name))
}

/** Reads the records of a segment. Torn or damaged lines are passed over, as are the zeros after the last one. */
export function readSegment(path: string): LedgerRecord[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => fromLine(line) ?? [])
}
