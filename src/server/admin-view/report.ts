/** Answers one question of the admin API from the database, read-only, and blocks its thread. */

import type { WantedPage } from '../../admin/deps.ts'
import { toAuditPageDocument } from '../../documents/audit.ts'
import { toChargeDocument, toNames, toRequestPageDocument, toRequestsCsv } from '../../documents/request.ts'
import { toFailuresDocument, toRefusalsDocument, toUsageDocument } from '../../documents/usage.ts'
import { toDefined } from '../../domain/changes.ts'
import { ServiceError, type ServiceFailure } from '../../domain/service-error.ts'
import { type AuditOptions, listAudit } from '../../keys/audit-log.ts'
import { readSpent, type Spent } from '../../keys/spend-status.ts'
import { readCharge } from '../../ledger/charge.ts'
import { type FailuresOptions, reportFailures } from '../../ledger/failures.ts'
import { type RefusalOptions, reportRefusals } from '../../ledger/refusal-report.ts'
import { toOwnFilter, toOwnRows, toRequestFilter } from '../../ledger/report-filter.ts'
import { findRequest, listRequests } from '../../ledger/requests.ts'
import { reportUsage, type UsageOptions } from '../../ledger/usage.ts'
import type { Configuration, KeyRows } from '../../store/config-store.ts'
import { openStore, toStoreUrl } from '../../store/open.ts'
import type { ReportReaders } from '../../store/report-store.ts'
import type { Store } from '../../store/store.ts'

export type Question =
  | { kind: 'spendStatuses'; of: 'key' | 'team'; id: string | undefined }
  | { kind: 'usage'; options: UsageOptions }
  | { kind: 'failures'; options: FailuresOptions }
  | { kind: 'refusals'; options: RefusalOptions }
  | { kind: 'requests'; wanted: WantedPage }
  | { kind: 'csv'; wanted: WantedPage }
  | { kind: 'request'; id: string }
  | { kind: 'audit'; options: AuditOptions }

export interface ReportRequest {
  dataFolder: string
  question: Question
  ownerId?: string
  nowMs: number
  /** Ledger records not yet in the database. */
  waiting: number
  /** The ledger of all nodes. */
  shared?: { url: string; timeoutMs: number }
  /** Limit of requests scanned for a page or a partial ID; unlimited by default, for commands. */
  looks?: number
}

export type ReportReply =
  | { kind: 'spent'; spent: Spent }
  | { kind: 'document'; json: string }
  | { kind: 'csv'; text: string; rows: number; next: string | null }
  | { kind: 'refused'; failure: ServiceFailure; message: string }
  | { kind: 'failed'; error: string }

/** Never throws. */
export async function report(request: ReportRequest): Promise<ReportReply> {
  try {
    return await answer(request)
  } catch (error) {
    if (error instanceof ServiceError) return { kind: 'refused', failure: error.failure, message: error.message }
    return { kind: 'failed', error: String(error) }
  }
}

const clock = performance.now.bind(performance)

let known: { store: string; rows: Configuration } | null = null

/** All configuration rows, cached by revision: with a thousand keys, reading them takes as long as a report. */
async function readRows(opened: Store): Promise<Configuration> {
  // Another store may have the same revision.
  const store = opened.identify()
  if (known?.store === store && known.rows.revision === (await opened.config.readRevision())) return known.rows
  const rows = await opened.config.read()
  known = { store, rows }
  return rows
}

async function answer(request: ReportRequest): Promise<ReportReply> {
  const { dataFolder, question, ownerId, nowMs, waiting, looks } = request
  // Closed before the response: an open connection would keep reading a database that a restore has replaced.
  const opened = openStore(toStoreUrl(dataFolder), { readonly: true, isLook: true })
  const { config: store } = opened
  try {
    const reports = await toReaders(opened, request)
    const limited = <Rows extends KeyRows>(rows: Rows) => (ownerId === undefined ? rows : toOwnRows(rows, ownerId))
    const toFilter = (rows: KeyRows) => (ownerId === undefined ? {} : toOwnFilter(rows))
    switch (question.kind) {
      case 'spendStatuses':
        return { kind: 'spent', spent: await readSpent(reports.spend, question.of, nowMs, question.id) }
      case 'usage': {
        const rows = limited(await readRows(opened))
        const options = { ...question.options, where: { ...question.options.where, ...toFilter(rows) } }
        const found = await reportUsage(reports.usage, rows, options, { nowMs, clock })
        return toDocument(toUsageDocument(found, options.by, waiting, options.figures))
      }
      case 'failures': {
        const rows = limited(await readRows(opened))
        const options = { ...question.options, where: { ...question.options.where, ...toFilter(rows) } }
        const found = await reportFailures(reports.failures, rows, options, { nowMs, clock })
        return toDocument(toFailuresDocument(found, waiting))
      }
      case 'refusals': {
        const rows = limited(await readRows(opened))
        const options = { ...question.options, where: { ...question.options.where, ...toFilter(rows) } }
        const found = await reportRefusals(reports.refusals, rows, options, { nowMs, clock })
        return toDocument(toRefusalsDocument(found, options.by))
      }
      case 'requests':
      case 'csv': {
        const { limit, before, sinceMs, untilMs, ...wanted } = question.wanted
        const rows = limited(await readRows(opened))
        const filter = { ...toRequestFilter(wanted, rows, nowMs), ...toFilter(rows) }
        const options = { ...filter, limit, ...toDefined({ before, sinceMs, untilMs }) }
        const page = await listRequests(reports.requests, options, looks)
        const names = toNames(rows)
        if (question.kind === 'requests') return toDocument(toRequestPageDocument(page, names))
        const text = toRequestsCsv(page, names)
        return { kind: 'csv', text, rows: page.requests.length, next: page.next }
      }
      case 'request': {
        const reader = reports.requests
        const rows = limited(await readRows(opened))
        const ownKeys = ownerId === undefined ? undefined : toOwnFilter(rows).ownKeys
        const found = await findRequest(reader, question.id, looks, ownKeys)
        return toDocument(toChargeDocument(await readCharge(reader, found), toNames(rows)))
      }
      case 'audit': {
        const page = await listAudit({ store, identity: opened.identity }, question.options)
        return toDocument(toAuditPageDocument(page))
      }
    }
  } finally {
    opened.close()
  }
}

async function toReaders({ reports }: Store, { shared }: ReportRequest): Promise<ReportReaders> {
  if (shared === undefined) return reports
  return (await import('../../store/postgres/report-ledger.ts')).openReportLedger(shared, reports)
}

const toDocument = (document: unknown): ReportReply => ({ kind: 'document', json: JSON.stringify(document) })
