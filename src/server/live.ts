/** Configuration snapshot, limits, and upstream health of a running server. */
import type { DialectName } from '../domain/dialects.ts'
import { LATEST_MS } from '../domain/id.ts'
import { NO_PROCESSES, type ProcessSpecs } from '../domain/model-server.ts'
import type { Environment, Snapshot, Upstream } from '../domain/snapshot.ts'
import { createHealth } from '../health/health.ts'
import { createProber, type Prober } from '../health/prober.ts'
import type { OwnLedger } from '../ledger/ledger.ts'
import type { OtherJournals } from '../ledger/other-journals.ts'
import type { SpentOf } from '../limits/budget.ts'
import { createLimiter, type LimiterOptions, type NodeLimiter, type PastRequest } from '../limits/limiter.ts'
import { MAX_STEP_MS } from '../limits/period.ts'
import type { Log } from '../log.ts'
import type { Fleet } from '../processes/fleet.ts'
import type { ConfigStore } from '../store/config-store.ts'
import type { LedgerReader } from '../store/ledger-store.ts'
import { toSnapshot } from '../store/snapshot.ts'
import type { Vault } from '../store/vault.ts'
import { createPaced } from '../threads/pace.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import type { ServedFacts } from './served.ts'

export interface LiveDeps {
  store: Pick<ConfigStore, 'read'>
  vault: Pick<Vault, 'open'>
  environment: Environment
  reader: Pick<LedgerReader, 'spent' | 'underWay' | 'recent' | 'latestHour'>
  ledger: Pick<OwnLedger, 'unapplied'>
  backends: Readonly<Record<DialectName, Backend>>
  /** Health check interval of upstreams, ms; 0 = only of unreachable ones. */
  probeMs: number
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
  loadProcesses(): Promise<ProcessSpecs>
  fleet: Pick<Fleet, 'renew'>
  served: ServedFacts
  /** Limits that all nodes of a cluster share; by default, this server has its own. */
  shareLimits?(parts: {
    onWarning: NonNullable<LimiterOptions['onWarning']>
    recent(): PastRequest[]
  }): Promise<NodeLimiter>
  /** Servers that finish their requests, and workers. */
  others?: Pick<OtherJournals, 'open' | 'hasPredecessors' | 'follow'>
}

const MINUTE_MS = 60_000

export async function createLive(deps: LiveDeps) {
  const { store, vault, environment, reader, ledger, backends, probeMs, now, monotonicMs, log, fleet, served } = deps
  let processes: { wanted: string; specs: ProcessSpecs } = { wanted: '[]', specs: NO_PROCESSES }
  /** If a file can't be read, the previous commands stay, so that other changes, such as a revoked key, still apply. */
  const loadProcesses = () =>
    deps.loadProcesses().catch((error: unknown) => {
      const what = 'model server commands cannot be read; the previous ones stay active'
      log.error('config_rejected', what, { error: String(error) })
      return processes.specs
    })
  /** @param isForced whether files may have changed without a change of rows. */
  const read = async (isForced: boolean) => {
    const rows = await store.read()
    const managed = rows.upstreams.filter(({ options }) => options.process !== undefined)
    const wanted = JSON.stringify(managed.map(({ id, options }) => [id, options.process]))
    if (managed.length > 0 && (isForced || wanted !== processes.wanted))
      processes = { wanted, specs: await loadProcesses() }
    if (managed.length === 0) processes = { wanted, specs: NO_PROCESSES }
    return toSnapshot(rows, environment, await vault.open(rows.sealed), processes.specs)
  }
  const first = await read(true)
  const wallMs = now()
  const onWarning: LimiterOptions['onWarning'] = ({ spender, name, spentNanoUsd, budget, percent }) =>
    log.warn('budget_threshold', 'budget threshold reached', {
      [spender.kind]: spender.id,
      name,
      threshold_percent: percent,
      spent_nano_usd: spentNanoUsd,
      budget_nano_usd: budget.nanoUsd,
      period: budget.period,
    })
  const recent = (): PastRequest[] => {
    const nowMs = now()
    return reader
      .recent(nowMs - MINUTE_MS)
      .map(({ createdMs, ...request }) => ({ ...request, agoMs: nowMs - createdMs }))
  }
  const openOwn = () => {
    const own = createLimiter({ latestMs: reader.latestHour(wallMs + MAX_STEP_MS), onWarning })
    own.replay(recent(), monotonicMs())
    return own
  }
  const limiter: NodeLimiter = (await deps.shareLimits?.({ onWarning, recent })) ?? openOwn()
  const health = createHealth({
    nowMs: monotonicMs,
    wallMs: now,
    log,
    onUnreached(upstream) {
      served.unreached(upstream)
      prober.trigger()
    },
  })
  const probed = (upstream: Upstream, found: Readiness) => {
    health.probed(upstream, found)
    served.probed(upstream, found)
  }
  const prober: Prober = createProber({
    health: { inUse: health.inUse, probed },
    backendFor: ({ upstream }) => backends[upstream.dialect],
    intervalMs: probeMs,
    log,
  })
  logClock(log, wallMs, reader.latestHour(LATEST_MS))
  // The database lags behind the journal, so add unapplied records to its spend.
  const spent: SpentOf = (spender, span, inFlight) => {
    for (const [id, nanoUsd] of reader.underWay(spender, span)) inFlight.set(id, nanoUsd)
    return reader.spent(spender, span) + ledger.unapplied(spender, span, inFlight)
  }
  /** Throws if the ledger can't be read; then nothing changes. */
  const renew = (next: Snapshot, spentOf: SpentOf) => {
    // Each key once, whatever its number of secrets.
    const opened = [...next.secrets.values()].map(({ key }) => key)
    const keys = new Set([...opened, ...next.playgrounds.values()])
    limiter.renew(keys, next.teams.values(), spentOf, { monotonicMs: monotonicMs(), wallMs: now() })
    health.renew(next)
    fleet.renew(next, processes.specs)
  }
  const { others } = deps
  // Otherwise nothing is in flight yet, and reading ten thousand budgets would double the start time.
  if (others?.hasPredecessors()) renew(first, spent)
  else renew(first, (spender, span) => reader.spent(spender, span) + ledger.unapplied(spender, span))
  const held = new Map((others?.open() ?? []).map((one) => [one.id, limiter.hold(one, monotonicMs())]))
  others?.follow((request) => {
    held.get(request.id)?.()
    held.delete(request.id)
    limiter.ended(request)
  })

  /** As configured, without reported facts. */
  let configured = first
  let isForced = false
  const rebuild = createPaced(
    async () => {
      const forced = isForced
      isForced = false
      const next = await read(forced)
      renew(next, spent)
      logNotReady(next, log, live.snapshot)
      configured = next
      live.snapshot = served.over(next)
      prober.trigger()
    },
    { monotonicMs, sleep: Bun.sleep },
  )
  const live = {
    limiter,
    health,
    prober,
    snapshot: served.over(first),
    /** Processes of `snapshot`. */
    processes: () => processes.specs,
    /** A refresh waits for this. @param isForced whether files may have changed without a change of rows. */
    onRenewed: async (_isForced: boolean): Promise<void> => {},
    /** Rereads and applies the configuration, unless this revision is current. Concurrent calls share a read. */
    async refresh(revision?: number): Promise<void> {
      if (revision === live.snapshot.revision) return
      isForced ||= revision === undefined
      await rebuild()
      await live.onRenewed(revision === undefined)
    },
  }
  served.onChange = () => {
    live.snapshot = served.over(configured)
  }
  return live
}

const EARLIEST_MS = Date.UTC(2020, 0)

/** Key expiry, budget periods, and the ledger depend on the clock. */
function logClock(log: Log, wallMs: number, newestMs: number): void {
  const clock = new Date(wallMs).toISOString()
  if (wallMs < EARLIEST_MS) log.warn('clock_skew', 'system clock is wrong; set it', { clock })
  if (newestMs <= wallMs) return
  const newest = new Date(newestMs).toISOString()
  const what = 'system clock was set back or was ahead; the ledger has later requests'
  log.warn('clock_skew', what, { clock, newest })
}

/** @param before the previous snapshot: unchanged reasons are not logged again. */
export function logNotReady({ upstreams }: Snapshot, log: Log, before?: Snapshot): void {
  for (const { id, notReady } of upstreams.values()) {
    if (!notReady || before?.upstreams.get(id)?.notReady === notReady) continue
    log.warn('upstream_not_ready', 'upstream not ready', { upstream: id, reason: notReady })
  }
}
