/** Values that metrics read at each scrape, in addition to counters. */
import type { ListedBackup } from '../../backup/backup-list.ts'
import type { CertificateState } from '../../documents/server.ts'
import type { Snapshot } from '../../domain/snapshot.ts'
import { NANO_PER_USD } from '../../domain/usage.ts'
import type { AdaptiveConcurrency } from '../../gateway/adaptive-concurrency.ts'
import type { UpstreamHealth } from '../../health/health.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import type { BudgetUse } from '../../limits/budget.ts'
import type { NodeLimiter } from '../../limits/limiter.ts'
import { HEALTH_STATES, MOST_BUDGETS } from '../../telemetry/definitions.ts'
import type { Point, Readings } from '../../telemetry/exposition.ts'
import type { Workers } from '../workers/shared.ts'
import { toReadiness, type WatchedParts } from './admin-view.ts'

export interface ReadingsDeps {
  version: string
  startedMs: number
  live: { readonly snapshot: Snapshot; limiter: Pick<NodeLimiter, 'budgetUses'> }
  watched: WatchedParts & { ledger: Pick<Ledger, 'backlog'> }
  concurrency: Pick<AdaptiveConcurrency, 'waiting'>
  maxInFlight: number
  /** Workers that answer requests; null if this process answers all. */
  workers?: Pick<Workers, 'gather' | 'usage'> | null
  shelf: { list(): Promise<ListedBackup[]>; scheduledFailed(): string | null }
  /** Wall clock, ms. */
  now(): number
}

export async function createReadings(deps: ReadingsDeps): Promise<Readings> {
  const { version, startedMs, live, watched, concurrency, maxInFlight, workers, shelf, now } = deps
  await workers?.gather()
  const ofWorkers = workers?.usage() ?? { cpuSeconds: 0, rssBytes: 0 }
  const { snapshot, limiter } = live
  const { load, ledger, health, fleet, disk, tls } = watched
  const cluster = watched.cluster?.state()
  const staleMs = cluster?.facts.config_stale_since_ms ?? now()
  const newest = (await shelf.list().catch(() => [])).at(-1)
  const upstreams = health.states()
  const backlog = ledger.backlog()
  const used = disk.state()
  const keys = findMostUsed(limiter.budgetUses('key', now()))
  const teams = findMostUsed(limiter.budgetUses('team', now()))
  const ofTeam = ({ id }: BudgetUse) => [nameOf('team', id)]
  const ofKey = ({ id, name }: BudgetUse) => [name, id]
  const nameOf: Readings['nameOf'] = (owner, id) => (owner === 'team' ? (snapshot.teams.get(id)?.name ?? id) : id)
  return {
    nameOf,
    read: {
      build: () => one(1, version, Bun.version),
      readiness: () => one(1, toReadiness(watched)),
      inFlight: () => one(load.inFlight),
      maxInFlight: () => one(maxInFlight),
      buffered: () => one(load.bufferedBytes),
      queued: () => toQueued(upstreams, fleet, concurrency),
      state: () => upstreams.flatMap(toStates),
      breakers: () => upstreams.map(({ id, targets }) => toPoint(targets.filter(isOpen).length, id)),
      suspended: () => upstreams.flatMap(toSuspended),
      keyBudget: () => keys.map((use) => toPoint(use.nanoUsd / NANO_PER_USD, ...ofKey(use))),
      keyLeft: () => keys.map((use) => toPoint(toLeft(use), ...ofKey(use))),
      teamBudget: () => teams.map((use) => toPoint(use.nanoUsd / NANO_PER_USD, ...ofTeam(use))),
      teamLeft: () => teams.map((use) => toPoint(toLeft(use), ...ofTeam(use))),
      pending: () => one(backlog.records),
      pendingAge: () => one(backlog.ms / 1_000),
      diskUsed: () => (used === null ? [] : one(used.used_bytes)),
      diskFree: () => (used === null ? [] : one(used.free_bytes)),
      backupAge: () => (newest === undefined ? [] : one(newest.madeMs / 1_000)),
      backupFailed: () => one(shelf.scheduledFailed() === null ? 0 : 1),
      certificate: () => toExpiries(tls?.states() ?? []),
      cluster: () => (cluster ? one(Number(cluster.reachable)) : []),
      clusterNodes: () => (cluster ? one(cluster.living_nodes) : []),
      clusterConfigAge: () => (cluster ? one(Math.max(0, now() - Number(staleMs)) / 1_000) : []),
      unshipped: () => (cluster ? one(Number(cluster.facts.ledger_pending_entries ?? 0)) : []),
      unshippedAge: () => (cluster ? one(Number(cluster.facts.ledger_pending_ms ?? 0) / 1_000) : []),
      clusterLimits: () => (cluster ? one(Number(cluster.facts.limits_apart !== true)) : []),
      clusterLeader: () => (cluster ? one(Number(cluster.leader)) : []),
      cpu: () => {
        const { user, system } = process.cpuUsage()
        return one((user + system) / 1_000_000 + ofWorkers.cpuSeconds)
      },
      rss: () => one(process.memoryUsage.rss() + ofWorkers.rssBytes),
      started: () => one(startedMs / 1_000),
    },
  }
}

const toPoint = (value: number, ...labels: string[]): Point => ({ value, labels })
const one = (value: number, ...labels: string[]): Point[] => [toPoint(value, ...labels)]

const isOpen = ({ breaker }: UpstreamHealth['targets'][number]) => breaker !== 'closed'

const toStates = ({ id, state }: UpstreamHealth): Point[] =>
  HEALTH_STATES.map((each) => toPoint(each === state ? 1 : 0, id, each))

const toSuspended = ({ id, suspended }: UpstreamHealth): Point[] =>
  (['refused', 'out_of_quota'] as const).map((state) =>
    toPoint(suspended.filter((one) => one.state === state).length, id, state),
  )

/** One point per certificate, by its first name. Of several with the same name, the earliest expiry. */
function toExpiries(states: readonly CertificateState[]): Point[] {
  const first = new Map<string, number>()
  for (const { names, expires_ms: ms } of states) {
    const name = names[0] ?? ''
    first.set(name, Math.min(ms, first.get(name) ?? ms))
  }
  return [...first].map(([name, ms]) => toPoint(ms / 1_000, name))
}

function toQueued(
  upstreams: readonly UpstreamHealth[],
  fleet: WatchedParts['fleet'],
  concurrency: ReadingsDeps['concurrency'],
): Point[] {
  const waiting = new Map(concurrency.waiting())
  return upstreams.flatMap(({ id }) => {
    const status = fleet.status(id)
    const calls = waiting.get(id)
    return status === null && calls === undefined ? [] : toPoint((status?.queued ?? 0) + (calls ?? 0), id)
  })
}

const toLeft = ({ nanoUsd, spentNanoUsd, reservedNanoUsd }: BudgetUse) =>
  (nanoUsd - spentNanoUsd - reservedNanoUsd) / NANO_PER_USD

const toShare = ({ nanoUsd, spentNanoUsd, reservedNanoUsd }: BudgetUse) =>
  nanoUsd === 0 ? 1 : (spentNanoUsd + reservedNanoUsd) / nanoUsd

/** Sorting ten thousand takes too long for the event loop, so most are dropped first. */
function findMostUsed(uses: Iterable<BudgetUse>): BudgetUse[] {
  let kept: BudgetUse[] = []
  let least = Number.NEGATIVE_INFINITY
  for (const use of uses) {
    if (toShare(use) <= least) continue
    kept.push(use)
    if (kept.length < 2 * MOST_BUDGETS) continue
    kept = toMostUsed(kept)
    least = toShare(kept.at(-1) as BudgetUse)
  }
  return toMostUsed(kept)
}

const toMostUsed = (uses: readonly BudgetUse[]) =>
  uses.toSorted((a, b) => toShare(b) - toShare(a)).slice(0, MOST_BUDGETS)
