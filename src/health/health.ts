/**
 * How the upstreams are doing, and each target (a model there), all in memory: told by every call and by the prober; read by
 * the order of targets, `is_ready`, `/readyz` and the control socket. And what failed calls and free probes say: whether a breaker counts
 * it, what is held against whom, and in which words.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Key, Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import { redact } from '../log.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { toCredentialFailure, toRefusal, toRefusedByProbe, whyRefused } from '../upstreams/failure.ts'
import { isOurShortage } from '../upstreams/shortage.ts'
import { Breaker, type CallingRequest } from './breaker.ts'
import { type HealthDeps, PENALTY_MS, type TargetState, UpstreamState } from './state.ts'

/** What is known of an upstream, each of its routes included, as the control socket tells it. */
export interface UpstreamHealth {
  id: string
  /**
   * `refused` = it refuses its credential or account; `degraded` = it was late or had an error when it was probed;
   * `unknown` = nothing was tried yet. Only what is `down` or `not_ready` is not called at all.
   */
  state: 'healthy' | 'degraded' | 'refused' | 'down' | 'unknown' | 'not_ready'
  /** Why it is neither `healthy` nor `unknown`, in words. */
  reason: string | null
  /** Of several credentials those that are left out for a time, by their numbers; `refused`, or `out_of_quota`. */
  suspended: { number: number; state: 'refused' | 'out_of_quota'; reason: string; retry_in_ms: number }[]
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
    /** Why it comes after others whatever its breaker: it refused requests of some keys, or its provider wants a pause. */
    reason: string | null
  }[]
}

function toUpstreamHealth(state: UpstreamState): UpstreamHealth {
  const { upstream, workedMs, lastError, deps, routes } = state
  return {
    id: upstream.id,
    ...toState(state),
    suspended: state.credentials
      .leftOut(deps.nowMs())
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
  // Only a target is paused.
  if (penalty && penalty.kind !== 'paused') return { state: penalty.kind, reason: penalty.reason }
  return { state: state.answers ? 'healthy' : 'unknown', reason: null }
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

/** So long a call that went well counts for more than a free probe. */
const PROVEN_MS = 60_000

/** So long others come before one that is busy, where it does not say. */
const BUSY_MS = 1_000

function takeFailure(target: TargetState, request: CallingRequest, error: UpstreamError): void {
  const { owner, deps } = target
  const { status, retryAfterMs } = error
  const refusal = toRefusal(error)
  const counts = refusal === null && isFailure(error)
  // What an upstream says about the request itself is no error of its own.
  if (counts || status === 429 || error.isSpoiled || whyRefused(error) !== null)
    owner.lastError = { message: toMessage(error), at_ms: deps.wallMs() }
  if (counts) {
    if (!owner.unreached && isUnreached(error) && owner.upstream.baseUrl !== null) {
      owner.unreached = true
      deps.onUnreached?.(owner.upstream)
    }
    target.breaker ??= new Breaker(target.about, deps.log)
    target.breaker.recordFailure(request, toWords(error), owner.probeFailed, deps.nowMs())
    return
  }
  // A 4xx is an answer, whatever it says.
  target.breaker?.abortProbe(request)
  if (error.isBusy)
    target.hold('paused', 'it has no room for more just now', Math.min(retryAfterMs ?? BUSY_MS, PENALTY_MS))
  if (status === 429 && retryAfterMs !== null)
    target.hold('paused', 'its provider limits our rate', Math.min(retryAfterMs, PENALTY_MS))
  if (!refusal) return
  if (owner.penalty?.kind === 'down') owner.reached()
  const reason = `it answered ${status}: ${refusal.why}`
  const isConfirmed = refusal.of === 'upstream' && owner.probeRefused && !isProven(owner)
  if (refusal.isForEveryone || isConfirmed) owner.penalise('refused', reason, true)
  else target.refuse(request.keyId, reason)
}

/** Whether a call has gone well so recently that a free probe says less. */
const isProven = ({ deps, workedMs }: UpstreamState): boolean => deps.nowMs() - workedMs < PROVEN_MS

/**
 * Takes what a free probe found.
 * @param used the upstream as it was probed, with one of its credentials.
 */
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
  // Silence of one that calls did not find silent may be a slow answer, and makes it come after others at most.
  const isSilent = state === 'timeout' && unreached && (timeouts > 1 || penalty?.kind === 'down')
  if (state === 'down' || isSilent) upstream.markDown(reason)
  else if (!upstream.present()?.isOfCall) {
    // Any answer ends a doubt of whether it answers, only a welcome a refusal.
    if (state === 'ready' || (state === 'unknown' && penalty?.kind === 'degraded')) upstream.clear()
    else if (state !== 'unknown' && (unreached || timeouts > 1 || !isProven(upstream)))
      upstream.penalise(state === 'refused' ? 'refused' : 'degraded', reason)
  }
  upstream.probeFailed = state === 'down' || state === 'timeout' || state === 'degraded'
  if (!upstream.probeFailed) return
  for (const { breaker } of upstream.targets.values()) breaker?.confirmFailures(deps.nowMs())
  deps.onUnreached?.(upstream.upstream)
}

/** Whether a refused probe is held against its credential: what may list no models chats all the same, and calls will tell. */
const isHeld = (
  { credentials }: UpstreamState,
  { isWrong }: { isWrong: boolean },
  { each, credentialNumber }: Upstream,
) => isWrong && !(each && credentials.isProven(credentialNumber))

/** Whether the breaker counts it: the target did not do its work. A 4xx is an answer, a 429 a provider's good right. */
function isFailure({ kind, status, cause, isBusy, isSpoiled }: UpstreamError): boolean {
  if (isBusy || isSpoiled) return false
  if (kind === 'status') return status === null || status >= 500
  return kind !== 'aborted' && !isOurShortage(cause)
}

/** Whether it leaves in doubt that the upstream can be reached at all. */
const isUnreached = ({ kind, deadline }: UpstreamError): boolean =>
  kind === 'connection' || (kind === 'deadline' && (deadline === 'headers' || deadline === 'total_whole'))

/** The failure in words that clients may read: not in an upstream's, and short, since ours may quote a header of it. */
const toWords = ({ kind, status, message }: UpstreamError): string =>
  kind === 'status' ? `status ${status ?? 'unknown'}` : message.slice(0, 100)

/** The failure for an administrator, with the upstream's words, which may be a whole page. */
function toMessage(error: UpstreamError): string {
  const words = error.kind === 'status' ? `${toWords(error)}: ${error.message}` : error.message
  return redact(words).slice(0, 300)
}

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
