/**
 * A running server, put together from its parts in the order that safety asks for: lock, migrate, recover the ledger,
 * apply the catalogue, load the snapshot, and only then listen. `cli/serve.ts` starts it and decides when it stops.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { ServeConfig } from '../config.ts'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment, Snapshot } from '../domain/snapshot.ts'
import { createInFlightTracker } from '../gateway/in-flight.ts'
import { createLoadShedder } from '../gateway/load.ts'
import { createApp } from '../http/app.ts'
import { createLedger } from '../ledger/ledger.ts'
import { recover } from '../ledger/recover.ts'
import { createSpendReader } from '../ledger/spent.ts'
import { createSpool } from '../ledger/spool.ts'
import type { Log } from '../log.ts'
import { createCheckpointer } from '../store/sqlite/checkpoint.ts'
import { readSettings, type Settings, writeFacts } from '../store/sqlite/facts.ts'
import { takeLock } from '../store/sqlite/lock.ts'
import { migrate } from '../store/sqlite/migrate.ts'
import {
  COMMAND_BUSY_MS,
  databasePath,
  openDatabase,
  prepareDataFolder,
  type Store,
  toStore,
} from '../store/sqlite/open.ts'
import { loadSnapshot } from '../store/sqlite/snapshot.ts'
import { createWatch } from '../store/sqlite/watch.ts'
import { createChecker } from '../structured/checker.ts'
import { createCounter } from '../tokens/count.ts'
import type { Readiness as BackendReadiness } from '../upstreams/backend.ts'
import { createBackends } from '../upstreams/registry.ts'
import { type ControlDeps, createControl } from './control.ts'
import { drain } from './drain.ts'
import { listen } from './listen.ts'
import { createLive } from './live.ts'
import { createStatus } from './status.ts'
import { testUpstream } from './test-upstream.ts'

export interface ServerOptions {
  dataFolder: string
  /** The server's own settings, given the rows of the settings table. */
  configure(settings: Settings): ServeConfig
  environment: Environment
  version: string
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** A clock that never steps, ms. */
  monotonicMs?(): number
  /** The pause before the targets of a request are tried again, ms. */
  backoffMs?: number
  /** Runs on the open, migrated store before anything is loaded from it: applies the catalogue, makes a first key. */
  prepare(store: Store, settings: Settings): void | Promise<void>
  /** What an order over the control socket does; without them it is refused. */
  orders?: Pick<ControlDeps, 'reload' | 'drain'>
}

export interface Server {
  /** `http://host:port/v1` */
  baseUrl: string
  snapshot(): Snapshot
  /** Runs a change of configuration on the server's own connection, then reads everything again. */
  reload(change: (store: Store) => void): void
  /** Lets what is under way end, as long as the drain setting says, then closes everything. True if nothing was cut. */
  stop(): Promise<boolean>
}

/** A log that nobody reads does not hold up a stop for longer. */
const LOG_MS = 1_000
const BACKOFF_MS = 500

/** Eight megabytes of zeros can wait until the first answers are out; a group that needs them earlier makes them. */
const SPOOL_DELAY_MS = 100

export async function startServer(options: ServerOptions): Promise<Server> {
  const { dataFolder, log, now, environment, version, orders = NO_ORDERS } = options
  const { monotonicMs = () => performance.now() } = options
  prepareDataFolder(dataFolder)
  const unlock = takeLock(dataFolder)
  const path = databasePath(dataFolder)
  const startedMs = now()
  const instance = mintId(startedMs)
  const writer = openWriter(path)
  const store = toStore(writer)
  const spoolFolder = join(dataFolder, 'spool')
  const spool = createSpool({ folder: spoolFolder, instance })
  migrate(writer, dataFolder, startedMs)
  const recovered = recover(writer, spool, spoolFolder, instance, log)
  if (recovered.replayed > 0 || recovered.abandoned > 0) log.warn('recovered the ledger', { ...recovered })
  writeFacts(writer, instance, startedMs)
  const settings = readSettings(writer)
  const config = options.configure(settings)
  if (config.durability === 'power') writer.run('PRAGMA synchronous = FULL')
  await options.prepare(store, settings)

  let snapshot = loadSnapshot(store, environment)
  let state: 'serving' | 'draining' = 'serving'
  const moment = () => ({ monotonicMs: monotonicMs(), wallMs: now() })
  const backendFor = createBackends({ maxEventBytes: config.maxEventBytes })
  const live = createLive({
    snapshot: () => snapshot,
    spending: createSpendReader(writer),
    backendFor,
    probeMs: config.probeMs,
    moment,
    log,
  })
  const { limiter, health, prober } = live
  const checkpointer = createCheckpointer(path, log)
  const ledger = createLedger({
    writer,
    spool,
    log,
    onCommit: checkpointer.note,
    checkpoint: checkpointer.run,
  })
  const refresh = () => {
    const next = loadSnapshot(store, environment)
    live.renew(next)
    logNotReady(next, log, snapshot)
    snapshot = next
    prober.kick()
  }
  const watch = createWatch(writer, snapshot.revision, refresh, log)
  const inFlight = createInFlightTracker()
  const load = createLoadShedder(config)
  const counter = createCounter({ log })
  const checker = createChecker()
  const status = createStatus({
    facts: { version, instance, started_ms: startedMs },
    isDraining: () => state === 'draining',
    isWatching: watch.healthy,
    snapshot: () => snapshot,
    ledger,
    health,
    load,
  })
  const app = createApp({
    snapshot: () => snapshot,
    ledger,
    limiter,
    health,
    counter,
    checker,
    inFlight,
    load,
    log,
    now,
    moment,
    instance,
    heartbeatMs: config.heartbeatMs,
    slowReaderMs: config.slowReaderMs,
    retry: { retries: config.retries, backoffMs: options.backoffMs ?? BACKOFF_MS },
    backendFor,
    readiness: status.readiness,
  })
  // From here on the writer never waits inside SQLite: the event loop would wait with it.
  writer.run('PRAGMA busy_timeout = 0')
  writer.run('PRAGMA wal_autocheckpoint = 0')
  const baseUrl = listen(app, config.host, config.port)
  logNotReady(snapshot, log)
  prober.start()
  const control = createControl({
    dataFolder,
    log,
    status: () => status.status(baseUrl),
    async test(id) {
      const upstream = snapshot.upstreams.get(id)
      if (!upstream) return null
      const onFound = (found: BackendReadiness) => health.probed(upstream, found)
      return testUpstream(upstream, { backend: backendFor({ upstream }), monotonicMs, onFound })
    },
    reload: orders.reload,
    drain() {
      // A second signal would end the process at once.
      if (state === 'serving') orders.drain()
    },
  })
  const preparing = setTimeout(() => {
    spool.prepare().catch((error) => log.error('the spool could not be prepared', { error: String(error) }))
  }, SPOOL_DELAY_MS)

  return {
    baseUrl,
    snapshot: () => snapshot,
    reload(change) {
      change(store)
      refresh()
    },
    async stop() {
      state = 'draining'
      inFlight.drain()
      const clean = await drain(app, inFlight, config.drainMs, () => {
        counter.close()
        checker.close()
      })
      watch.stop()
      prober.stop()
      await control.stop()
      clearTimeout(preparing)
      await ledger.close()
      checkpointer.close()
      await spool.close()
      writer.close()
      unlock()
      await Promise.race([log.flush(), Bun.sleep(LOG_MS)])
      return clean
    },
  }
}

const refuseOrder = () => {
  throw new ServiceError({ kind: 'not_possible' }, 'This server takes no orders.')
}
const NO_ORDERS = { reload: async () => refuseOrder(), drain: refuseOrder }

function openWriter(path: string): Database {
  try {
    return openDatabase(path, { busyMs: COMMAND_BUSY_MS })
  } catch (error) {
    throw new ServiceError(
      { kind: 'database_unusable', path },
      `Cannot open ${path}: ${error instanceof Error ? error.message : error}.`,
    )
  }
}

/** @param before what was said last: the same is not said twice. */
function logNotReady({ upstreams }: Snapshot, log: Log, before?: Snapshot): void {
  for (const { id, notReady } of upstreams.values()) {
    if (!notReady || before?.upstreams.get(id)?.notReady === notReady) continue
    log.warn('an upstream is not ready', { upstream: id, reason: notReady })
  }
}
