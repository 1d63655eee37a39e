/** Reports for commands in their own process: in a cluster, from the ledger of all nodes. */
import { readNodeId } from '../cluster/nodes.ts'
import { findClusterUrl } from '../cluster/url.ts'
import type { ReportReaders } from '../store/report-store.ts'
import type { Store } from '../store/store.ts'
import type { Context } from './io.ts'

/** Per statement. */
const TIMEOUT_MS = 60_000

export async function sharedReports(io: Context, { reports }: Store): Promise<ReportReaders> {
  noteOwnOnly(io)
  const url = findClusterUrl(io.dataFolder, io.environment)
  if (url === null) return reports
  const { openReportLedger } = await import('../store/postgres/report-ledger.ts')
  return openReportLedger({ url, timeoutMs: TIMEOUT_MS }, reports)
}

/** Warns if only the server knows the cluster's URL. */
export function noteOwnOnly({ dataFolder, environment, stderr }: Context): void {
  if (findClusterUrl(dataFolder, environment) !== null || readNodeId(dataFolder) === null) return
  stderr("note: these are this node's own requests only. For those of all nodes, set TOLLGATE_CLUSTER.\n")
}
