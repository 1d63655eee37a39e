/**
 * What a running server knows beside its database: what keys have used up, and how upstreams are doing. Filled from the
 * ledger at start, renewed with each snapshot, gone with the process. Built by `server.ts`.
 */

import type { Key, Snapshot, Upstream } from '../domain/snapshot.ts'
import { createHealth, type Health } from '../health/health.ts'
import { createProber, type Prober } from '../health/prober.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { createLimiter, type Limiter, type Moment } from '../limits/limiter.ts'
import type { Log } from '../log.ts'
import type { LedgerReader, Scope } from '../store/ledger-store.ts'
import type { Backend } from '../upstreams/backend.ts'

export interface LiveDeps {
  snapshot(): Snapshot
  reader: Pick<LedgerReader, 'spent' | 'recent'>
  ledger: Pick<Ledger, 'unapplied'>
  backendFor(at: { upstream: Upstream }): Backend
  /** How often upstreams are probed, ms; 0 = only those that could not be reached. */
  probeMs: number
  moment(): Moment
  log: Log
}

export interface Live {
  limiter: Limiter
  health: Health
  prober: Prober
  /** Takes over a new configuration. Throws where the ledger cannot be read; then what was in force stays. */
  renew(snapshot: Snapshot): void
}

const MINUTE_MS = 60_000

export function createLive({ snapshot, reader, ledger, backendFor, probeMs, moment, log }: LiveDeps): Live {
  const limiter = createLimiter({
    onWarning: ({ scope, name, spentNanoUsd, budget, percent }) =>
      log.warn('budget_threshold', 'a budget is being used up', {
        [scope.kind]: scope.id,
        name,
        threshold_percent: percent,
        spent_nano_usd: spentNanoUsd,
        budget_nano_usd: budget.nanoUsd,
        period: budget.period,
      }),
  })
  const health = createHealth({
    nowMs: () => moment().monotonicMs,
    wallMs: () => moment().wallMs,
    log,
    onUnreached: () => prober.kick(),
  })
  const prober: Prober = createProber({ health, snapshot, backendFor, intervalMs: probeMs, log })
  const { monotonicMs, wallMs } = moment()
  const past = reader.recent(wallMs - MINUTE_MS)
  limiter.replay(
    past.map(({ createdMs, ...request }) => ({ ...request, agoMs: wallMs - createdMs })),
    monotonicMs,
  )
  // The database alone never says what was spent: it is a moment behind the journal.
  const spent = (scope: Scope, fromMs: number) => reader.spent(scope, fromMs) + ledger.unapplied(scope, fromMs)
  const renew = (next: Snapshot) => {
    limiter.renew(keysOf(next), next.teams.values(), spent, moment())
    health.renew(next)
  }
  renew(snapshot())
  return { limiter, health, prober, renew }
}

/** Each key once, however many secrets open it. */
const keysOf = ({ secrets }: Snapshot): Set<Key> => new Set([...secrets.values()].map(({ key }) => key))
