/**
 * How the upstreams are doing, and each target (a model there): fed by every call and by the prober; read by the order of
 * targets, `is_ready`, `/readyz` and the control socket. A breaker for each target, penalties that pass by themselves,
 * and the last error in words, all in memory; the clock comes in.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { confirmFailures } from './breaker.ts'
import { createMarks, type MarkDeps } from './marks.ts'
import { RequestHealth, tellOpened } from './request.ts'
import { toUpstreamHealth } from './standing.ts'
import { createStates } from './state.ts'

/**
 * How a target stands for the next request of a key: `degraded` = tried after all healthy ones (its credential or model
 * was refused, a probe met with trouble, its provider wants a pause, its breaker is half-open); `unavailable` = not
 * called at all (it is down, or its breaker is open).
 */
export type Standing = 'healthy' | 'degraded' | 'unavailable'

/**
 * How a call goes, seen from the upstream: `begun` = its answer has reached the commit point; `ok` = and came to its
 * end; `aborted` = was ended by us or the client, or kept back by a limit of ours, and says nothing of it.
 */
export type CallNews = 'begun' | 'ok' | 'aborted' | UpstreamError

export interface Unavailable {
  reason: string
  retryAfterMs: number
}

export interface Health {
  /** How targets stand for one request, which tells how its calls go. Of a healthy target it costs one look into a map. */
  forRequest(keyId: string): RequestHealth
  /** What a free probe found. */
  probed(upstream: Upstream, readiness: Readiness): void
  /** Upstreams that could not be reached last, or were late for the first time: they are probed again soon. */
  unreached(): Upstream[]
  /** Takes over a new configuration: what is gone or has another address or credential is forgotten. */
  renew(snapshot: Snapshot): void
  /** Everything that is known, for the control socket. */
  states(): UpstreamHealth[]
}

export interface UpstreamHealth {
  id: string
  /**
   * `refused` = it refuses its credential or account; `degraded` = it was late or had an error when it was probed;
   * `unknown` = nothing was tried yet. Only what is `down` or `not_ready` is not called at all.
   */
  state: 'healthy' | 'degraded' | 'refused' | 'down' | 'unknown' | 'not_ready'
  /** Why it is neither `healthy` nor `unknown`, in words. */
  reason: string | null
  last_ok_ms: number | null
  last_error: { message: string; at_ms: number } | null
  targets: {
    model: string
    upstream_model: string
    breaker: 'closed' | 'open' | 'half_open'
    /** Where it is not closed for some keys only: for how many. */
    open_for_keys: number | null
    failures_in_a_row: number
    /** Until the breaker half-opens; null where it is closed. */
    retry_in_ms: number | null
    /** Why it comes after others whatever its breaker: its model was refused, or its provider wants a pause. */
    reason: string | null
  }[]
}

export interface HealthDeps extends MarkDeps {
  /** An upstream could not be reached just now: the prober wants to know. */
  onUnreached?(): void
}

/** Builds the account of all upstreams; nothing is held against anyone at first. */
export function createHealth(deps: HealthDeps): Health {
  const marks = createMarks(deps)
  const states = createStates()
  let models: Snapshot['models'] = new Map()
  return {
    forRequest: (keyId) => new RequestHealth(keyId, states, marks, deps),
    probed(upstream, readiness) {
      if (readiness.state === 'not_made') return
      const state = states.of(upstream)
      marks.probed(state, readiness)
      if (!state.probeFailed) return
      for (const target of state.targets.values()) {
        if (confirmFailures(target.breaker, deps.nowMs())) tellOpened(deps, target, null)
      }
      deps.onUnreached?.()
    },
    unreached: () =>
      [...states.all()]
        .filter(({ unreached, timeouts }) => unreached || timeouts === 1)
        .map(({ upstream }) => upstream),
    renew(snapshot) {
      models = snapshot.models
      states.renew(snapshot)
    },
    states: () => [...states.all()].map((state) => toUpstreamHealth(state, models, deps.nowMs())),
  }
}
