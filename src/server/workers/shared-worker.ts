/** The worker's side of `shared.ts`. Configuration and health follow the keeper. The keeper gets the worker's counts and findings. */
import type { Meter } from '../../accounting/meter.ts'
import type { Finished, Speeds } from '../../accounting/settle.ts'
import type { Link } from '../../domain/link.ts'
import type { ProcessHashes } from '../../domain/model-server.ts'
import type { Environment, Snapshot, Target } from '../../domain/snapshot.ts'
import type { AdaptiveConcurrency } from '../../gateway/adaptive-concurrency.ts'
import type { Load, OverloadState } from '../../gateway/admission.ts'
import { createHealth } from '../../health/health.ts'
import type { HealthNews } from '../../health/news.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import { createRefusals, type Refusals } from '../../ledger/refusals.ts'
import { type Log, traceOf } from '../../log.ts'
import type { ConfigStore } from '../../store/config-store.ts'
import { toSnapshot } from '../../store/snapshot.ts'
import type { Vault } from '../../store/vault.ts'
import { takeCounts } from '../../telemetry/registry.ts'
import type { createMetrics } from '../metrics.ts'
import { ServedFacts } from '../served.ts'
import { Outbox } from './outbox.ts'
import {
  BEGIN,
  CHANGES,
  type Configured,
  FINISHED,
  type Figures,
  type FinishedRows,
  GATHER,
  MAX_NEWS,
  NEWS,
  REFUSED,
  REPORT,
  type Report,
  type Speed,
  toRecent,
  type Usage,
} from './shared.ts'
import { RemoteFleet } from './shared-fleet.ts'

export interface WorkerParts {
  store: Pick<ConfigStore, 'read'>
  vault: Pick<Vault, 'open'>
  environment: Environment
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
  speeds: Speeds
  capacity: {
    load: Pick<Load, 'inFlight' | 'bufferedBytes'>
    overload: Pick<OverloadState, 'reason'>
  }
  concurrency: Pick<AdaptiveConcurrency, 'waiting'>
  ledger: Pick<Ledger, 'state'>
  metrics: Pick<ReturnType<typeof createMetrics>, 'registry' | 'rejected' | 'measureLag'>
}

interface MeasuredCall {
  target: Pick<Target, 'upstream' | 'upstreamModel'>
  meter: Pick<Meter, 'tokensPerSecond'>
}

const FIGURES_MS = 250
/** Counts are sent every fourth time. */
const COUNTS_EVERY = 4
const ROWS_MS = 50
const RETRY_MS = 100
/** How long a stop waits for a busy keeper. */
const CLOSE_MS = 1_000

/** Resolves once it has the keeper's configuration and state. */
export async function shareAsWorker(link: Link, parts: WorkerParts) {
  const { monotonicMs, log, speeds, metrics } = parts
  const present = await link.ask(BEGIN, null)
  const configuration = await followConfiguration(present.configured, parts)
  // The keeper logs changes.
  const served = new ServedFacts({ log: { warn() {} }, monotonicMs })
  const health = createHealth({ nowMs: monotonicMs, wallMs: parts.now })
  const live = { snapshot: configuration.snapshot }
  served.onChange = () => {
    live.snapshot = served.over(configuration.snapshot)
  }
  const fleet = new RemoteFleet(link)
  let { isFollowed } = present

  health.renew(configuration.snapshot)
  health.restore(present.known)
  served.take(present.served)
  fleet.renew(present.servers)
  link.on(CHANGES, async (changes) => {
    if (changes.configured && (await configuration.renew(changes.configured))) {
      health.renew(configuration.snapshot)
      live.snapshot = served.over(configuration.snapshot)
    }
    if (changes.served) served.take(changes.served)
    if (changes.servers) fleet.renew(changes.servers)
    for (const speed of changes.speeds ?? []) speeds.take(...speed)
    for (const news of changes.health ?? []) health.take(news)
    isFollowed = changes.isFollowed ?? isFollowed
    return null
  })

  const news = gatherNews(link, log)
  health.share(news.add)
  const rows = gatherRows(link, log)
  const refusals = createRefusals({
    ...{ writer: { add: async (counts) => void (await link.ask(REFUSED, [...counts])) }, onCommit() {} },
    ...{ log, intervalMs: FIGURES_MS },
  })
  const report = reportTo(link, parts)

  return {
    live,
    health,
    fleet,
    refusals: {
      note(...[kind, key, nowMs]: Parameters<Refusals['note']>): void {
        refusals.note(kind, key, nowMs)
        metrics.rejected(kind)
      },
    },
    finished({ row, reason, calls }: Pick<Finished, 'row' | 'reason'> & { calls: readonly MeasuredCall[] }): void {
      if (isFollowed) rows.add({ row, reason })
      report.measured(calls)
    },
    /** Call before the link closes. Sends gathered data. */
    async close(): Promise<void> {
      const told = Promise.all([refusals.close(), report.close(), news.outbox.flush(), rows.outbox.flush()])
      await Promise.race([told, Bun.sleep(CLOSE_MS)])
    },
  }
}

async function followConfiguration(first: Configured, { store, vault, environment, log }: WorkerParts) {
  const read = async ({ processes }: Configured): Promise<Snapshot> => {
    const rows = await store.read()
    const byUpstream: ProcessHashes['byUpstream'] = new Map(processes.map(([id, hash]) => [id, { hash }]))
    return toSnapshot(rows, environment, await vault.open(rows.sealed), { byUpstream })
  }
  const configuration = {
    snapshot: await read(first),
    /** Retries until the configuration can be read. Returns whether it was read. */
    async renew(configured: Configured): Promise<boolean> {
      if (!configured.isForced && configured.revision === configuration.snapshot.revision) return false
      for (let tries = 0; ; tries++) {
        try {
          configuration.snapshot = await read(configured)
          if (tries > 0) log.info('config_readable', 'configuration changes can be read again')
          return true
        } catch (error) {
          if (tries === 0)
            log.error('config_unreadable', 'configuration changes cannot be read; the previous ones stay active', {
              error: traceOf(error),
            })
          await Bun.sleep(RETRY_MS)
        }
      }
    },
  }
  return configuration
}

function gatherNews(link: Link, log: Log) {
  let gathered: HealthNews[] = []
  const outbox = new Outbox({
    take() {
      const news = gathered
      gathered = []
      return news.length === 0 ? null : news
    },
    send: (news) => link.ask(NEWS, news),
    gatherMs: 0,
    log,
  })
  return {
    outbox,
    add(one: HealthNews): void {
      gathered = toRecent(gathered, [one])
      outbox.wake()
    },
  }
}

function gatherRows(link: Link, log: Log) {
  let gathered: FinishedRows = { rows: [], dropped: 0 }
  const outbox = new Outbox({
    take() {
      const finished = gathered
      gathered = { rows: [], dropped: 0 }
      return finished.rows.length === 0 ? null : finished
    },
    send: (finished) => link.ask(FINISHED, finished),
    gatherMs: ROWS_MS,
    log,
  })
  return {
    outbox,
    add(one: FinishedRows['rows'][number]): void {
      if (gathered.rows.length < MAX_NEWS) gathered.rows.push(one)
      else gathered.dropped++
      outbox.wake()
    },
  }
}

/** Sends figures when they change, and counts every second. */
function reportTo(link: Link, { capacity, concurrency, ledger, metrics, log }: WorkerParts) {
  const { load, overload } = capacity
  const speeds = new Map<string, Speed>()
  let told = ''
  let turns = 0
  let areCountsDue = false

  const toFigures = (): Figures => ({
    ...{ inFlight: load.inFlight, bufferedBytes: load.bufferedBytes, overload: overload.reason },
    ledger: ledger.state(),
    waiting: [...concurrency.waiting()].filter(([, calls]) => calls > 0),
  })
  const takeFigures = (): Report => {
    const figures = toFigures()
    const text = JSON.stringify(figures)
    if (text === told) return {}
    told = text
    return { figures }
  }
  const takeCounted = (): Report => {
    const counts = takeCounts(metrics.registry)
    const measured = [...speeds.values()]
    speeds.clear()
    return {
      ...(counts && { counts, usage: readUsage() }),
      ...(measured.length > 0 && { speeds: measured }),
    }
  }
  const outbox = new Outbox({
    take() {
      const report = { ...takeFigures(), ...(areCountsDue ? takeCounted() : {}) }
      areCountsDue = false
      return Object.keys(report).length === 0 ? null : report
    },
    send: (report) => link.ask(REPORT, report),
    gatherMs: 0,
    log,
  })
  const timer = setInterval(() => {
    areCountsDue ||= ++turns % COUNTS_EVERY === 0
    outbox.wake()
  }, FIGURES_MS).unref()
  void link.ended.then(() => clearInterval(timer))
  link.on(GATHER, () => {
    metrics.measureLag()
    return { ...takeFigures(), ...takeCounted(), usage: readUsage() }
  })

  return {
    measured(calls: readonly MeasuredCall[]): void {
      for (const { target, meter } of calls) {
        const { upstream, upstreamModel } = target
        const speed = upstream.local ? meter.tokensPerSecond : null
        if (speed !== null) speeds.set(`${upstream.id}\n${upstreamModel}`, [upstream.id, upstreamModel, speed])
      }
    },
    async close(): Promise<void> {
      clearInterval(timer)
      areCountsDue = true
      await outbox.flush()
    },
  }
}

function readUsage(): Usage {
  const { user, system } = process.cpuUsage()
  return { cpuSeconds: (user + system) / 1_000_000, rssBytes: process.memoryUsage.rss() }
}
