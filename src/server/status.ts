/** How a running server is, in a word for `/readyz` and in full for the control socket. Built by `server.ts`. */

import type { Snapshot } from '../domain/snapshot.ts'
import type { LoadShedder } from '../gateway/load.ts'
import type { Health, UpstreamHealth } from '../health/health.ts'
import type { Readiness } from '../http/health.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { type Status, toUpstreamStatuses } from './protocol.ts'

export interface StatusDeps {
  facts: Pick<Status, 'version' | 'instance' | 'started_ms'>
  isDraining(): boolean
  /** Whether changes of the configuration are noticed. */
  isWatching(): boolean
  snapshot(): Snapshot
  ledger: Pick<Ledger, 'state'>
  health: Pick<Health, 'states'>
  load: Pick<LoadShedder, 'inFlight' | 'bufferedBytes'>
}

export interface StatusReader {
  readiness(): Readiness
  /** @param url where it serves; ends in `/v1` */
  status(url: string): Status
}

/** An upstream that no model leads to may be as it likes. */
const isMissed = ({ state, targets }: UpstreamHealth) => (state === 'down' || state === 'refused') && targets.length > 0

export function createStatus(deps: StatusDeps): StatusReader {
  const { facts, isDraining, isWatching, snapshot, ledger, health, load } = deps

  const readiness = (): Readiness => {
    if (isDraining()) return 'draining'
    const ledgerState = ledger.state()
    if (ledgerState === 'unavailable') return 'ledger_unavailable'
    return ledgerState === 'ok' && isWatching() && !health.states().some(isMissed) ? 'ok' : 'degraded'
  }

  return {
    readiness,
    status: (url) => ({
      ...facts,
      pid: process.pid,
      url,
      readiness: readiness(),
      ledger: ledger.state(),
      config_revision: snapshot().revision,
      in_flight: load.inFlight(),
      buffered_bytes: load.bufferedBytes(),
      upstreams: toUpstreamStatuses(snapshot(), health.states()),
    }),
  }
}
