/** Finds contradictions in the ledger: rows and rollup, requests and calls, and leftovers of earlier runs. Read-only, so it can run next to a server. */
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
import { isOf, JOURNALS, REJECTED, readSegment, SEGMENT } from './journal-file.ts'
import { readMark } from './mark.ts'

export type Finding =
  | ({ kind: 'difference'; hour_ms: number; fields: CellDifference[] } & AuditCell['place'])
  | ({ kind: 'day'; day_ms: number } & DayProblem)
  | ({ kind: 'calls'; hour_ms: number } & CallProblem)
  | ({ kind: 'open' } & OpenRows)
  | { kind: 'journal'; file: string; records: number }
  | { kind: 'rejected'; file: string }
  /** Requests counted by `ledger.mark` that no longer exist. */
  | { kind: 'missing'; requests: number }

export interface Audit {
  findings: Finding[]
  /** Start of the first compared hour. Retention removed earlier rows. */
  fromMs: number
  /** Totals since then: hours with any data, settled requests, and their cost. */
  hours: number
  requests: number
  costNanoUsd: number
}

/** Progress in hours. */
export type OnHour = (done: number, of: number) => void

/** Checks rows, calls, and rollup, but not open requests or the journal. */
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

/** Days with a wrong hour are skipped: they cannot match either. */
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
  // Read rows before instances: an instance that is still alive then was alive when the rows were read.
  const open = audit.open()
  const living = audit.living()
  for (const rows of open) if (!living.includes(rows.instance)) found.findings.push({ kind: 'open', ...rows })
  for (const segment of readWaiting(audit, dataFolder, living)) found.findings.push({ kind: 'journal', ...segment })
  for (const file of readRejected(dataFolder)) found.findings.push({ kind: 'rejected', file })
  return found
}

/** Recorded requests that are neither in the database nor in its journal files. Records that move during the count are counted twice, never missed. */
function countMissing(audit: LedgerAudit, dataFolder: string): number {
  const marked = readMark(dataFolder)
  if (marked === null) return 0
  const waiting = new Set<string>()
  for (const file of [...listFiles(dataFolder, SEGMENT), ...readRejected(dataFolder)])
    for (const id of requestsOf(join(dataFolder, file))) if (!audit.has(id)) waiting.add(id)
  return Math.max(0, marked - waiting.size - audit.count())
}

export const requestsOf = (path: string): string[] =>
  recordsOf(path).flatMap((record) => (record.kind === 'call' ? [] : [record.row.id]))

/** A segment, relative to the data folder, and its number of unapplied records. */
export interface WaitingSegment {
  file: string
  records: number
}

/**
 * Unapplied records in the journal, or in `spool/` of older versions.
 *
 * @param living running instances, whose segments are skipped: the server applies them.
 */
export function readWaiting(audit: LedgerAudit, dataFolder: string, living: readonly string[]): WaitingSegment[] {
  return listFiles(dataFolder, SEGMENT).flatMap((file) => {
    if (living.some((instance) => isOf(file, instance))) return []
    const records = audit.missing(recordsOf(join(dataFolder, file)))
    return records > 0 ? [{ file, records }] : []
  })
}

export interface Behind {
  waiting: number
  isServed: boolean
}

export const readBehind = (audit: LedgerAudit, dataFolder: string): Behind => ({
  waiting: readWaiting(audit, dataFolder, []).reduce((sum, { records }) => sum + records, 0),
  isServed: audit.living().length > 0,
})

const listFiles = (dataFolder: string, ending: string) =>
  JOURNALS.flatMap((folder) => filesIn(join(dataFolder, folder)).map((file) => `${folder}/${file}`)).filter((file) =>
    file.endsWith(ending),
  )

/** Files with records that the database rejected. */
export const readRejected = (dataFolder: string) => listFiles(dataFolder, REJECTED)

/** Empty if the server has just deleted the segment. */
export function recordsOf(path: string) {
  try {
    return readSegment(path)
  } catch {
    return []
  }
}
