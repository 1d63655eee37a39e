/**
 * A running server, put together from its parts in the order that safety asks for: storage, catalogue, snapshot, what is
 * known beside the database, and only then the network. `cli/run-server.ts` starts it and decides when it stops.
 */
import { logFinished } from '../accounting/settle.ts'
import type { ServeConfig } from '../config.ts'
import { mintId } from '../domain/id.ts'
import type { Environment, Snapshot } from '../domain/snapshot.ts'
import { createInFlightTracker, createLoadShedder } from '../gateway/load.ts'
import { createApp } from '../http/app.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Log } from '../log.ts'
import type { ConfigStore, Settings } from '../store/config-store.ts'
import { toSnapshot } from '../store/snapshot.ts'
import { createChecker } from '../structured/checker.ts'
import { createCounter } from '../tokens/count.ts'
import { createAllBackends, testUpstream } from './backends.ts'
import { type ControlDeps, createControl } from './control.ts'
import { drain } from './drain.ts'
import { listen } from './listen.ts'
import { createLive } from './live.ts'
import { createStatus } from './status.ts'
import { openStorage } from './storage.ts'

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
  /** Runs on the open, migrated store before anything is loaded from it: applies the catalogue. */
  prepare(store: ConfigStore, settings: Settings): void | Promise<void>
  /** What the control socket asks of the process that runs the server. */
  commands: Pick<ControlDeps, 'reload' | 'drain'>
}

export interface Server {
  /** `http://host:port/v1` */
  baseUrl: string
  snapshot(): Snapshot
  /** Runs a change of configuration on the server's own connection, then reads everything again. */
  reload(change: (store: ConfigStore) => Promise<void>): Promise<void>
  /** Has the database take what the ledger's journal holds. */
  flush: Ledger['flush']
  /** Lets what is under way end, as long as the drain setting says, then closes everything. True if nothing was cut. */
  stop(): Promise<boolean>
}

/** A log that nobody reads does not hold up a stop for longer. */
const LOG_MS = 1_000
const BACKOFF_MS = 500

/** Starts to serve. Where it cannot, it throws, and whatever it has opened is closed again. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { log, now, environment, version, monotonicMs = () => performance.now() } = options
  const moment = () => ({ monotonicMs: monotonicMs(), wallMs: now() })
  const startedMs = now()
  const instance = mintId(startedMs)
  // Closed in reverse order, at the stop or where the start fails.
  await using opened = new AsyncDisposableStack()

  const storage = await openStorage({ dataFolder: options.dataFolder, instance, startedMs, log }, opened)
  const { store } = storage
  const settings = await store.readSettings()
  const config = options.configure(settings)
  await options.prepare(store, settings)

  let snapshot = toSnapshot(await store.read(), environment)
  const { ledger, reader } = storage.openLedger(config)
  const backendFor = createAllBackends({ maxEventBytes: config.maxEventBytes })
  const live = createLive({
    snapshot: () => snapshot,
    reader,
    ledger,
    backendFor,
    probeMs: config.probeMs,
    moment,
    log,
  })
  const { limiter, health, prober } = live
  const refresh = async () => {
    const next = toSnapshot(await store.read(), environment)
    // Of two that read at once, the later answer may be the older one.
    if (next.revision < snapshot.revision) return
    live.renew(next)
    logNotReady(next, log, snapshot)
    snapshot = next
    prober.kick()
  }

  const watch = store.watch(snapshot.revision, refresh, log)
  opened.defer(() => watch.stop())
  const inFlight = createInFlightTracker()
  const load = createLoadShedder(config)
  const counter = createCounter({ log })
  const checker = createChecker()
  const closeThreads = () => {
    counter.close()
    checker.close()
  }
  opened.defer(closeThreads)
  const { status, readiness } = createStatus({
    facts: { version, instance, started_ms: startedMs },
    isDraining: inFlight.draining,
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
    onFinished: (finished) => logFinished(log, finished),
    now,
    moment,
    instance,
    heartbeatMs: config.heartbeatMs,
    slowReaderMs: config.slowReaderMs,
    retry: { retries: config.retries, backoffMs: options.backoffMs ?? BACKOFF_MS },
    backendFor,
    readiness,
  })
  const baseUrl = listen(app, config.host, config.port)
  logNotReady(snapshot, log)
  prober.start()
  opened.defer(() => prober.stop())
  const control = createControl({
    dataFolder: options.dataFolder,
    log,
    status: () => status(baseUrl),
    async test(id) {
      const upstream = snapshot.upstreams.get(id)
      if (!upstream) return null
      return testUpstream(upstream, {
        backend: backendFor({ upstream }),
        monotonicMs,
        onFound: (found) => health.probed(upstream, found),
      })
    },
    reload: options.commands.reload,
    flush: ledger.flush,
    drain() {
      // A second signal would end the process at once.
      if (!inFlight.draining()) options.commands.drain()
    },
  })
  opened.defer(() => control.stop())

  const everything = opened.move()
  return {
    baseUrl,
    snapshot: () => snapshot,
    async reload(change) {
      await change(store)
      await refresh()
    },
    flush: ledger.flush,
    async stop() {
      inFlight.drain()
      const clean = await drain(app, inFlight, config.drainMs, closeThreads)
      await everything.disposeAsync()
      await Promise.race([log.flush(), Bun.sleep(LOG_MS)])
      return clean
    },
  }
}

/** @param before what was said last: the same is not said twice. */
function logNotReady({ upstreams }: Snapshot, log: Log, before?: Snapshot): void {
  for (const { id, notReady } of upstreams.values()) {
    if (!notReady || before?.upstreams.get(id)?.notReady === notReady) continue
    log.warn('upstream_not_ready', 'an upstream is not ready', { upstream: id, reason: notReady })
  }
}
