/**
 * How a running server is doing: in one word, for `/readyz`, and with its figures, for commands that ask over the control
 * socket.
 */
import { toUpstreamStatuses } from '../documents/upstream.ts'
import type { Snapshot } from '../domain/snapshot.ts'
import type { Fullness } from '../gateway/fullness.ts'
import type { Load } from '../gateway/intake.ts'
import type { Health } from '../health/health.ts'
import type { UpstreamHealth } from '../health/report.ts'
import type { ServerReadiness } from '../http/health.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Watch } from '../store/config-store.ts'
import type { DiskWatch } from './disk-watch.ts'
import type { Status } from './protocol.ts'

/** Whose state tells how the server is doing. */
export interface WatchedParts {
  ledger: Pick<Ledger, 'state'>
  load: Pick<Load, 'isDraining' | 'inFlight' | 'bufferedBytes'>
  fullness: Pick<Fullness, 'reason'>
  disk: Pick<DiskWatch, 'state'>
  health: Pick<Health, 'states'>
  watch: Pick<Watch, 'healthy'>
}

/** What the parts do not know. */
type RunFacts = Pick<Status, 'version' | 'instance' | 'started_ms' | 'url' | 'lost' | 'backups' | 'files'>

/** Tells whether requests are taken, and whether all is well. */
export function toReadiness({ ledger, load, fullness, disk, health, watch }: WatchedParts): ServerReadiness {
  if (load.isDraining) return 'draining'
  if (ledger.state() === 'unavailable') return 'ledger_unavailable'
  if (fullness.reason !== null || (disk.state()?.state ?? 'ok') !== 'ok') return 'degraded'
  return ledger.state() === 'ok' && watch.healthy() && !health.states().some(isMissed) ? 'ok' : 'degraded'
}

/** An upstream that no model leads to may be as it likes. */
const isMissed = ({ state, targets }: UpstreamHealth) => (state === 'down' || state === 'refused') && targets.length > 0

export function toStatus(parts: WatchedParts, snapshot: Snapshot, run: RunFacts): Status {
  const { ledger, load, fullness, disk, health } = parts
  return {
    version: run.version,
    instance: run.instance,
    started_ms: run.started_ms,
    pid: process.pid,
    url: run.url,
    readiness: toReadiness(parts),
    ledger: ledger.state(),
    lost: run.lost,
    disk: disk.state(),
    config_revision: snapshot.revision,
    backups: run.backups,
    full: fullness.reason,
    in_flight: load.inFlight,
    buffered_bytes: load.bufferedBytes,
    files: run.files,
    upstreams: toUpstreamStatuses(snapshot, health.states()),
  }
}
