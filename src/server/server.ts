/**
 * Assembles a running server in a safe order: storage, catalog, snapshot, limits and health, and only then the network.
 */
import { logFinished, Speeds, toAll } from '../accounting/settle.ts'
import { createBackupList, type MakeBackup } from '../backup/backup-list.ts'
import { isOnDuty } from '../cluster/duties.ts'
import type { ServeConfig, SettingText } from '../config.ts'
import { mintTag, toWallClock } from '../domain/id.ts'
import { NO_PROCESSES, type ProcessSpecs } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment, Snapshot, Target } from '../domain/snapshot.ts'
import { type AppDeps, createApp } from '../http/app.ts'
import { createPlayground } from '../http/endpoints.ts'
import { toOidcSettings, toSignInMethods } from '../identity/oidc.ts'
import { requirePasswords } from '../identity/sign-in.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Log } from '../log.ts'
import { createFleet, withFleet } from '../processes/managed.ts'
import type { ConfigStore, Settings } from '../store/config-store.ts'
import { createVault, inspectVault } from '../store/vault.ts'
import {
  createServing,
  type RunFacts,
  toOwnProblem,
  toReadiness,
  toStatus,
  type WatchedParts,
} from './admin-view/admin-view.ts'
import { createLiveRequests } from './admin-view/live-requests.ts'
import { createAdminSurface, toAddressWarning, toDashboardUrl } from './admin-view/surface.ts'
import { createAllBackends } from './backends.ts'
import { serveBatches } from './batches.ts'
import { answerForwarded, createHandover, type Handed, type Handover } from './handover.ts'
import { createLive, logNotReady } from './live.ts'
import { createMetrics } from './metrics.ts'
import { listenForMetrics, openOwnFront, toProcessCount, untilFree } from './network.ts'
import { toLowLimit, watchFiles } from './open-files.ts'
import { createListAt, type OnFound, testById } from './outward/questions.ts'
import { type ControlDeps, createControl } from './owner-socket.ts'
import { createPages } from './pages.ts'
import { createParts, openTelemetry } from './parts.ts'
import { returnMemory } from './rest.ts'
import { ServedFacts } from './served.ts'
import { openStorage } from './storage.ts'

export interface ServerOptions {
  dataFolder: string
  configure(settings: Settings): ServeConfig
  /** The settings as text for the operator; none by default. */
  settingTexts?(settings: Settings): SettingText[]
  environment: Environment
  version: string
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs?(): number
  backoffMs?: number
  /** Runs on the open, migrated store before anything is loaded: applies the catalog. */
  prepare(store: ConfigStore, settings: Settings): void | Promise<void>
  loadProcesses?(): Promise<ProcessSpecs>
  /** Provided by the process that runs the server, for the control socket and scheduled backups. */
  commands: Pick<ControlDeps, 'reload' | 'drain' | 'restart'> & {
    makeBackup: MakeBackup
    /** Without it, one process answers. */
    startWorker?(environment: Readonly<Record<string, string>>): Bun.Subprocess
  }
  /** Resolves once an earlier server has handed over the data folder; null without one. */
  succeed?: (() => Promise<Handed>) | null
}

export interface Server {
  /** `http://host:port/v1` */
  baseUrl: string
  snapshot(): Snapshot
  /** Null if disabled. */
  dashboardUrl: string | null
  /** Setup code for the first owner; null if an owner exists. */
  setupCode(): Promise<string | null>
  warnings: readonly string[]
  /** Changes the configuration on the server's own connection, then reloads. */
  reload(change: (store: ConfigStore) => Promise<void>): Promise<void>
  flush: Ledger['flush']
  handover: Handover
  /** Number of listeners that share its port. */
  listeners: number
  /** Call once the earlier server has ended. Ends parts that only a successor needs. */
  endSuccession(): Promise<void>
  /** Drains, then stops. True if nothing was interrupted. */
  stop(): Promise<boolean>
}

/** How long reports wait for this node's rows. After that, they report the newest requests as pending. */
const ARRIVAL_MS = 1_000
/** Maximum delay of a stop by a log that no one reads. */
const LOG_MS = 1_000

export async function startServer(options: ServerOptions): Promise<Server> {
  const { log, environment, version, monotonicMs = performance.now.bind(performance) } = options
  const now = toWallClock(options.now)
  const startedMs = now()
  const instance = mintTag()
  // Closed in reverse order, at the stop or on failure.
  await using opened = new AsyncDisposableStack()

  const { dataFolder, succeed = null } = options
  // After the handover, `leave` ends this earlier than the rest.
  const background = new AsyncDisposableStack()
  let hasLeft = false
  const metrics = createMetrics()
  opened.defer(() => metrics.stop())
  const { onTimed } = metrics
  const handed = (await succeed?.()) ?? { port: null, ports: [] }
  const isShared = (port: number) => handed.ports.includes(port)
  const storage = await openStorage(
    { version, dataFolder, instance, startedMs, now, monotonicMs, log, onTimed },
    opened,
  )
  const { store, identity, alerts } = storage
  const vault = createVault(dataFolder, environment)
  const before = options.configure(await store.readSettings())
  if (before.cluster !== null && before.limits !== null)
    await (await import('../cluster/limits-check.ts')).requireValkey(before.limits, dataFolder)
  const cluster =
    before.cluster === null
      ? null
      : await (await import('../cluster/cluster.ts')).openCluster({
          ...{ cluster: before.cluster, nodeName: before.nodeName, dataFolder, instance, version, log, now },
        })
  opened.defer(() => cluster?.close())
  if (cluster === null && storage.hasPosition())
    throw new ServiceError({ kind: 'cluster_member' }, 'This data folder belongs to a node of a cluster.')
  const shared =
    cluster &&
    (await (
      await import('../cluster/config-part.ts')
    ).shareConfig(cluster, {
      ...{
        store,
        identity,
        replica: await storage.loadReplica(),
        hasHistory: storage.hasHistory,
        secret: vault.secret,
        log,
        now,
      },
    }))
  // In a cluster, its settings.
  const settings = await store.readSettings()
  const config = cluster ? options.configure(settings) : before
  const { startWorker } = options.commands
  const processes = startWorker ? toProcessCount(config.processes) : 1
  const isSecure = config.tlsCerts.length + config.tlsDomains.length > 0
  const tls = isSecure ? await (await import('./tls/tls.ts')).openTls(config, { log, now, dataFolder }) : null
  opened.defer(() => tls?.stop())
  // For a failed start. Otherwise `background` ends first.
  opened.use(background)
  background.defer(() => tls?.stop())
  const oidcSettings = toOidcSettings(config)
  const ways = toSignInMethods(config, oidcSettings)
  await prepareCatalog(async () => options.prepare(store, settings), log)

  const shipLedger = cluster && (await import('../cluster/ledger.ts')).shipLedger
  const folder = storage.openLedger(
    config,
    cluster && shipLedger && ((outbox) => shipLedger(cluster, outbox, { ...config, monotonicMs, log })),
    () => isOnDuty('removal', cluster),
  )
  const { ledger, refusals, reader, files: dataFiles, disk, others } = folder
  background.defer(() => folder.retention.stop())
  const served = new ServedFacts({ log, monotonicMs })
  const speeds = new Speeds()
  const onReady = served.started.bind(served)
  const fleet = await createFleet({ dataFolder, environment, now, log, isAlone: !others.hasPredecessors(), onReady })
  opened.defer(() => fleet.close())
  const backends = withFleet(createAllBackends({ environment, now, maxEventBytes: config.maxEventBytes }), fleet)
  const { probeMs } = config
  const live = await createLive({
    ...{ store, vault, environment, reader, ledger, backends, probeMs, now, monotonicMs, log, fleet, served },
    others,
    ...(cluster && {
      shareLimits: async (parts) =>
        (await import('../cluster/limits-part.ts')).shareLimits(cluster, {
          shipped: async () => folder.share?.([]),
          ...{ ...parts, limits: config.limits, onOutage: config.limitsOutage, log, now, monotonicMs },
        }),
    }),
    loadProcesses: options.loadProcesses ?? (async () => NO_PROCESSES),
  })
  const { limiter, health, prober } = live
  const watch = store.watch(live.snapshot.revision, live.refresh, log)
  opened.defer(() => watch.stop())
  const own = createParts(config, { log, now, monotonicMs, instance, processes, backoffMs: options.backoffMs }, opened)
  const { capacity, concurrency, closeThreads, endUploads } = own
  const { files, overload, load } = capacity
  const lowLimit = toLowLimit(files)
  if (lowLimit !== null) log.warn('file_descriptors_low', lowLimit)
  const liveRequests = createLiveRequests({ snapshot: () => live.snapshot })
  const workers =
    processes === 1
      ? null
      : (await import('./workers/shared.ts')).shareAsKeeper({
          ...{ live, health, served, fleet, speeds, liveRequests, refusals, registry: metrics.registry },
          ...{ load, overload, ledger, concurrency, log },
        })
  const all = workers ?? { load, overload, ledger, concurrency }
  const figuresOf = (target: Target) => served.figuresOf(target, speeds.of(target))
  const watched = { ...all, disk, health, fleet, watch, tls, cluster, figuresOf } satisfies WatchedParts
  const onFound: OnFound = (found, upstream) => health.probed(upstream, found)
  const test = (id: string) => testById(id, live.snapshot, { backends, monotonicMs, onFound })
  const run = (): RunFacts => ({
    ...{ version, instance, started_ms: startedMs, url: baseUrl, lost: dataFiles.lost, files },
    untrusted_proxy: admin.untrustedProxy(),
    backups: { every_ms: config.backupMs, failed: shelf.scheduledFailed() },
  })
  const shelf = createBackupList({
    ...{ dataFolder, store, everyMs: config.backupMs, keep: config.backupKeep, now, log },
    make: options.commands.makeBackup,
  })
  background.defer(() => shelf.stop())
  const serving = createServing({
    ...{ live, health, ledger, fleet, speeds, watched, shelf, test, run, now, cluster },
    settings: options.settingTexts?.(settings) ?? [],
    backupKeep: config.backupKeep,
    play: (...asked) => playground(...asked),
    modelsAt: createListAt(environment),
  })
  const flushToReports = async () => {
    const done = await ledger.flush()
    if (cluster?.state().reachable) await Promise.race([folder.share?.([]), Bun.sleep(ARRIVAL_MS)])
    return done
  }
  const publicUrls = [...config.publicUrls]
  const admin = createAdminSurface({
    sharedSignIn: shared,
    store,
    alerts,
    vault,
    identity,
    serving,
    backups: shelf,
    dataFolder,
    ledger: { ...ledger, flush: flushToReports },
    reader,
    instance,
    refusals,
    cluster,
    liveRequests,
    log,
    now,
    ways,
    oidcSettings,
    environment,
    publicUrls,
    isSecure: tls !== null,
    trustedProxies: config.trustedProxies,
  })
  opened.defer(() => admin.close())
  background.defer(admin.stopAlerts)
  const { max_in_flight: maxInFlight } = files
  const metricsPages = metrics.createPages({
    ...{ version, startedMs, live, watched, concurrency: all.concurrency, maxInFlight, workers, shelf, identity, now },
  })
  const telemetry = await openTelemetry(
    config,
    {
      ...{ environment, version, instance, startedMs, now, monotonicMs, log, metricsMs: config.otlpMetricsMs },
      ...{ registry: metrics.registry, readings: metricsPages.readings },
    },
    opened,
  )
  const parts: AppDeps = {
    ...own.ofApp,
    live,
    ledger,
    refusals: {
      note(kind, key, nowMs) {
        refusals.note(kind, key, nowMs)
        metrics.rejected(kind)
      },
    },
    limiter: workers ? (await import('../limits/recall.ts')).createRecallingLimiter(limiter) : limiter,
    health,
    serverStateOf: fleet.stateOf,
    speedOf: speeds.of,
    onFinished: toAll(
      [
        logFinished.bind(null, log),
        ({ row }) => live.limiter.ended(row),
        ({ calls }) => speeds.note(calls),
        liveRequests.finished,
        metrics.finished,
        ...(telemetry ? [telemetry.finished] : []),
      ],
      log,
    ),
    ...{ isSecure: tls !== null, publicUrls },
    backends,
    readiness: toReadiness.bind(null, watched),
    admin,
    metrics: metricsPages.api,
    tracing: telemetry,
    pages: config.dashboard ? createPages({ isSecure: tls !== null }) : null,
  }
  const batches =
    cluster === null
      ? serveBatches(
          {
            ...{ dataFolder, store: storage.batches, reader, load: all.load, maxInFlight },
            ...{ maxBufferedBytes: config.maxBufferedBytes, waiting: () => all.concurrency.waiting() },
            hasPredecessors: others.hasPredecessors,
          },
          () => parts,
        )
      : null
  if (batches) parts.batches = batches
  const app = createApp(parts)
  const playground = createPlayground(parts, app)
  const port = config.port || (handed.port ?? 0)
  const place = { hostname: config.host, port, isShared: isShared(port) }
  if (others.hasPredecessors() && !place.isShared) await untilFree(place)
  const opening = {
    ...{ dataFolder, app, place, certificates: tls?.served() ?? null, load, limiter, log, closeThreads },
    ...{ drainMs: config.drainMs, endUploads },
  }
  const front =
    workers === null || !startWorker
      ? await openOwnFront(opening)
      : await (await import('./workers/keeper.ts')).openWorkers({
          ...{ ...opening, count: processes, instance, settings, workers, others, reader, now, monotonicMs },
          spawn: startWorker,
        })
  const { port: listener } = front
  opened.defer(() => listener.stop(true))
  // Stopped before the parts that batch lines use.
  opened.defer(() => batches?.stop())
  const forwarded = succeed === null ? null : answerForwarded(dataFolder, app, tls !== null)
  opened.defer(() => forwarded?.())
  const baseUrl = `${(await tls?.start({ listener, publicUrls, isShared })) ?? listener.origin}/v1`
  if (config.metrics)
    background.defer(await listenForMetrics(config.metrics, isShared(config.metrics.port), metricsPages))
  if (cluster) background.defer((await import('../cluster/live.ts')).followOthers(cluster, liveRequests, now))
  if (cluster)
    background.defer(await (await import('../cluster/watch-nodes.ts')).watchNodes(cluster, () => toOwnProblem(watched)))
  cluster?.serve(config.publicUrls[0] ?? baseUrl.replace(/\/v1$/, ''), options.commands.drain)
  const dashboardUrl = config.dashboard ? toDashboardUrl(baseUrl, config.publicUrls) : null
  if (files.limit !== null) opened.defer(watchFiles({ limit: files.limit, app, log }))
  opened.defer(returnMemory(load))
  logNotReady(live.snapshot, log)
  admin.listensOn(app)
  await admin.startAlerts()
  prober.start()
  batches?.begin()
  background.defer(() => prober.stop())
  const openControl = () =>
    createControl({
      dataFolder,
      log,
      status: () => toStatus(watched, live.snapshot, run()),
      servers: fleet,
      reload: options.commands.reload,
      ...(options.commands.restart && { restart: options.commands.restart }),
      ...(limiter.raiseHeld && { raiseHeld: limiter.raiseHeld }),
      flush: flushToReports,
      inspectVault: () => inspectVault(store, dataFolder, environment),
      endTails: liveRequests.endCommands,
      admin: admin.handleOperator,
      async setupCode() {
        requirePasswords(ways)
        const code = await admin.setupCode()
        return code === null ? null : { code, url: dashboardUrl && `${dashboardUrl}/setup#${code}` }
      },
      requests: () => parts,
      drain() {
        // A second signal would end the process at once.
        if (!load.isDraining) options.commands.drain()
      },
    })
  let control = openControl()
  // The path then belongs to the successor, and Bun would remove its socket.
  opened.defer(() => (hasLeft ? undefined : control.stop()))
  const handover = createHandover({
    listener,
    gate: {
      async hold() {
        await batches?.pause()
        await front.gate.hold()
      },
      async decide(where) {
        await front.gate.decide(where)
        if (where === 'here') await batches?.resume()
      },
    },
    otherPorts: [
      config.metrics?.port ?? [],
      config.httpRedirect?.port ?? [],
      config.tlsDomains.length > 0 ? 80 : [],
    ].flat(),
    async giveFolder() {
      await cluster?.handOver()
      await folder.handOver()
    },
    async takeFolderBack() {
      await folder.takeBack()
      cluster?.takeBack()
      if (!control.isThere()) control = openControl()
    },
    async stopBackground() {
      hasLeft = true
      await background.disposeAsync()
    },
  })

  // Ends before the parts that it uses.
  opened.use(background)
  const everything = opened.move()
  return {
    baseUrl,
    dashboardUrl,
    setupCode: admin.setupCode,
    snapshot: () => live.snapshot,
    warnings: [lowLimit, tls ? null : toAddressWarning(config)].filter((warning) => warning !== null),
    async reload(change) {
      await change(store)
      await live.refresh()
      await tls?.reread()
    },
    flush: ledger.flush,
    handover,
    listeners: listener.count,
    async endSuccession() {
      await forwarded?.()
      await front.endSuccession()
    },
    async stop() {
      await batches?.pause()
      // After the handover, running requests continue.
      if (hasLeft) load.drain()
      else {
        capacity.drain()
        fleet.drain()
      }
      await liveRequests.end()
      if (hasLeft) await listener.grace(handover.ended)
      const clean = await front.drain(hasLeft)
      await everything.disposeAsync()
      await Promise.race([log.flush(), Bun.sleep(LOG_MS)])
      return clean
    },
  }
}

/** Without PostgreSQL, a cluster node starts with its current catalog. */
async function prepareCatalog(prepare: () => Promise<void>, log: Log): Promise<void> {
  try {
    await prepare()
  } catch (error) {
    const kind = error instanceof ServiceError ? error.failure.kind : null
    if (kind !== 'cluster_unreachable' && kind !== 'cluster_newer') throw error
    log.error('config_rejected', 'catalog not applied; the previous one stays active. Later, run: tollgate reload', {
      error: String(error),
    })
  }
}
