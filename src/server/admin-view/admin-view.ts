/** Readiness and status of a running server, and data for the admin API. */
import type { Speeds } from '../../accounting/settle.ts'
import type { Serving } from '../../admin/deps.ts'
import type { BackupList } from '../../backup/backup-list.ts'
import type { Cluster } from '../../cluster/cluster.ts'
import type { Reason, ServerReadiness } from '../../documents/server.ts'
import { type FiguresOf, toUpstreamStatuses } from '../../documents/upstream.ts'
import type { Snapshot } from '../../domain/snapshot.ts'
import { isReady, UPSTREAM_STATES } from '../../domain/upstream-state.ts'
import type { Load, OverloadState } from '../../gateway/admission.ts'
import type { Health, UpstreamHealth } from '../../health/health.ts'
import { ANY_KEY, listModels } from '../../http/models.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import type { Fleet } from '../../processes/fleet.ts'
import type { Watch } from '../../store/config-store.ts'
import type { DiskWatch } from '../disk.ts'
import { checkBackups, checkDisk, checkServer } from '../findings.ts'
import { listModels as askForModels } from '../outward/questions.ts'
import type { Status } from '../protocol.ts'
import type { Tls } from '../tls/tls.ts'

export interface WatchedParts {
  ledger: Pick<Ledger, 'state'>
  load: Pick<Load, 'isDraining' | 'inFlight' | 'bufferedBytes'>
  overload: Pick<OverloadState, 'reason'>
  disk: Pick<DiskWatch, 'state'>
  health: Pick<Health, 'states'>
  fleet: Pick<Fleet, 'status'>
  watch: Pick<Watch, 'healthy'>
  /** Null without TLS. */
  tls: Pick<Tls, 'states'> | null
  /** Null without `--cluster`. */
  cluster: Pick<Cluster, 'problems' | 'state'> | null
  figuresOf: FiguresOf
}

export type RunFacts = Pick<
  Status,
  'version' | 'instance' | 'started_ms' | 'url' | 'lost' | 'backups' | 'files' | 'untrusted_proxy'
>

export function toReadiness(parts: WatchedParts): ServerReadiness {
  if (parts.load.isDraining) return 'draining'
  if (parts.ledger.state() === 'unavailable') return 'ledger_unavailable'
  return toReasons(parts).length === 0 ? 'ok' : 'degraded'
}

/** Problems, in sentences; empty if there are none. */
export const toReasons = (parts: WatchedParts): string[] => findReasons(parts).map(({ text }) => text)

/** Problem of a cluster node that other nodes report; null without one, or if all nodes have it. */
export const toOwnProblem = (parts: WatchedParts): string | null =>
  findReasons(parts).find(({ about }) => !OF_ALL.includes(about))?.text ?? null

const OF_ALL: readonly Reason['about'][] = ['shutdown', 'upstream']

function findReasons({ ledger, load, overload, disk, health, watch, tls, cluster }: WatchedParts): Reason[] {
  const found: [about: Reason['about'], text: string | false | null][] = [
    ['shutdown', load.isDraining && 'The server is shutting down.'],
    ['ledger', LEDGER[ledger.state()]],
    [
      'overload',
      overload.reason !== null &&
        `Rejecting requests, at capacity: ${overload.reason}. Look in the log for a key with many requests, or raise --max-in-flight or --max-buffered.`,
    ],
    ['disk', DISK[disk.state()?.state ?? 'ok']],
    [
      'configuration',
      !watch.healthy() &&
        'Configuration changes cannot be read; the previous configuration stays active. See the log for the reason.',
    ],
    ...(cluster?.problems() ?? []).map((text) => ['cluster', text] as [Reason['about'], string]),
    ...(tls?.states() ?? []).map(({ problem }) => ['certificate', problem] as [Reason['about'], string | null]),
    ...health
      .states()
      .filter(isMissed)
      .map(
        ({ id, state }) => ['upstream', `Upstream ${id} ${UPSTREAM_STATES[state].says}.`] as [Reason['about'], string],
      ),
  ]
  return found.flatMap(([about, text]) => (text === false || text === null ? [] : [{ about, text }]))
}

const LEDGER = {
  ok: null,
  behind: 'Ledger rows have been pending for 10 s: the database is locked, or its disk is full or slow.',
  unavailable: 'The journal is full: its disk has no space left, or it has reached --max-journal-size.',
} as const

const DISK = {
  ok: null,
  filling: 'Disk space is low, or --disk-budget is nearly used up.',
  full: 'The disk is full, or --disk-budget is used up.',
} as const

/** Ignores upstreams without a route. */
const isMissed = (upstream: UpstreamHealth) => !isReady(upstream) && upstream.targets.length > 0

const toOwnStatus = (parts: WatchedParts, run: RunFacts) => ({
  ...run,
  readiness: toReadiness(parts),
  reasons: toReasons(parts),
  ledger: parts.ledger.state(),
  disk: parts.disk.state(),
  certificates: parts.tls?.states() ?? [],
  cluster: parts.cluster?.state() ?? null,
  in_flight: parts.load.inFlight,
  buffered_bytes: parts.load.bufferedBytes,
})

export function toStatus(parts: WatchedParts, snapshot: Snapshot, run: RunFacts): Status {
  return {
    ...toOwnStatus(parts, run),
    pid: process.pid,
    config_revision: snapshot.revision,
    upstreams: toUpstreamStatuses(snapshot, parts.health.states(), parts.fleet, parts.figuresOf),
  }
}

export interface ServingDeps extends Pick<Serving, 'settings' | 'test' | 'play' | 'modelsAt' | 'cluster'> {
  live: { readonly snapshot: Snapshot; refresh(): Promise<void> }
  health: Pick<Health, 'states' | 'forRequest'>
  ledger: Pick<Ledger, 'flush'>
  fleet: Pick<Fleet, 'status' | 'stateOf'>
  speeds: Pick<Speeds, 'of'>
  watched: WatchedParts
  shelf: Pick<BackupList, 'list'>
  run(): RunFacts
  backupKeep: number
  /** Wall clock, ms. */
  now(): number
}

export function createServing(deps: ServingDeps): Serving {
  const { live, health, fleet, speeds, watched, settings, test, play, modelsAt, cluster } = deps
  return {
    ...{ settings, test, play, modelsAt, cluster },
    async status() {
      const [{ waiting }, all] = await Promise.all([deps.ledger.flush(), deps.shelf.list()])
      const { instance: _, files, untrusted_proxy, ...status } = toOwnStatus(watched, deps.run())
      const { disk, backups, started_ms } = status
      const newestMs = all.at(-1)?.madeMs ?? null
      const newestScheduledMs = all.findLast(({ kind }) => kind === 'scheduled')?.madeMs ?? null
      return {
        ...status,
        pending_records: waiting,
        backups: { ...backups, keep: deps.backupKeep, newest_ms: newestMs },
        checks: [
          ...(disk === null ? [] : [checkDisk(disk)]),
          checkBackups({ backups, started_ms }, newestScheduledMs, deps.now()),
          ...checkServer({ ...status, files, untrusted_proxy }, deps.now()),
        ],
      }
    },
    reasons: () => findReasons(watched),
    environment: {},
    readSnapshot: async () => live.snapshot,
    upstreams: () => toUpstreamStatuses(live.snapshot, health.states(), fleet, watched.figuresOf),
    modelsOf: (teamId) =>
      listModels({ live, health, serverStateOf: fleet.stateOf, speedOf: speeds.of }, { ...ANY_KEY, teamId }),
    async models(id) {
      const upstream = live.snapshot.upstreams.get(id)
      return upstream ? askForModels(upstream) : null
    },
    playgroundKey: (adminId) => live.snapshot.playgrounds.get(adminId) ?? null,
    refresh: live.refresh,
  }
}
