/**
 * Before a report: has the running server apply what its journal holds, and tells how many ledger records the database does
 * not have all the same. Without a server it applies nothing: the next one does. Used by the commands that read the ledger.
 */
import type { Database } from 'bun:sqlite'
import { flushLedger } from './live.ts'

export interface Behind {
  waiting: number
  /** Whether a server runs, which will apply them. */
  isServed: boolean
}

export async function catchUp(sqlite: Database, dataFolder: string): Promise<Behind> {
  const flushed = await flushLedger(dataFolder)
  if (flushed) return { waiting: flushed.waiting, isServed: true }
  const { createLedgerAudit } = await import('../store/sqlite/ledger-audit.ts')
  const { readWaiting } = await import('../ledger/audit.ts')
  const audit = createLedgerAudit(sqlite, dataFolder)
  const waiting = readWaiting(audit, dataFolder, null).reduce((sum, { records }) => sum + records, 0)
  return { waiting, isServed: audit.living() !== null }
}

/** A line for whoever reads the report; null where nothing waits. */
export function toBehindNote({ waiting, isServed }: Behind): string | null {
  if (waiting === 0) return null
  const what = waiting === 1 ? '1 ledger record waits' : `${waiting} ledger records wait`
  return `note: ${what} in the journal; ${isServed ? 'the running server' : 'the next start of the server'} applies ${waiting === 1 ? 'it' : 'them'}.\n`
}
