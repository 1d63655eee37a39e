/**
 * Health as one request meets it: how a target stands for its key, and what its calls find out. It remembers in which
 * targets the request has failed, since a request counts once in each, however often it is tried and in however many calls.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Target } from '../domain/snapshot.ts'
import { toRefusal } from '../upstreams/refusal.ts'
import {
  abortProbe,
  type Caller,
  type Change,
  enter,
  halfOpenSuccess,
  isClosed,
  isProbe,
  recordFailure,
  recordSuccess,
} from './breaker.ts'
import type { CallNews, HealthDeps, Standing, Unavailable } from './health.ts'
import type { Marks } from './marks.ts'
import { isFailure, isOurs, isUnreached, toLastError, toWords } from './messages.ts'
import { judge, toUnavailable } from './standing.ts'
import { isOn, type States, type TargetState } from './state.ts'

/** No provider gets a longer pause, whatever it asks for. */
const MAX_PAUSE_MS = 60_000

export class RequestHealth implements Caller {
  private failed: TargetState[] | null = null

  constructor(
    readonly keyId: string,
    private readonly states: States,
    private readonly marks: Marks,
    private readonly deps: HealthDeps,
  ) {}

  standing(target: Target): Standing {
    const state = this.states.target(target)
    return state.cleared && state.owner.cleared ? 'healthy' : judge(state, this.keyId, this.deps.nowMs())
  }

  /** Claims the target for a call: false where it is unavailable, or where its half-open probe is under way. */
  enter(target: Target): boolean {
    const state = this.states.target(target)
    if (state.cleared && state.owner.cleared) return true
    const nowMs = this.deps.nowMs()
    return !isOn(state.owner.down, nowMs) && enter(state.breaker, this, nowMs)
  }

  report(target: Target, news: CallNews): void {
    const state = this.states.target(target)
    if (news === 'begun') this.begun(state)
    else if (news === 'ok') this.succeeded(state)
    else if (news === 'aborted' || news.kind === 'aborted' || isOurs(news)) abortProbe(state.breaker, this)
    else this.ended(state, news)
  }

  /** Why the target is unavailable, in words for clients, and after how many ms to try again; null where it is not. */
  whyUnavailable(target: Target): Unavailable | null {
    return toUnavailable(this.states.target(target), this.keyId, this.deps.nowMs())
  }

  private begun(state: TargetState): void {
    this.marks.begun(state.owner)
    if (!state.cleared) this.noteChange(state, halfOpenSuccess(state.breaker, this))
  }

  private succeeded(state: TargetState): void {
    this.marks.worked(state.owner)
    this.noteChange(state, recordSuccess(state.breaker, this))
    if (state.cleared) return
    this.marks.accept(state)
    this.clear(state)
  }

  private ended(state: TargetState, error: UpstreamError): void {
    const counts = isFailure(error)
    // What an upstream says about the request itself is no error of its own.
    if (counts || error.status === 429 || toRefusal(error.status ?? 0)) {
      state.owner.lastError = { message: toLastError(error), at_ms: this.deps.wallMs() }
    }
    if (counts) this.failedWith(state, error)
    else this.refusedWith(state, error)
  }

  private failedWith(state: TargetState, error: UpstreamError): void {
    const { owner, breaker } = state
    if (!owner.unreached && isUnreached(error) && owner.upstream.baseUrl !== null) {
      owner.unreached = true
      this.deps.onUnreached?.()
    }
    const isCounted = this.failed?.includes(state) === true
    if (isCounted && !isProbe(breaker, this)) return
    this.failed ??= []
    if (!isCounted) this.failed.push(state)
    const change = recordFailure(breaker, this, toWords(error), owner.probeFailed, this.deps.nowMs())
    if (change) tellOpened(this.deps, state, change === 'key' ? this.keyId : null)
  }

  /** Takes a 4xx: an answer, whatever it says. */
  private refusedWith(state: TargetState, { status, retryAfterMs }: UpstreamError): void {
    abortProbe(state.breaker, this)
    if (status === 429 && retryAfterMs !== null) {
      const untilMs = this.deps.nowMs() + Math.min(retryAfterMs, MAX_PAUSE_MS)
      state.paused = { reason: 'its provider limits our rate', untilMs }
      state.cleared = false
    }
    const refusal = toRefusal(status ?? 0)
    if (refusal)
      this.marks.refuse(refusal.of === 'upstream' ? state.owner : state, `it answered ${status}: ${refusal.why}`)
  }

  private noteChange(state: TargetState, change: Change): void {
    if (!change) return
    const { upstreamModel: model, owner } = state
    const key = change === 'key' ? { key: this.keyId } : {}
    this.deps.log?.info('breaker_closed', 'a breaker closed', { upstream: owner.upstream.id, model, ...key })
    this.clear(state)
  }

  /** Lets requests pass without looking closer, where nothing is left to look at. */
  private clear(state: TargetState): void {
    const nowMs = this.deps.nowMs()
    state.cleared = isClosed(state.breaker) && !isOn(state.refused, nowMs) && !isOn(state.paused, nowMs)
  }
}

/** Says that a breaker has opened, for one key or for everyone, and has requests look closer. */
export function tellOpened({ log }: HealthDeps, state: TargetState, key: string | null): void {
  const { owner, upstreamModel: model, breaker } = state
  state.cleared = false
  const { reason } = breaker.everyone
  log?.warn('breaker_opened', 'a breaker opened', {
    upstream: owner.upstream.id,
    model,
    ...(key === null ? {} : { key }),
    reason,
  })
}
