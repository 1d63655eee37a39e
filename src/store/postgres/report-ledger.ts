/** The ledger of all nodes, for reports on a thread or in a command. */
import { ServiceError } from '../../domain/service-error.ts'
import type { Log } from '../../log.ts'
import { type ReportReaders, toUnreadable } from '../report-store.ts'
import { openPostgres, type Postgres, PostgresRefusal } from './client.ts'
import { createReaders } from './readers.ts'

/** No log: callers get the errors. */
const NO_LOG: Log = { info() {}, warn() {}, error() {}, flush: async () => {} }

/** Connections stay open from report to report. */
let open: { url: string; postgres: Postgres } | null = null

interface ReportLedger {
  /** URL of PostgreSQL. */
  url: string
  /** Timeout of a statement. */
  timeoutMs: number
}

/** Its readers throw a ServiceError. */
export function openReportLedger({ url, timeoutMs }: ReportLedger, own: ReportReaders): ReportReaders {
  if (open?.url !== url) {
    void open?.postgres.close()
    open = { url, postgres: openPostgres({ url, log: NO_LOG }) }
  }
  const { postgres } = open
  const query: Postgres['query'] = async (text, values) => {
    const ask = () => postgres.query<never>(text, values, { timeoutMs })
    const isUnreachable = (error: unknown) => error instanceof PostgresRefusal && error.kind === 'unreachable'
    try {
      // Another server may have taken over since the last report.
      return await ask().catch((error) => (isUnreachable(error) ? ask() : Promise.reject(error)))
    } catch (error) {
      throw error instanceof PostgresRefusal ? toReportError(error, timeoutMs) : error
    }
  }
  return createReaders({ query }, own)
}

const CANCELED = '57014'

function toReportError({ kind, sqlstate, message }: PostgresRefusal, timeoutMs: number): Error {
  if (kind === 'failed') return new Error(`PostgreSQL refused a report: ${message}`)
  if (sqlstate !== CANCELED) return toUnreadable(message)
  return new ServiceError({ kind: 'report_too_long' }, `The report took longer than ${timeoutMs / 1_000} s.`)
}
