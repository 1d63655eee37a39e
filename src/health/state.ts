/**
 * What is known of one upstream, and of each target (a model) there: the one thing that is held against it, whether it can
 * be reached, and the breakers. Calls (`request.ts`) and free probes (`health.ts`) tell it what they find; the log has a
 * line a change.
 */

import type { Upstream } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { Breaker } from './breaker.ts'

export interface HealthDeps {
  /** A clock that never steps. */
  nowMs(): number
  /** Wall clock: for what people read. */
  wallMs(): number
  log?: Pick<Log, 'info' | 'warn'>
  /** An upstream could not be reached just now: the prober wants to know. */
  onUnreached?(): void
}

/**
 * Something held against an upstream or a target, until it passes by itself: `down` = it cannot be reached, and is not
 * called; the others have it come after those that are healthy. `paused` = its provider asked for that.
 */
interface Penalty {
  kind: 'down' | 'refused' | 'degraded' | 'paused'
  reason: string
  untilMs: number
  /** A call was refused: that `/models` answers does not disprove it. */
  isOfCall: boolean
}

/** Whether it still holds. */
export const isOn = (penalty: Penalty | null, nowMs: number): penalty is Penalty =>
  penalty !== null && nowMs < penalty.untilMs

/** What was refused is tried again after this long: it may be repaired, and nobody would tell. */
const REFUSED_MS = 60_000
/** Longer than the prober takes to come back to an upstream that is down: if it never does, calls find out. */
const DOWN_MS = 20_000
/** No provider gets a longer pause, whatever it asks for. */
const MAX_PAUSE_MS = 60_000
/** So long a call that went well counts for more than a free probe. */
const PROVEN_MS = 60_000

export class UpstreamState {
  penalty: Penalty | null = null
  /** It could not be connected to, or kept silent, when it was last called or probed. */
  unreached = false
  /** Probes in a row without an answer in time. */
  timeouts = 0
  /** The last probe failed, whether or not that counts against it. */
  probeFailed = false
  /** Whether it has ever answered. */
  answers = false
  /** When a call went well last, on the clock that never steps. */
  workedMs = Number.NEGATIVE_INFINITY
  lastError: { message: string; at_ms: number } | null = null
  /** By the upstream's own name of the model. */
  readonly targets = new Map<string, TargetState>()

  constructor(
    public upstream: Upstream,
    readonly deps: HealthDeps,
  ) {}

  target(upstreamModel: string): TargetState {
    const known = this.targets.get(upstreamModel)
    if (known) return known
    const target = new TargetState(this, upstreamModel)
    this.targets.set(upstreamModel, target)
    return target
  }

  isDown(nowMs: number): boolean {
    return this.penalty?.kind === 'down' && isOn(this.penalty, nowMs)
  }

  failed(message: string): void {
    this.lastError = { message, at_ms: this.deps.wallMs() }
  }

  /** It answers, whatever it says. */
  reached(): void {
    this.unreached = false
    this.timeouts = 0
    this.answers = true
    if (this.penalty?.kind !== 'down') return
    this.penalty = null
    const { log, nowMs } = this.deps
    log?.info('upstream_up', 'an upstream is up again', { upstream: this.upstream.id })
    // What opened its breakers is over.
    for (const { breaker } of this.targets.values()) breaker.allowProbe(nowMs())
  }

  /** A call went well: there is nothing against it. */
  worked(): void {
    this.workedMs = this.deps.nowMs()
    this.probeFailed = false
    this.reached()
    setPenalty(this, null)
  }

  /** Takes what a probe found. */
  probed(found: Readiness): void {
    const { state } = found
    if (state === 'not_made') return
    const reason = 'reason' in found ? found.reason : ''
    const isProven = this.deps.nowMs() - this.workedMs < PROVEN_MS
    this.probeFailed = state === 'down' || state === 'timeout' || state === 'degraded'
    if (state === 'down') this.markDown(reason)
    else if (state === 'timeout') this.timedOut(reason, isProven)
    else {
      this.reached()
      if (this.isRefusingCalls()) return
      if (state === 'refused' || state === 'degraded') {
        if (!isProven) setPenalty(this, { kind: state, reason })
      }
      // Any answer ends a doubt of whether it answers, only a welcome a refusal.
      else if (state === 'ready' || this.penalty?.kind === 'degraded') setPenalty(this, null)
    }
  }

  /** Silence of one that calls did not find silent may be a slow answer, and makes it come after others at most. */
  private timedOut(reason: string, isProven: boolean): void {
    this.timeouts++
    if (this.unreached && (this.timeouts > 1 || this.penalty?.kind === 'down')) this.markDown(reason)
    else if ((this.unreached || this.timeouts > 1 || !isProven) && !this.isRefusingCalls()) {
      setPenalty(this, { kind: 'degraded', reason })
    }
  }

  private isRefusingCalls(): boolean {
    return this.penalty?.isOfCall === true && isOn(this.penalty, this.deps.nowMs())
  }

  private markDown(reason: string): void {
    const { id, baseUrl } = this.upstream
    const { log, nowMs } = this.deps
    if (this.penalty?.kind !== 'down') {
      const host = URL.parse(baseUrl ?? '')?.host
      log?.warn('upstream_down', 'an upstream is down', { upstream: id, host, reason })
    }
    this.penalty = { kind: 'down', reason, untilMs: nowMs() + DOWN_MS, isOfCall: false }
    this.failed(reason)
    this.unreached = true
  }
}

/** One model of an upstream, whatever models of ours lead to it. */
export class TargetState {
  penalty: Penalty | null = null
  readonly breaker = new Breaker()

  constructor(
    readonly owner: UpstreamState,
    readonly upstreamModel: string,
  ) {}

  /** Whether nothing at all is held against it: all that most requests have to know. */
  isCleared(): boolean {
    return this.penalty === null && this.owner.penalty === null && this.breaker.isQuiet()
  }

  /** A call went well; a pause is kept all the same. */
  worked(): void {
    this.owner.worked()
    if (this.penalty?.kind === 'refused') setPenalty(this, null)
  }

  pause(ms: number): void {
    const untilMs = this.owner.deps.nowMs() + Math.min(ms, MAX_PAUSE_MS)
    this.penalty = { kind: 'paused', reason: 'its provider limits our rate', untilMs, isOfCall: true }
  }
}

/** Puts it behind others for a while, or ends that; the log has a line each. */
export function setPenalty(
  state: UpstreamState | TargetState,
  next: { kind: 'refused' | 'degraded'; reason: string; isOfCall?: boolean } | null,
): void {
  const before = state.penalty
  if (before === null && next === null) return
  const { upstream, deps } = state instanceof UpstreamState ? state : state.owner
  const about = { upstream: upstream.id, ...(state instanceof TargetState ? { model: state.upstreamModel } : {}) }
  state.penalty = next && { isOfCall: false, untilMs: deps.nowMs() + REFUSED_MS, ...next }
  if (next === null) deps.log?.info('upstream_cleared', 'an upstream has no penalty any more', about)
  else if (before === null || before.kind === 'paused') {
    deps.log?.warn('upstream_penalised', 'an upstream has a penalty', { ...about, reason: next.reason })
  }
}

/** Whether a call to one would be a call to the other. */
export const isSame = (a: Upstream, b: Upstream): boolean =>
  a.baseUrl === b.baseUrl && a.credential === b.credential && a.dialect === b.dialect
