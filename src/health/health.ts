/**
 * How the upstreams are doing, and each target (a model there), all in memory: told by every call and by the prober; read by
 * the order of targets, `is_ready`, `/readyz` and the control socket.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Key, Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { toCredentialFailure } from '../upstreams/failure.ts'
import type { CallingRequest } from './circuit.ts'
import { takeFailure, takeProbe } from './findings.ts'
import { toUpstreamHealth, type UpstreamHealth } from './report.ts'
import { type HealthDeps, type TargetState, UpstreamState } from './state.ts'

export type Health = ReturnType<typeof createHealth>

/** Builds the account of all upstreams; nothing is held against anyone at first. */
export function createHealth(deps: HealthDeps) {
  let states = new Map<string, UpstreamState>()
  /** Targets are objects that live as long as their snapshot. */
  const found = new WeakMap<Target, TargetState>()

  /** What is found out under an old configuration is no news of the present one: it gets a state that nobody reads. */
  const stateOf = (upstream: Upstream): UpstreamState => {
    const known = states.get(upstream.id)
    return known && isSame(known.upstream, upstream) ? known : new UpstreamState(upstream, deps)
  }

  const toTargetState = ({ upstream, upstreamModel }: Target) => stateOf(upstream).target(upstreamModel)
  const targetOf = (target: Target) => found.get(target) ?? found.getOrInsertComputed(target, toTargetState)

  return {
    /** How targets stand for one request, which tells how its calls go. */
    forRequest: ({ id, teamId }: Pick<Key, 'id' | 'teamId'>) => new RequestHealth(id, teamId, targetOf),
    /** What a free probe found. */
    probed: (upstream: Upstream, found: Readiness) => takeProbe(stateOf(upstream), found, upstream),
    /** Those that a route leads to and that have what a call needs. */
    inUse: () => [...states.values()].filter(({ routes, upstream }) => routes.length > 0 && upstream.notReady === null),
    /** Takes over a new configuration: what is gone or has another address or credential is forgotten. */
    renew({ upstreams, models }: Snapshot): void {
      const next = new Map<string, UpstreamState>()
      for (const [id, upstream] of upstreams) {
        const state = stateOf(upstream)
        state.renew(upstream, models.values())
        next.set(id, state)
      }
      states = next
    },
    /** Everything that is known, for the control socket. */
    states: (): UpstreamHealth[] => [...states.values()].map(toUpstreamHealth),
  }
}

/** Whether a call to one would be a call to the other. */
const isSame = (a: Upstream, b: Upstream): boolean =>
  a === b ||
  (a.baseUrl === b.baseUrl &&
    a.dialect === b.dialect &&
    Bun.deepEquals(toNumbered(a), toNumbered(b)) &&
    Bun.deepEquals(a.options, b.options))

/** By its number is known how a credential stands: another one must not come to stand so. */
const toNumbered = (upstream: Upstream) =>
  (upstream.each ?? [upstream]).map(({ credentialNumber, credential }) => [credentialNumber, credential])

/**
 * How a target stands for the next request of a key: `degraded` = tried after all healthy ones (its credential or model
 * was refused, a probe met with trouble, its provider wants a pause, its half-open probe is under way); `unavailable` = not
 * called at all (it is down, or its breaker is open).
 */
export type Availability = 'healthy' | 'degraded' | 'unavailable'

/**
 * How a call goes, seen from the upstream: `begun` = its answer has reached the commit point; `ok` = and came to its
 * end; `aborted` = was ended by us or the client, or kept back by a limit of ours, and says nothing of it.
 */
export type CallNews = 'begun' | 'ok' | 'aborted' | UpstreamError

/** An upstream that is down is probed this often. */
const DOWN_RETRY_MS = 2_000

/** Health as one request meets it: how a target stands for its key, and what its calls find out. */
export class RequestHealth implements CallingRequest {
  constructor(
    readonly keyId: string,
    readonly teamId: string | null,
    private readonly stateOf: (target: Target) => TargetState,
  ) {}

  availability(target: Target): Availability {
    const state = this.stateOf(target)
    const { owner, breaker, deps } = state
    if (owner.isDown()) return 'unavailable'
    const circuit = breaker?.blocking(this.keyId, deps.nowMs())
    if (circuit) return circuit.probe ? 'degraded' : 'unavailable'
    const isRefused = state.refusedKeys.has(this.keyId, deps.nowMs())
    return owner.present() || state.present() || isRefused ? 'degraded' : 'healthy'
  }

  /** Claims the target for a call: false where it is unavailable, or where its half-open probe is under way. */
  enter(target: Target): boolean {
    const { owner, breaker, deps } = this.stateOf(target)
    return !owner.isDown() && (breaker === null || breaker.enter(this, deps.nowMs()))
  }

  /** The target's upstream with one of its several credentials; null where none is left that was not tried. */
  withCredential(
    target: Target,
    each: readonly Upstream[],
    conversation: string,
    tried: ReadonlySet<number>,
  ): Upstream | null {
    const { owner, deps } = this.stateOf(target)
    return owner.credentials.choose(each, `${this.keyId}\n${conversation}`, tried, deps.nowMs())
  }

  /** @param used where it has several credentials, the upstream with the one of the call. */
  report(target: Target, news: CallNews, used: Upstream | null = null): void {
    const state = this.stateOf(target)
    const { owner, breaker, deps } = state
    if (used !== null && news === 'ok') owner.credentialWorked(used)
    if (used !== null && typeof news === 'object' && owner.credentialFailed(used, toCredentialFailure(news)))
      breaker?.abortProbe(this)
    else if (news === 'begun') {
      owner.reached()
      breaker?.halfOpenSuccess(this)
    } else if (news === 'ok') {
      owner.worked()
      state.refusedKeys.forget(this.keyId)
      breaker?.recordSuccess(this, deps.nowMs())
    } else if (news === 'aborted') breaker?.abortProbe(this)
    else takeFailure(state, this, news)
  }

  /** Why the target is unavailable, in words for clients, and after how many ms to try again; null where it is not. */
  whyUnavailable(target: Target): { reason: string; retryAfterMs: number } | null {
    const { owner, breaker, deps } = this.stateOf(target)
    const { id } = owner.upstream
    if (owner.isDown())
      return { reason: `its upstream \`${id}\` is down: ${owner.penalty?.reason}`, retryAfterMs: DOWN_RETRY_MS }
    const nowMs = deps.nowMs()
    const circuit = breaker?.blocking(this.keyId, nowMs)
    if (!circuit) return null
    return {
      reason: `its last ${circuit.failures} calls to \`${id}\` failed, the last one with: ${circuit.reason}`,
      // A half-open probe may end at any moment, and let everyone in.
      retryAfterMs: circuit.probe || breaker?.everyone.probe ? 1_000 : Math.max(1_000, circuit.waitMs(nowMs)),
    }
  }
}
