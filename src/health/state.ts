/**
 * What is known of each upstream and of each target on it, and where that is found again: quickly for a target that was
 * seen before, and over a change of configuration for all that did not change.
 */

import type { Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import { type Breaker, createBreaker } from './breaker.ts'

/** Something held against an upstream or a target, until it passes by itself. */
export interface Penalty {
  reason: string
  untilMs: number
}

export interface UpstreamState {
  upstream: Upstream
  /** No penalty: all that a request has to read. */
  cleared: boolean
  /** It cannot be reached, and is not called. */
  down: Penalty | null
  /** A call was refused for its credential or account: a free probe does not disprove that. */
  refused: Penalty | null
  /** What the last probe held against it. */
  probed: (Penalty & { state: 'refused' | 'degraded' }) | null
  /** The last probe failed, whether or not that counts against it. */
  probeFailed: boolean
  /** It could not be connected to, or kept silent, when it was last called or probed. */
  unreached: boolean
  /** Probes in a row without an answer in time. */
  timeouts: number
  /** Whether it has ever answered. */
  answers: boolean
  /** When a call went well last, on the clock that never steps. */
  workedMs: number
  /** The same for people. */
  lastOkMs: number | null
  lastError: { message: string; at_ms: number } | null
  /** By the upstream's own name of the model. */
  targets: Map<string, TargetState>
}

/** One model of an upstream, whatever models of ours lead to it. */
export interface TargetState {
  owner: UpstreamState
  upstreamModel: string
  /** No penalty, and its breaker is closed for every key. */
  cleared: boolean
  breaker: Breaker
  /** Its model or its address was refused. */
  refused: Penalty | null
  /** Its provider asked for a pause. */
  paused: Penalty | null
}

/** Whether it still holds. */
export const isOn = <P extends Penalty>(penalty: P | null, nowMs: number): penalty is P =>
  penalty !== null && nowMs < penalty.untilMs

export interface States {
  of(upstream: Upstream): UpstreamState
  target(target: Target): TargetState
  all(): Iterable<UpstreamState>
  /** Keeps what did not change, and forgets the rest. */
  renew(snapshot: Snapshot): void
}

export function createStates(): States {
  let states = new Map<string, UpstreamState>()
  /** Targets are objects that live as long as their snapshot. */
  const found = new WeakMap<Target, TargetState>()

  const of = (upstream: Upstream): UpstreamState => {
    const known = states.get(upstream.id)
    // What a call under an old configuration finds out is no news of the present one.
    if (known) return isSame(known.upstream, upstream) ? known : createUpstreamState(upstream)
    const state = createUpstreamState(upstream)
    states.set(upstream.id, state)
    return state
  }

  return {
    of,
    target(target) {
      const known = found.get(target)
      if (known) return known
      const state = targetOf(of(target.upstream), target.upstreamModel)
      found.set(target, state)
      return state
    },
    all: () => states.values(),
    renew(snapshot) {
      const next = new Map<string, UpstreamState>()
      for (const upstream of snapshot.upstreams.values()) {
        const known = states.get(upstream.id)
        const state = known && isSame(known.upstream, upstream) ? known : createUpstreamState(upstream)
        state.upstream = upstream
        next.set(upstream.id, state)
      }
      const routed = new Set<TargetState>()
      for (const { targets } of snapshot.models.values()) {
        for (const { upstream, upstreamModel } of targets) {
          const state = next.get(upstream.id)
          if (state) routed.add(targetOf(state, upstreamModel))
        }
      }
      for (const { targets } of next.values()) {
        for (const [name, target] of targets) if (!routed.has(target)) targets.delete(name)
      }
      states = next
    },
  }
}

/** Whether a call to one would be a call to the other. */
export const isSame = (a: Upstream, b: Upstream): boolean =>
  a.baseUrl === b.baseUrl && a.credential === b.credential && a.dialect === b.dialect

const createUpstreamState = (upstream: Upstream): UpstreamState => ({
  upstream,
  cleared: true,
  down: null,
  refused: null,
  probed: null,
  probeFailed: false,
  unreached: false,
  timeouts: 0,
  answers: false,
  workedMs: Number.NEGATIVE_INFINITY,
  lastOkMs: null,
  lastError: null,
  targets: new Map(),
})

function targetOf(owner: UpstreamState, upstreamModel: string): TargetState {
  const known = owner.targets.get(upstreamModel)
  if (known) return known
  const state = { owner, upstreamModel, cleared: true, breaker: createBreaker(), refused: null, paused: null }
  owner.targets.set(upstreamModel, state)
  return state
}
