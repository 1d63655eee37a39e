/** Assembles a worker, which answers the model endpoints and forwards other requests to its keeper. See `keeper.ts`. */
import { logFinished, Speeds, toAll } from '../../accounting/settle.ts'
import type { ServeConfig } from '../../config.ts'
import { mintTag, toWallClock } from '../../domain/id.ts'
import type { Environment } from '../../domain/snapshot.ts'
import { createWorkerApp } from '../../http/app.ts'
import { createRemoteLimiter } from '../../limits/remote.ts'
import type { Log } from '../../log.ts'
import { withFleet } from '../../processes/managed.ts'
import { MIN_BUFFERED_BYTES, MIN_JOURNAL_BYTES } from '../../settings.ts'
import type { Settings } from '../../store/config-store.ts'
import { createVault } from '../../store/vault.ts'
import { createAllBackends } from '../backends.ts'
import { askThere, createGate, forward } from '../handover.ts'
import { createListener, toLast } from '../listener.ts'
import { createMetrics } from '../metrics.ts'
import { drain, listenAt } from '../network.ts'
import { watchFiles } from '../open-files.ts'
import { createParts, openTelemetry } from '../parts.ts'
import { returnMemory } from '../rest.ts'
import { openWorkerStorage } from '../worker-storage.ts'
import { connectLink } from './link.ts'
import { shareAsWorker } from './shared-worker.ts'
import {
  ALIVE,
  CLOSE,
  DECIDE,
  HELLO,
  HOLD,
  JOIN,
  LEAVE,
  LISTENING,
  PREFER,
  RETIRE,
  toForwardPath,
  toLinkPath,
} from './topics.ts'

export interface WorkerOptions {
  dataFolder: string
  /** The instance of the server that started it. */
  keeper: string
  configure(settings: Settings): ServeConfig
  environment: Environment
  version: string
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Called once the worker answers requests. */
  onServing(): void
}

const LOG_MS = 1_000
/** Divides a server's limits among its workers. */
const toShare = (config: ServeConfig, processes: number): ServeConfig => ({
  ...config,
  maxInFlight: Math.ceil(config.maxInFlight / processes),
  maxBufferedBytes: Math.max(MIN_BUFFERED_BYTES, Math.ceil(config.maxBufferedBytes / processes)),
  maxJournalBytes: Math.max(MIN_JOURNAL_BYTES, Math.ceil(config.maxJournalBytes / processes)),
})

/** Resolves once the worker has ended: true if no request was interrupted. Throws a ServiceError on a failed start. */
export async function runWorker(options: WorkerOptions): Promise<boolean> {
  const { dataFolder, keeper, log, environment, version } = options
  const monotonicMs = performance.now.bind(performance)
  const now = toWallClock(options.now)
  const startedMs = now()
  const instance = mintTag()
  // Closed in reverse order.
  await using opened = new AsyncDisposableStack()
  opened.defer(() => Promise.race([log.flush(), Bun.sleep(LOG_MS)]))

  const metrics = createMetrics()
  opened.defer(() => metrics.stop())
  const link = await connectLink(toLinkPath(dataFolder, keeper))
  opened.defer(() => link.close())
  link.on(ALIVE, () => null)
  const { hostname, port, processes, certificates, settings } = await link.ask(HELLO, { pid: process.pid })
  const config = toShare(options.configure(settings), processes)
  const { durability, maxJournalBytes } = config
  const { store, ledger } = await openWorkerStorage(
    { dataFolder, instance, link, log, onTimed: metrics.onTimed, durability, maxJournalBytes },
    opened,
  )
  await link.ask(JOIN, instance)

  const speeds = new Speeds()
  const own = createParts(config, { log, now, monotonicMs, instance, processes: 1 }, opened)
  const { capacity, concurrency, closeThreads, endUploads } = own
  const { files, load } = capacity
  const limiter = createRemoteLimiter(link, { monotonicMs, now, workers: processes })
  const shared = await shareAsWorker(link, {
    ...{ store: store.config, vault: createVault(dataFolder, environment), environment, now, monotonicMs, log },
    ...{ speeds, capacity, concurrency, ledger, metrics },
  })
  opened.defer(() => shared.close())
  const { live, health, fleet, refusals } = shared
  const { maxEventBytes } = config
  const backends = withFleet(createAllBackends({ environment, now, maxEventBytes }), fleet)
  const telemetry = await openTelemetry(
    config,
    {
      ...{ environment, version, instance, startedMs, now, monotonicMs, log, metricsMs: 0 },
      ...{ registry: metrics.registry, readings: () => Promise.reject(new Error('the keeper sends metrics')) },
    },
    opened,
  )
  const forwardPath = toForwardPath(dataFolder, keeper)
  const app = createWorkerApp({
    ...own.ofApp,
    live,
    ledger,
    refusals,
    limiter,
    health,
    serverStateOf: fleet.stateOf,
    speedOf: speeds.of,
    onFinished: toAll(
      [
        logFinished.bind(null, log),
        ({ calls }) => speeds.note(calls),
        shared.finished,
        metrics.finished,
        ...(telemetry ? [telemetry.finished] : []),
      ],
      log,
    ),
    isSecure: certificates !== null,
    backends,
    tracing: telemetry,
    forward: (request, peer) => forward(request, peer, forwardPath),
  })
  const place = { hostname, port, isShared: true }
  const listener = await listenAt(place, (place) => createListener(app, place, certificates))
  opened.defer(() => listener.stop(true))
  if (files.limit !== null) opened.defer(watchFiles({ limit: files.limit, app, log }))
  opened.defer(returnMemory(load))
  const gate = createGate({ dataFolder, listener, app, load, limiter, endUploads })

  const closing = Promise.withResolvers<number>()
  link.on(PREFER, listener.prefer)
  link.on(HOLD, async () => {
    await gate.hold()
    return null
  })
  link.on(DECIDE, async (where) => {
    await gate.decide(where)
    return null
  })
  const leave = ({ drainMs }: { drainMs: number }) => {
    const endMs = monotonicMs() + drainMs
    void listener.stop(false)
    void load.ended(drainMs).then(() => closing.resolve(Math.max(0, endMs - monotonicMs())))
    return null
  }
  link.on(RETIRE, () => listener.divert(async (request) => toLast(await app.fetch(request))))
  link.on(LEAVE, leave)
  link.on(CLOSE, ({ drainMs }) => closing.resolve(drainMs))
  void link.ended.then(() => {
    // The next server of this folder needs the port, and is asked before a request may cost more.
    limiter.askSuccessor((raise) => askThere(dataFolder, raise))
    void listener.stop(false)
    closing.resolve(config.drainMs)
  })
  options.onServing()
  link.tell(LISTENING, { port: listener.port, origin: listener.origin })

  const drainMs = await closing.promise
  capacity.drain()
  return await drain(listener, load, drainMs, closeThreads)
}
