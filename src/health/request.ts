/**
 * Health as one request meets it: how a target stands for its key, and what its calls find out. It remembers in which
 * targets the request has failed, since a request counts once in each, however often it is tried and in however many calls.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Target } from '../domain/snapshot.ts'
import { redact } from '../log.ts'
import { toRefusal } from '../upstreams/failure.ts'
import { isOurShortage } from '../upstreams/probe.ts'
import type { Caller, Change } from './breaker.ts'
import { isOn, setPenalty, type TargetState } from './state.ts'

/**
 * How a target stands for the next request of a key: `degraded` = tried after all healthy ones (its credential or model
 * was refused, a probe met with trouble, its provider wants a pause, its half-open probe is under way); `unavailable` = not
 * called at all (it is down, or its breaker is open).
 */
export type Standing = 'healthy' | 'degraded' | 'unavailable'

/**
 * How a call goes, seen from the upstream: `begun` = its answer has reached the commit point; `ok` = and came to its
 * end; `aborted` = was ended by us or the client, or kept back by a limit of ours, and says nothing of it.
 */
export type CallNews = 'begun' | 'ok' | 'aborted' | UpstreamError

interface Unavailable {
  reason: string
  retryAfterMs: number
}

/** An upstream that is down is probed this often. */
const DOWN_RETRY_MS = 2_000

export class RequestHealth implements Caller {
  private failed: TargetState[] | null = null

  constructor(
    readonly keyId: string,
    private readonly stateOf: (target: Target) => TargetState,
    private readonly nowMs: () => number,
  ) {}

  standing(target: Target): Standing {
    const state = this.stateOf(target)
    if (state.isCleared()) return 'healthy'
    const nowMs = this.nowMs()
    if (state.owner.isDown(nowMs)) return 'unavailable'
    const views = state.breaker.viewsFor(this.keyId, nowMs)
    if (views.some(({ phase }) => phase === 'open')) return 'unavailable'
    if (views.some(({ waitMs }) => waitMs > 0)) return 'degraded'
    return isOn(state.owner.penalty, nowMs) || isOn(state.penalty, nowMs) ? 'degraded' : 'healthy'
  }

  /** Claims the target for a call: false where it is unavailable, or where its half-open probe is under way. */
  enter(target: Target): boolean {
    const state = this.stateOf(target)
    if (state.isCleared()) return true
    const nowMs = this.nowMs()
    return !state.owner.isDown(nowMs) && state.breaker.enter(this, nowMs)
  }

  report(target: Target, news: CallNews): void {
    const state = this.stateOf(target)
    if (news === 'begun') {
      state.owner.reached()
      tellClosed(state, state.breaker.halfOpenSuccess(this), this.keyId)
    } else if (news === 'ok') {
      state.worked()
      tellClosed(state, state.breaker.recordSuccess(this), this.keyId)
    } else if (news === 'aborted' || news.kind === 'aborted' || isOurShortage(news.cause))
      state.breaker.abortProbe(this)
    else this.ended(state, news)
  }

  /** Why the target is unavailable, in words for clients, and after how many ms to try again; null where it is not. */
  whyUnavailable(target: Target): Unavailable | null {
    const nowMs = this.nowMs()
    const { owner, breaker } = this.stateOf(target)
    const { id } = owner.upstream
    if (owner.isDown(nowMs)) {
      return { reason: `its upstream \`${id}\` is down: ${owner.penalty?.reason}`, retryAfterMs: DOWN_RETRY_MS }
    }
    const [view] = breaker.viewsFor(this.keyId, nowMs).sort((a, b) => b.waitMs - a.waitMs)
    if (!view || view.waitMs === 0) return null
    return {
      reason: `its last ${view.failures} calls to \`${id}\` failed, the last one with: ${view.reason}`,
      // A half-open probe may end at any moment.
      retryAfterMs: view.phase === 'open' ? Math.max(1_000, view.waitMs) : 1_000,
    }
  }

  private ended(state: TargetState, error: UpstreamError): void {
    const { owner } = state
    const counts = isFailure(error)
    const refusal = toRefusal(error.status ?? 0)
    // What an upstream says about the request itself is no error of its own.
    if (counts || error.status === 429 || refusal) owner.failed(toLastError(error))
    if (counts) {
      this.failedWith(state, error)
      return
    }
    // A 4xx is an answer, whatever it says.
    state.breaker.abortProbe(this)
    if (error.status === 429 && error.retryAfterMs !== null) state.pause(error.retryAfterMs)
    if (!refusal) return
    if (owner.penalty?.kind === 'down') owner.reached()
    const reason = `it answered ${error.status}: ${refusal.why}`
    setPenalty(refusal.of === 'upstream' ? owner : state, { kind: 'refused', reason, isOfCall: true })
  }

  private failedWith(state: TargetState, error: UpstreamError): void {
    const { owner, breaker } = state
    if (!owner.unreached && isUnreached(error) && owner.upstream.baseUrl !== null) {
      owner.unreached = true
      owner.deps.onUnreached?.()
    }
    const isCounted = this.failed?.includes(state) === true
    if (isCounted && !breaker.isProbe(this)) return
    this.failed ??= []
    if (!isCounted) this.failed.push(state)
    const change = breaker.recordFailure(this, toWords(error), owner.probeFailed, this.nowMs())
    if (change) tellOpened(state, change === 'key' ? this.keyId : null)
  }
}

/** Says that a breaker has opened, for one key or for everyone. */
export function tellOpened({ owner, upstreamModel: model, breaker }: TargetState, key: string | null): void {
  const about = { upstream: owner.upstream.id, model, ...(key === null ? {} : { key }) }
  owner.deps.log?.warn('breaker_opened', 'a breaker opened', { ...about, reason: breaker.everyone.reason })
}

function tellClosed({ owner, upstreamModel: model }: TargetState, change: Change, key: string): void {
  if (!change) return
  const about = { upstream: owner.upstream.id, model, ...(change === 'key' ? { key } : {}) }
  owner.deps.log?.info('breaker_closed', 'a breaker closed', about)
}

/** Whether the breaker counts it: the target did not do its work. A 4xx is an answer, a 429 a provider's good right. */
const isFailure = ({ kind, status }: UpstreamError): boolean =>
  kind === 'status' ? status === null || status >= 500 : kind !== 'aborted'

/** Whether it leaves in doubt that the upstream can be reached at all. */
const isUnreached = ({ kind, deadline }: UpstreamError): boolean =>
  kind === 'connection' || (kind === 'deadline' && (deadline === 'headers' || deadline === 'total_whole'))

/** Our own words for a broken answer may quote a header. */
const MAX_CLIENT_CHARS = 100

/** The failure in our own words, which clients may read: an upstream's may say what is none of their business. */
const toWords = ({ kind, status, message }: UpstreamError): string =>
  kind === 'status' ? `status ${status ?? 'unknown'}` : message.slice(0, MAX_CLIENT_CHARS)

/** An upstream's own words may be a whole page. */
const MAX_CHARS = 300

/** The failure with the upstream's words, for an administrator. */
function toLastError({ kind, status, message }: UpstreamError): string {
  const words = kind === 'status' ? `status ${status ?? 'unknown'}: ${message}` : message
  return redact(words).slice(0, MAX_CHARS)
}
