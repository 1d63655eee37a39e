/** Marks an upstream up or down and puts penalties on it, for what calls and probes find; the log has a line a change. */

import type { Log } from '../log.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { allowProbe } from './breaker.ts'
import type { Penalty, TargetState, UpstreamState } from './state.ts'

export interface MarkDeps {
  /** A clock that never steps. */
  nowMs(): number
  /** Wall clock: for what people read. */
  wallMs(): number
  log?: Pick<Log, 'info' | 'warn'>
}

/** What was refused is tried again after this long: it may be repaired, and nobody would tell. */
const REFUSED_MS = 60_000
/** So long a call that went well counts for more than a free probe. */
const PROVEN_MS = 60_000
/** Longer than the prober takes to come back to an upstream that is down: if it never does, calls find out. */
const DOWN_MS = 20_000

export type Marks = ReturnType<typeof createMarks>

/** What a probe that was made found. */
export type Probed = Exclude<Readiness, { state: 'not_made' }>

export function createMarks({ nowMs, wallMs, log }: MarkDeps) {
  const clear = (state: UpstreamState) => {
    state.cleared = state.down === null && state.refused === null && state.probed === null
  }

  const markUp = (state: UpstreamState): void => {
    const { upstream, down } = state
    Object.assign(state, { down: null, unreached: false, timeouts: 0, answers: true })
    clear(state)
    if (!down) return
    log?.info('upstream_up', 'an upstream is up again', { upstream: upstream.id })
    // What opened its breakers is over.
    for (const { breaker } of state.targets.values()) allowProbe(breaker, nowMs())
  }

  const markDown = (state: UpstreamState, reason: string): void => {
    const { id, baseUrl } = state.upstream
    if (!state.down)
      log?.warn('upstream_down', 'an upstream is down', { upstream: id, host: URL.parse(baseUrl ?? '')?.host, reason })
    state.down = { reason, untilMs: nowMs() + DOWN_MS }
    state.lastError = { message: reason, at_ms: wallMs() }
    Object.assign(state, { unreached: true, cleared: false })
  }

  const tell = (state: UpstreamState | TargetState, before: Penalty | null, after: Penalty | null): void => {
    const { upstream } = 'owner' in state ? state.owner : state
    const about = { upstream: upstream.id, ...('owner' in state ? { model: state.upstreamModel } : {}) }
    if (after && !before)
      log?.warn('upstream_penalised', 'an upstream has a penalty', { ...about, reason: after.reason })
    if (before && !after) log?.info('upstream_cleared', 'an upstream has no penalty any more', about)
  }

  const setProbed = (
    state: UpstreamState,
    found: Extract<Readiness, { state: 'refused' | 'degraded' }> | null,
  ): void => {
    const probed = found && { ...found, untilMs: nowMs() + REFUSED_MS }
    tell(state, state.probed, probed)
    state.probed = probed
    clear(state)
  }

  /** Drops what refused calls left. */
  const accept = (state: UpstreamState | TargetState): void => {
    tell(state, state.refused, null)
    state.refused = null
  }

  /** Silence of one that calls did not find silent may be a slow answer, and makes it come after others at most. */
  const timedOut = (state: UpstreamState, reason: string, isProven: boolean): void => {
    state.timeouts++
    if (state.unreached && state.timeouts > 1) markDown(state, reason)
    else if (state.unreached || state.timeouts > 1 || !isProven) setProbed(state, { state: 'degraded', reason })
  }

  return {
    accept,
    /** A call began to answer: the upstream can be reached. */
    begun(state: UpstreamState): void {
      if (!state.cleared || state.unreached || state.timeouts > 0) markUp(state)
    },
    /** A call went well: there is nothing against its upstream. */
    worked(state: UpstreamState): void {
      state.workedMs = nowMs()
      state.lastOkMs = wallMs()
      state.probeFailed = false
      if (state.cleared && state.answers && !state.unreached && state.timeouts === 0) return
      accept(state)
      setProbed(state, null)
      markUp(state)
    },
    /** A call was refused by its upstream, or by one model there. */
    refuse(state: UpstreamState | TargetState, reason: string): void {
      const refused = { reason, untilMs: nowMs() + REFUSED_MS }
      tell(state, state.refused, refused)
      state.refused = refused
      state.cleared = false
    },
    /** Takes what a probe found. */
    probed(state: UpstreamState, readiness: Probed): void {
      const isProven = nowMs() - state.workedMs < PROVEN_MS
      state.probeFailed = ['down', 'timeout', 'degraded'].includes(readiness.state)
      if (readiness.state === 'down') markDown(state, readiness.reason)
      else if (readiness.state === 'timeout') timedOut(state, readiness.reason, isProven)
      else {
        markUp(state)
        if (readiness.state === 'refused' || readiness.state === 'degraded') {
          if (!isProven) setProbed(state, readiness)
        }
        // Any answer ends a doubt of whether it answers, only a welcome a refusal.
        else if (readiness.state === 'ready' || state.probed?.state === 'degraded') setProbed(state, null)
      }
    },
  }
}
