/**
 * Says where the ledger contradicts itself: rows and rollup, requests and their calls, and what a start has not cleaned up.
 * Only reads, so it runs beside a live server. `cli/audit.ts` calls it.
 */
import { join } from 'node:path'
import { dayOf } from '../domain/time.ts'
import { filesIn } from '../store/files.ts'
import type {
  AuditCell,
  CallProblem,
  CellDifference,
  DayProblem,
  LedgerAudit,
  OpenRows,
} from '../store/ledger-store.ts'
import { JOURNALS, REJECTED, readSegment, SEGMENT } from './journal-file.ts'
import { readMark } from './mark.ts'

export type Finding =
  | ({ kind: 'difference'; hour_ms: number; fields: CellDifference[] } & AuditCell['place'])
  | ({ kind: 'day'; day_ms: number } & DayProblem)
  | ({ kind: 'calls'; hour_ms: number } & CallProblem)
  | ({ kind: 'open' } & OpenRows)
  | { kind: 'journal'; file: string; records: number }
  | { kind: 'rejected'; file: string }
  /** Requests that `ledger.mark` counts and nothing holds. */
  | { kind: 'missing'; requests: number }

export interface Audit {
  findings: Finding[]
  /** Of the hours before this one, which begins here, retention has taken rows away: nothing is compared there. */
  fromMs: number
  /** Hours since then that have anything, settled requests in them, and what they cost. */
  hours: number
  requests: number
  costNanoUsd: number
}

/** Hears how many hours were looked at, and of how many. */
export type OnHour = (done: number, of: number) => void

/** Looks at rows, calls and rollup alone: what is open and what waits elsewhere may be as it likes. */
export function auditRows(audit: LedgerAudit, onHour: OnHour = () => {}): Audit {
  const found: Audit = { findings: [], fromMs: audit.fromMs(), hours: 0, requests: 0, costNanoUsd: 0 }
  const hours = audit.hours()
  for (const [at, hour] of hours.entries()) {
    if (hour >= found.fromMs) found.hours++
    for (const { place, orphan, requests, costNanoUsd, differences } of audit.cells(hour)) {
      found.requests += requests
      found.costNanoUsd += costNanoUsd
      if (differences.length === 0 && !orphan) continue
      found.findings.push({ kind: 'difference', hour_ms: hour, ...place, fields: differences })
    }
    for (const problem of audit.callProblems(hour)) found.findings.push({ kind: 'calls', hour_ms: hour, ...problem })
    onHour(at + 1, hours.length)
  }
  found.findings.push(...auditDays(audit, hours, found.findings))
  return found
}

/** What its hours do not agree on, a day cannot. */
function auditDays(audit: LedgerAudit, hours: readonly number[], findings: readonly Finding[]): Finding[] {
  const wrong = new Set(findings.flatMap((finding) => (finding.kind === 'difference' ? [dayOf(finding.hour_ms)] : [])))
  const days = new Set([...hours.map(dayOf), ...audit.days()]).difference(wrong)
  return [...days]
    .sort((a, b) => a - b)
    .flatMap((day_ms) => audit.dayProblems(day_ms).map((problem): Finding => ({ kind: 'day', day_ms, ...problem })))
}

export function auditLedger(audit: LedgerAudit, dataFolder: string, onHour?: OnHour): Audit {
  const found = auditRows(audit, onHour)
  const missing = countMissing(audit, dataFolder)
  if (missing > 0) found.findings.push({ kind: 'missing', requests: missing })
  // Rows first: an instance that is alive after they were read was alive when it was said to hold them.
  const open = audit.open()
  const living = audit.living()
  for (const rows of open) if (rows.instance !== living) found.findings.push({ kind: 'open', ...rows })
  for (const segment of readWaiting(audit, dataFolder, living)) found.findings.push({ kind: 'journal', ...segment })
  for (const file of readRejected(dataFolder)) found.findings.push({ kind: 'rejected', file })
  return found
}

/**
 * How many requests were on record and are neither in the database nor in a file that waits for it. What is on its way from the
 * one to the other while this looks is counted twice, never missed.
 */
function countMissing(audit: LedgerAudit, dataFolder: string): number {
  const marked = readMark(dataFolder)
  if (marked === null) return 0
  const waiting = new Set<string>()
  for (const file of [...listFiles(dataFolder, SEGMENT), ...readRejected(dataFolder)])
    for (const id of requestsOf(join(dataFolder, file))) if (!audit.has(id)) waiting.add(id)
  return Math.max(0, marked - waiting.size - audit.count())
}

/** The ids of the requests that a file of the journal has a row of. */
export const requestsOf = (path: string): string[] =>
  recordsOf(path).flatMap((record) => (record.kind === 'call' ? [] : [record.row.id]))

/** A segment, relative to the data folder, with those of its records that the database does not have yet. */
export interface WaitingSegment {
  file: string
  records: number
}

/**
 * What the journal, or the `spool/` of an older version, holds and the database does not.
 *
 * @param living its segments are left out: it sees to them.
 */
export function readWaiting(audit: LedgerAudit, dataFolder: string, living: string | null): WaitingSegment[] {
  return listFiles(dataFolder, SEGMENT).flatMap((file) => {
    if (living !== null && file.includes(`/${living}-`)) return []
    const records = audit.missing(recordsOf(join(dataFolder, file)))
    return records > 0 ? [{ file, records }] : []
  })
}

/** Ledger records that the database does not have yet, and whether a server runs that will apply them. */
export interface Behind {
  waiting: number
  isServed: boolean
}

export const readBehind = (audit: LedgerAudit, dataFolder: string): Behind => ({
  waiting: readWaiting(audit, dataFolder, null).reduce((sum, { records }) => sum + records, 0),
  isServed: audit.living() !== null,
})

const listFiles = (dataFolder: string, ending: string) =>
  JOURNALS.flatMap((folder) => filesIn(join(dataFolder, folder)).map((file) => `${folder}/${file}`)).filter((file) =>
    file.endsWith(ending),
  )

/** Files that keep records which no database took. */
export const readRejected = (dataFolder: string) => listFiles(dataFolder, REJECTED)

/** None where the server has just deleted the segment. */
export function recordsOf(path: string) {
  try {
    return readSegment(path)
  } catch {
    return []
  }
}
