/**
 * Health of upstreams and targets, in memory: updated by every call and by the prober. Also decides what a failed call
 * or check means.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Key, Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import type { UpstreamStateName } from '../domain/upstream-state.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { toUpstreamError } from '../upstreams/error-json.ts'
import { toCredentialFailure, toRefusal, toRefusedByProbe } from '../upstreams/failure.ts'
import type { CallingRequest } from './breaker.ts'
import { isFailure, isOfUpstream, isUnreached, toMessage, toWords } from './errors.ts'
import { type HealthNews, type Known, TakenRequests, Teller, toConfigHash, toNumbered } from './news.ts'
import { type HealthDeps, PENALTY_MS, type TargetState, UpstreamState } from './state.ts'

export interface UpstreamHealth {
  id: string
  state: Exclude<UpstreamStateName, 'disabled'>
  /** Null if `healthy` or `unknown`. */
  reason: string | null
  /** Suspended credentials, if it has several. */
  suspended: { number: number; state: 'refused' | 'out_of_quota'; reason: string; retry_in_ms: number }[]
  last_ok_ms: number | null
  last_error: { message: string; at_ms: number } | null
  targets: {
    model: string
    upstream_model: string
    breaker: 'closed' | 'open' | 'half_open'
    /** Number of keys it is open for; null if closed or open for everyone. */
    open_for_keys: number | null
    failures_in_a_row: number
    /** Until the breaker half-opens; null if closed. */
    retry_in_ms: number | null
    /** It rejected requests of some keys, or its provider asked for a pause. */
    reason: string | null
  }[]
}

function toUpstreamHealth(state: UpstreamState): UpstreamHealth {
  const { upstream, workedMs, lastError, deps, routes } = state
  return {
    id: upstream.id,
    ...toState(state),
    suspended: state.credentials
      .suspended(deps.nowMs())
      .map(({ retryInMs, ...out }) => ({ ...out, retry_in_ms: Math.ceil(retryInMs) })),
    last_ok_ms: Number.isFinite(workedMs) ? Math.round(deps.wallMs() - (deps.nowMs() - workedMs)) : null,
    last_error: lastError,
    targets: routes.map(({ model, target }) => toTargetHealth(model, target)),
  }
}

function toState(state: UpstreamState): Pick<UpstreamHealth, 'state' | 'reason'> {
  const { notReady } = state.upstream
  if (notReady !== null) return { state: 'not_ready', reason: notReady }
  const penalty = state.present()
  // A rejection lasts until a call succeeds; only its effect on routing is temporary.
  const out = state.penalty?.kind === 'refused' ? state.penalty : penalty
  if (out?.kind === 'refused' || out?.kind === 'down') return { state: out.kind, reason: out.reason }
  const failing = toFailing(state)
  if (failing !== null) return { state: 'failing', reason: failing }
  if (penalty?.kind === 'degraded') return { state: penalty.kind, reason: penalty.reason }
  return { state: state.answers ? 'healthy' : 'unknown', reason: null }
}

/** Breakers are open, for everyone or some keys, and no call has succeeded since. */
function toFailing({ targets, workedMs }: UpstreamState): string | null {
  const open = [...targets.values()].flatMap(({ breaker }) => breaker?.openCircuits() ?? [])
  const [latest] = open.toSorted((a, b) => (b.openedMs ?? 0) - (a.openedMs ?? 0))
  return latest && workedMs < (latest.openedMs ?? 0) ? `its last calls failed: ${latest.reason}` : null
}

function toTargetHealth(model: string, state: TargetState): UpstreamHealth['targets'][number] {
  const { upstreamModel, breaker, deps } = state
  const nowMs = deps.nowMs()
  const open = breaker?.openCircuits() ?? []
  const [last] = open.sort((a, b) => b.waitMs(nowMs) - a.waitMs(nowMs))
  const waitMs = last?.waitMs(nowMs) ?? 0
  return {
    model,
    upstream_model: upstreamModel,
    breaker: !last ? 'closed' : waitMs > 0 && !last.probe ? 'open' : 'half_open',
    open_for_keys: last && last !== breaker?.everyone ? open.length : null,
    failures_in_a_row: (last ?? breaker?.everyone)?.failures ?? 0,
    retry_in_ms: last ? Math.ceil(waitMs) : null,
    reason: state.present()?.reason ?? toRefused(state, nowMs),
  }
}

function toRefused({ refusedKeys, refusedReason }: TargetState, nowMs: number): string | null {
  const count = refusedKeys.count(nowMs)
  return count === 0 ? null : `${refusedReason} (for ${count === 1 ? 'one key' : `${count} keys`})`
}

/** For this long a successful call outweighs a free health check. */
const PROVEN_MS = 60_000

/** How long a busy upstream is deprioritized unless it says otherwise. */
const BUSY_MS = 1_000

function takeNews(state: TargetState, request: CallingRequest, news: CallNews, used: Upstream | null): void {
  const { owner, breaker, deps } = state
  if (used !== null && news === 'ok') owner.credentialWorked(used)
  if (used !== null && typeof news === 'object' && owner.credentialFailed(used, toCredentialFailure(news)))
    breaker?.abortProbe(request)
  else if (news === 'begun') {
    owner.reached()
    breaker?.halfOpenSuccess(request)
  } else if (news === 'ok') {
    owner.worked()
    state.refusedKeys.forget(request.keyId)
    breaker?.recordSuccess(request, deps.nowMs())
  } else if (news === 'aborted') breaker?.abortProbe(request)
  else takeFailure(state, request, news)
}

function takeFailure(target: TargetState, request: CallingRequest, error: UpstreamError): void {
  const { owner, deps } = target
  const { status, retryAfterMs } = error
  const refusal = toRefusal(error)
  if (isOfUpstream(error)) owner.lastError = { message: toMessage(error), at_ms: deps.wallMs() }
  if (isFailure(error)) {
    if (!owner.unreached && isUnreached(error) && owner.upstream.baseUrl !== null) {
      owner.unreached = true
      deps.onUnreached?.(owner.upstream)
    }
    target.toBreaker().recordFailure(request, toWords(error), owner.probeFailed, deps.nowMs())
    return
  }
  // Any 4xx proves that it responds.
  target.breaker?.abortProbe(request)
  if (error.isBusy) target.hold('paused', 'it is at capacity', Math.min(retryAfterMs ?? BUSY_MS, PENALTY_MS))
  if (status === 429 && retryAfterMs !== null)
    target.hold('paused', 'rate limited by its provider', Math.min(retryAfterMs, PENALTY_MS))
  if (!refusal) return
  if (owner.penalty?.kind === 'down') owner.reached()
  const reason = `returned ${status}: ${refusal.why}`
  const isConfirmed = refusal.of === 'upstream' && owner.probeRefused && !isProven(owner)
  if (refusal.isForEveryone || isConfirmed) owner.deprioritize('refused', reason, true)
  else target.refuse(request.keyId, reason)
}

const isProven = ({ deps, workedMs }: UpstreamState): boolean => deps.nowMs() - workedMs < PROVEN_MS

/** @param used the upstream as checked, with one of its credentials. */
function takeProbe(upstream: UpstreamState, found: Readiness, used: Upstream): void {
  const reason = 'reason' in found ? found.reason : ''
  if (found.state === 'not_made') return
  upstream.probeRefused = found.state === 'refused'
  const isHarmless = found.state === 'refused' && !isHeld(upstream, found, used)
  if (isHarmless) upstream.noteRefusal(used, reason)
  else if (found.state === 'refused' && upstream.credentialFailed(used, toRefusedByProbe(reason))) {
    upstream.reached()
    return
  }
  const state = isHarmless ? 'unknown' : found.state
  if (state === 'timeout') upstream.timeouts++
  else if (state !== 'down') upstream.reached()
  const { penalty, unreached, timeouts, deps } = upstream
  // If calls get responses, a silent check may only be slow, and at most deprioritizes it.
  const isSilent = state === 'timeout' && unreached && (timeouts > 1 || penalty?.kind === 'down')
  if (state === 'down' || isSilent) upstream.markDown(reason)
  else if (!upstream.present()?.isOfCall) {
    // Any response ends doubt about reachability; only a successful one clears a rejection.
    if (state === 'ready' || (state === 'unknown' && penalty?.kind === 'degraded')) {
      if (!penalty?.isOfCall) upstream.clear()
    } else if (state !== 'unknown' && (unreached || timeouts > 1 || !isProven(upstream)))
      upstream.deprioritize(state === 'refused' ? 'refused' : 'degraded', reason)
  }
  upstream.probeFailed = state === 'down' || state === 'timeout' || state === 'degraded'
  if (!upstream.probeFailed) return
  for (const { breaker } of upstream.targets.values()) breaker?.confirmFailures(deps.nowMs())
  deps.onUnreached?.(upstream.upstream)
}

/** Whether a rejected check counts against the credential: one that may not list models may still work for calls. */
const isHeld = (
  { credentials }: UpstreamState,
  { isWrong }: { isWrong: boolean },
  { each, credentialNumber }: Upstream,
) => isWrong && !(each && credentials.isProven(credentialNumber))

export type Health = ReturnType<typeof createHealth>

export function createHealth(deps: HealthDeps) {
  let states = new Map<string, UpstreamState>()
  /** Targets live as long as their snapshot. */
  const found = new WeakMap<Target, TargetState>()

  /** Results for an old configuration go to a state that is never read. */
  const stateOf = (upstream: Upstream): UpstreamState => {
    const known = states.get(upstream.id)
    return known && isSame(known.upstream, upstream) ? known : new UpstreamState(upstream, deps)
  }

  const toTargetState = ({ upstream, upstreamModel }: Target) => stateOf(upstream).target(upstreamModel)
  const targetOf = (target: Target) => found.get(target) ?? found.getOrInsertComputed(target, toTargetState)

  let teller: Teller | null = null
  const taken = new TakenRequests()
  const sharedOf = ({ upstream, config }: Pick<Known, 'upstream' | 'config'>): UpstreamState | null => {
    const state = states.get(upstream)
    return state && toConfigHash(state.upstream) === config ? state : null
  }

  return {
    forRequest: ({ id, teamId }: Pick<Key, 'id' | 'teamId'>) => new RequestHealth(id, teamId, targetOf, teller),
    probed(upstream: Upstream, found: Readiness): void {
      const state = stateOf(upstream)
      teller?.probed(upstream, state.upstream, found)
      takeProbe(state, found, upstream)
    },
    /** Reports results of calls and checks to other processes of this server from now on. */
    share(tell: (news: HealthNews) => void): void {
      teller = new Teller(tell, deps.nowMs)
    },
    /** Applies a result from another process. */
    take(news: HealthNews): void {
      const state = sharedOf(news)
      if (state === null) return
      const used = state.upstream.each?.find(({ credentialNumber }) => credentialNumber === news.credential) ?? null
      if (news.kind === 'probed') {
        takeProbe(state, news.found, used ?? state.upstream)
        return
      }
      const target = state.targets.get(news.model)
      if (target === undefined) return
      const request = taken.of(news)
      // Its own breaker may have made the request its half-open probe.
      target.breaker?.enter(request, deps.nowMs())
      takeNews(target, request, typeof news.news === 'object' ? toUpstreamError(news.news) : news.news, used)
    },
    /** Known states, for a process that has just started. */
    known: (): Known[] =>
      [...states].map(([upstream, state]) => ({
        ...{ upstream, config: toConfigHash(state.upstream), state: state.toKept() },
      })),
    restore(known: readonly Known[]): void {
      for (const one of known) sharedOf(one)?.restore(one.state)
    },
    /** Upstreams with a route and everything a call needs. */
    inUse: () => [...states.values()].filter(({ routes, upstream }) => routes.length > 0 && upstream.notReady === null),
    /** Applies a new configuration; resets upstreams with a new URL or credential. */
    renew({ upstreams, models }: Snapshot): void {
      const next = new Map<string, UpstreamState>()
      for (const [id, upstream] of upstreams) {
        const state = stateOf(upstream)
        state.renew(upstream, models.values())
        next.set(id, state)
      }
      states = next
    },
    states: (): UpstreamHealth[] => [...states.values()].map(toUpstreamHealth),
  }
}

const isSame = (a: Upstream, b: Upstream): boolean =>
  a === b ||
  (a.baseUrl === b.baseUrl &&
    a.dialect === b.dialect &&
    Bun.deepEquals(toNumbered(a), toNumbered(b)) &&
    Bun.deepEquals(a.options, b.options))

/**
 * `degraded` = tried after all healthy ones (rejected, failed check, paused, or probe running); `unavailable` = not
 * called (down, or breaker open).
 */
export type Availability = 'healthy' | 'degraded' | 'unavailable'

/**
 * `begun` = its response was committed to the client; `aborted` = ended by us, the client, or our own limit, which says
 * nothing about the upstream.
 */
export type CallNews = 'begun' | 'ok' | 'aborted' | UpstreamError

const DOWN_RETRY_MS = 2_000

export class RequestHealth implements CallingRequest {
  constructor(
    readonly keyId: string,
    readonly teamId: string | null,
    private readonly stateOf: (target: Target) => TargetState,
    private readonly teller: Teller | null = null,
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

  /** False if it is unavailable, or its half-open probe is running. */
  enter(target: Target): boolean {
    const { owner, breaker, deps } = this.stateOf(target)
    return !owner.isDown() && (breaker === null || breaker.enter(this, deps.nowMs()))
  }

  withCredential(
    target: Target,
    each: readonly Upstream[],
    conversation: string,
    tried: ReadonlySet<number>,
  ): Upstream | null {
    const { owner, deps } = this.stateOf(target)
    return owner.credentials.choose(each, `${this.keyId}\n${conversation}`, tried, deps.nowMs())
  }

  /** @param used the upstream with the credential of the call, if it has several. */
  report(target: Target, news: CallNews, used: Upstream | null = null): void {
    const state = this.stateOf(target)
    this.teller?.called(this, state, news, used)
    takeNews(state, this, news, used)
  }

  /** The reason, as clients may read it, with a retry delay; null if the target is available. */
  whyUnavailable(target: Target): { reason: string; retryAfterMs: number } | null {
    const { owner, breaker, deps } = this.stateOf(target)
    const { id } = owner.upstream
    if (owner.isDown())
      return { reason: `upstream \`${id}\` is down: ${owner.penalty?.reason}`, retryAfterMs: DOWN_RETRY_MS }
    const nowMs = deps.nowMs()
    const circuit = breaker?.blocking(this.keyId, nowMs)
    if (!circuit) return null
    return {
      reason: `its last ${circuit.failures} calls to \`${id}\` failed, most recently: ${circuit.reason}`,
      // A half-open probe may end at any moment and close the breaker.
      retryAfterMs: circuit.probe || breaker?.everyone.probe ? 1_000 : Math.max(1_000, circuit.waitMs(nowMs)),
    }
  }
}
