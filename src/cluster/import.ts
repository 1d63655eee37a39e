/**
 * Turns a single node's data folder into the first node of a new cluster. Copies its ledger first and its configuration last, because the configuration starts the
 * cluster. Until then, each step can be repeated safely. Totals of requests removed by retention are copied. All other totals must match.
 */
import { mintTag } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { count } from '../domain/text.ts'
import { DAY_MS, dayOf } from '../domain/time.ts'
import { recover } from '../ledger/recover.ts'
import type { Log } from '../log.ts'
import { takeWholeFolder } from '../store/data-folder.ts'
import {
  type Compared,
  compareSums,
  type LedgerCopy,
  type LedgerTarget,
  SUM_TABLES,
  type SumTable,
  sumsOf,
} from '../store/ledger-copy.ts'
import type { Outbox } from '../store/ledger-store.ts'
import { storeOf } from '../store/open.ts'
import type { Postgres } from '../store/postgres/client.ts'
import { createSharedLedger } from '../store/postgres/ledger.ts'
import { createLedgerTarget } from '../store/postgres/ledger-target.ts'
import { migratePostgres } from '../store/postgres/migrate.ts'
import type { ServedStore } from '../store/store.ts'
import { createVault, inspectVault } from '../store/vault.ts'
import { createConfigFeed } from './config-feed.ts'
import { createConfigLog } from './config-log.ts'
import { claimEmptyCluster, keepNodeId, mintNodeId, readNodeId, toPlace } from './nodes.ts'

export interface ImportOptions {
  dataFolder: string
  postgres: Postgres
  environment: Environment
  nodeName: string
  version: string
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** In requests. */
  onProgress?(done: number, total: number): void
}

export interface Imported extends Omit<Compared, 'difference'> {
  /** ID of the node. */
  node: string
  /** Number of requests that retention has kept. */
  kept: number
  /** Where the key that encrypts credentials is; part of a sentence. */
  secret: string
}

const BATCH = 500
/** Older requests share one partition. */
const MAX_MONTHS_MS = 10 * 366 * DAY_MS
const AHEAD_MS = 62 * DAY_MS

/** Throws a ServiceError or a PostgresRefusal. Then the cluster has not started, and the folder still belongs to a single node. */
export async function importFolder(options: ImportOptions): Promise<Imported> {
  const { dataFolder, postgres, environment, nodeName, version, log, now, onProgress = () => {} } = options
  const place = storeOf(dataFolder)
  if (!place.exists())
    throw new ServiceError({ kind: 'no_database', dataFolder }, `No Tollgate database in ${dataFolder}.`)
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(takeWholeFolder(dataFolder))
  const served = await place.serve({ version, startedMs: now(), now, log })
  cleanup.defer(() => served.close())
  await requireSecret(served, options)
  await migratePostgres(postgres)
  const node = readNodeId(dataFolder) ?? mintNodeId(now())
  const own = { id: node, name: nodeName, epoch: mintTag(), version, place: toPlace(dataFolder) }
  await claimEmptyCluster(postgres, own)
  keepNodeId(dataFolder, node)

  const checkpoint = async () => (await served.checkpoint()) !== 'nowhere'
  const store = { ...served.writer, checkpoint }
  await recover({ store, leases: served.leases, dataFolder, instance: own.epoch, nowMs: now(), log })
  const { ledger, upkeep } = served
  const copy = await served.loadCopy()
  const outbox = served.ship(true)
  if (!outbox) throw new Error('no outbox')
  const shared = createSharedLedger(postgres, node)
  const fromMs = Math.max(upkeep.oldestMs() ?? now(), now() - MAX_MONTHS_MS)
  await shared.makeMonths({ fromMs, untilMs: now() + AHEAD_MS })
  const total = ledger.count()
  let kept = 0
  for await (const batch of storedIn(outbox)) {
    const { seq: to, mark } = await shared.cursor()
    const shipped = await shared.ship(to, { to, mark, ...batch })
    if (!shipped.isApplied) throw foreign('Another server ships the ledger of this node. Stop it, and import again.')
    kept += batch.ids.length
    onProgress(kept, total)
  }
  const there = createLedgerTarget(postgres, node)
  const keptFromMs = await copy.keptFromMs()
  await copySums(copy, there, keptFromMs)
  const { difference, ...compared } = await compareSums(copy, there)
  if (difference) throw differs(difference, dataFolder)
  await there.keepFrom(keptFromMs)
  const { secret } = createVault(dataFolder, environment)
  await begin(options, served, node)
  return { ...compared, node, kept, secret: secret.where }
}

function* storedIn(outbox: Outbox) {
  for (let after = ''; ; ) {
    const batch = outbox.stored(after, BATCH)
    if (batch === null) return
    yield batch
    after = batch.ids.at(-1) ?? after
  }
}

/** Copies totals from before the first kept request, and rows that don't depend on requests. */
export async function copySums(from: LedgerCopy, to: LedgerTarget, keptFromMs: number): Promise<void> {
  const dayMs = keptFromMs === 0 ? 0 : dayOf(keptFromMs - 1) + DAY_MS
  const until: Record<SumTable, number> = {
    ...{ usage_hourly: keptFromMs, usage_daily: dayMs },
    ...{ refusals_hourly: Number.POSITIVE_INFINITY, key_uses: Number.POSITIVE_INFINITY },
  }
  for (const [table, untilMs] of Object.entries(until) as [SumTable, number][]) {
    const at = SUM_TABLES[table].key.findIndex((column) => column.endsWith('_ms'))
    for await (const rows of sumsOf(from, table)) {
      const old = rows.filter((row) => at < 0 || Number(row[at]) < untilMs)
      if (old.length > 0) await to.putSums(table, old)
      else if (at === 0) break
    }
  }
}

/** A credential that this key can't decrypt would be lost to all nodes. */
async function requireSecret({ config }: ServedStore, { dataFolder, environment }: ImportOptions): Promise<void> {
  const { problems } = await inspectVault(config, dataFolder, environment)
  const [first] = problems
  if (!first) return
  throw foreign(
    `${count(problems.length, 'stored credential')} can't be decrypted, such as that of ${first.upstream}: ${first.problem}. Nothing was imported. Set TOLLGATE_SECRET as for the server.`,
  )
}

async function begin(
  { dataFolder, postgres, environment, log, now }: ImportOptions,
  served: ServedStore,
  node: string,
) {
  const replica = await served.loadReplica()
  const { secret } = createVault(dataFolder, environment)
  const feed = createConfigFeed({ postgres, replica, node, secret, revoke: async () => {}, log, now })
  try {
    await feed.join()
  } catch (error) {
    const head = await createConfigLog(postgres, node)
      .readHead()
      .catch(() => undefined)
    if (head === null) replica.leave()
    throw error
  } finally {
    await feed.stop()
  }
}

const foreign = (message: string) => new ServiceError({ kind: 'cluster_foreign' }, message)

function differs({ table, key }: NonNullable<Compared['difference']>, dataFolder: string): ServiceError {
  const where = `${table} ${key.map((each) => each || "''").join(' ')}`
  return new ServiceError(
    { kind: 'sums_differ' },
    `The totals in PostgreSQL differ from those in ${dataFolder}, first in ${where}. The cluster has not begun. Check the folder: tollgate ledger verify --data ${dataFolder}. Then import into an empty database.`,
  )
}
