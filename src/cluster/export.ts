/**
 * Writes a new data folder for a single node, with the configuration and the ledger of a cluster. Rows that nodes ship later are missing. To move, stop all nodes
 * first. To back up, nodes may run; the backup doesn't depend on the version of PostgreSQL.
 */
import { join } from 'node:path'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { openMark } from '../ledger/mark.ts'
import type { Log } from '../log.ts'
import { prepareDataFolder, takeLock } from '../store/data-folder.ts'
import { filesIn, putFile } from '../store/files.ts'
import { type Compared, compareSums, type WholeRequest } from '../store/ledger-copy.ts'
import type { LedgerRecord, SettledCall, SettledRow, StoredCall, StoredRequest } from '../store/ledger-rows.ts'
import { storeOf } from '../store/open.ts'
import type { Postgres } from '../store/postgres/client.ts'
import { createLedgerTarget } from '../store/postgres/ledger-target.ts'
import { openSecret } from '../store/secret.ts'
import type { ServedStore } from '../store/store.ts'
import { createConfigFeed } from './config-feed.ts'
import { createConfigLog } from './config-log.ts'
import { copySums } from './import.ts'
import { type ClusterNode, listNodes } from './nodes.ts'

export interface ExportOptions {
  /** A missing or empty folder. */
  target: string
  /** A node's folder, for the key that encrypts credentials. */
  dataFolder: string
  postgres: Postgres
  environment: Environment
  version: string
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** In requests. */
  onProgress?(done: number): void
}

export interface Exported extends Compared {
  /** Number of requests that retention has kept. */
  kept: number
  /** Running nodes, whose latest requests are missing. */
  living: ClusterNode[]
  /** Where the key that encrypts credentials is; part of a sentence. */
  secret: string
}

const BATCH = 1_000
const MAX_MS = 24 * 3_600_000

/** Throws a ServiceError or a PostgresRefusal, and leaves an unfinished folder then. If totals differ, returns the difference; the folder is usable. */
export async function exportCluster(options: ExportOptions): Promise<Exported> {
  const { target, dataFolder, postgres, environment, version, log, now, onProgress = () => {} } = options
  const head = await createConfigLog(postgres, '').readHead()
  if (!head) throw new ServiceError({ kind: 'cluster_unusable' }, 'This database has no cluster yet.')
  const living = (await listNodes(postgres)).filter(({ isLiving }) => isLiving)
  await using cleanup = new AsyncDisposableStack()
  prepareDataFolder(target)
  if (filesIn(target).length > 0)
    throw new ServiceError({ kind: 'folder_taken', folder: target }, `${target} is not empty.`)
  cleanup.defer(takeLock(target))
  const secret = openSecret(dataFolder, environment)
  const served = await storeOf(target).serve({ version, startedMs: now(), now, log })
  cleanup.defer(() => served.close())

  const replica = await served.loadReplica()
  const feed = createConfigFeed({ postgres, replica, node: '', secret, revoke: async () => {}, log, now })
  try {
    await feed.join()
  } finally {
    await feed.stop()
  }
  const ownSecret = openSecret(dataFolder, {}).read()
  const lines = ownSecret.map(({ bytes }) => `${Buffer.from(bytes).toString('hex')}\n`)
  if (lines.length > 0) putFile(join(target, 'secret'), lines.join(''), { mode: 0o600 })

  const copied = await postgres.begin(
    async (tx) => {
      await tx.query('set transaction isolation level repeatable read, read only')
      const there = createLedgerTarget(tx, '')
      let kept = 0
      for (let after = ''; ; ) {
        const requests = await there.requestsAfter(after, BATCH)
        const last = requests.at(-1)
        if (!last) break
        await write(served, requests.flatMap(toRecords))
        kept += requests.length
        after = last.request.id
        onProgress(kept)
      }
      const keptFromMs = await there.keptFromMs()
      const here = await served.loadCopy()
      await copySums(there, here, keptFromMs)
      await here.keepFrom(keptFromMs)
      return { ...(await compareSums(there, here)), kept }
    },
    { timeoutMs: MAX_MS },
  )
  // Until now, no single server can use the folder.
  replica.leave()
  openMark(target, served.ledger.count()).close()
  await served.checkpoint()
  return { ...copied, living, secret: lines.length > 0 ? `the file ${join(target, 'secret')}` : secret.where }
}

async function write({ writer }: ServedStore, records: readonly LedgerRecord[]): Promise<void> {
  const [rejected] = await writer.apply(records)
  if (rejected) throw rejected.error
}

/** Open requests stay open. The first start on the folder charges them as reserved. */
function toRecords({ request, calls }: WholeRequest): LedgerRecord[] {
  const { status, ...row } = request
  const open: LedgerRecord = { kind: 'open', row }
  if (status !== 'open') return [open, { kind: 'settle', row: ofAnyEnd(request), calls: calls.map(ofAnyEnd) }]
  const ended = calls.filter((call) => call.status !== 'open').map(ofAnyEnd)
  const going = calls.filter((call) => call.status === 'open').map((call): LedgerRecord => ({ kind: 'call', call }))
  // A record of one call can carry all ended calls.
  const [call] = ended
  return [open, ...going, ...(call ? [{ kind: 'call', call, ended } as const] : [])]
}

/** The writer keeps `abandoned` as it is; journals have it only after a rollback. */
function ofAnyEnd(row: StoredRequest): SettledRow
function ofAnyEnd(row: StoredCall): SettledCall
function ofAnyEnd(row: StoredRequest | StoredCall) {
  return row as SettledRow | SettledCall
}
