/**
 * Health checks of upstreams with a route by free requests: regularly, and often for one that could not be reached, so
 * that a dead host is skipped and a revived one found. Never throws, and doesn't keep the process alive.
 */

import type { Upstream } from '../domain/snapshot.ts'
import { type Log, traceOf } from '../log.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import type { Health } from './health.ts'
import type { UpstreamState } from './state.ts'

export interface ProberDeps {
  health: Pick<Health, 'inUse' | 'probed'>
  backendFor(at: { upstream: Upstream }): Pick<Backend, 'probe'>
  /** 0 = only those that could not be reached. */
  intervalMs?: number
  /** `fetch` has no connect event: only this timeout reveals a silent host. */
  timeoutMs?: number
  unreachedTimeoutMs?: number
  log?: Pick<Log, 'error'>
}

export type Prober = ReturnType<typeof createProber>

/** Pauses before the next checks of one that could not be reached: it may only be restarting. */
const PAUSES_MS = [250, 500, 1_000]
const LAST_PAUSE_MS = 2_000
const FAILED_INTERVAL_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY
/** The timeout is counted in steps, so that a stall of our own event loop counts as one step and not as silence. */
const STEPS = 10

class Watched {
  isBusy = false
  failures = 0
  lastMs = -Number.MAX_VALUE
  readonly gone = new AbortController()
}

export function createProber(deps: ProberDeps) {
  const { health, backendFor, intervalMs = 30_000, timeoutMs = 5_000, unreachedTimeoutMs = 2_000, log } = deps
  const watched = new Map<UpstreamState, Watched>()
  let isRunning = false
  let timer: Timer | undefined

  const wake = (atMs: number): void => {
    clearTimeout(timer)
    if (isRunning && atMs !== NEVER) timer = setTimeout(tick, Math.max(0, atMs - performance.now())).unref()
  }

  const tick = (): void => {
    const inUse = new Set(health.inUse())
    for (const [state, { gone }] of watched) {
      if (inUse.has(state)) continue
      gone.abort()
      watched.delete(state)
    }
    const nowMs = performance.now()
    let nextMs = NEVER
    for (const state of inUse) {
      const one = watched.getOrInsertComputed(state, () => new Watched())
      if (one.isBusy) continue
      const dueMs = dueOf(state, one)
      if (dueMs <= nowMs) void run(state, one)
      else nextMs = Math.min(nextMs, dueMs)
    }
    wake(nextMs)
  }

  const dueOf = (state: UpstreamState, { failures, lastMs }: Watched): number => {
    const turnMs = failures > 0 ? Math.min(intervalMs, FAILED_INTERVAL_MS) : intervalMs
    const soonMs = PAUSES_MS[Math.max(failures, 1) - 1] ?? LAST_PAUSE_MS
    return lastMs + Math.min(intervalMs > 0 ? turnMs : NEVER, state.isInDoubt() ? soonMs : NEVER)
  }

  const run = async (state: UpstreamState, one: Watched): Promise<void> => {
    const upstream = state.toProbe()
    one.isBusy = true
    let failed = true
    try {
      const found = await probe(upstream, one, state.isInDoubt() ? unreachedTimeoutMs : timeoutMs)
      failed = FAILED.has(found.state)
      if (!one.gone.signal.aborted) health.probed(upstream, found)
    } catch (error) {
      log?.error('internal_error', 'internal error during a health check', {
        upstream: upstream.id,
        error: traceOf(error),
      })
    }
    one.isBusy = false
    one.failures = failed ? one.failures + 1 : 0
    one.lastMs = performance.now()
    wake(one.lastMs)
  }

  const probe = async (upstream: Upstream, { gone }: Watched, limitMs: number): Promise<Readiness> => {
    const timeout = new AbortController()
    let steps = 0
    const timer = setInterval(() => ++steps === STEPS && timeout.abort(), limitMs / STEPS)
    timer.unref()
    try {
      return await backendFor({ upstream }).probe(upstream, AbortSignal.any([gone.signal, timeout.signal]))
    } finally {
      clearInterval(timer)
    }
  }

  return {
    start() {
      isRunning = true
      wake(performance.now())
    },
    /** Runs due checks now, for a new configuration or after a failure. Cheap. */
    trigger: () => wake(performance.now()),
    stop() {
      isRunning = false
      clearTimeout(timer)
      for (const { gone } of watched.values()) gone.abort()
      watched.clear()
    },
  }
}

const FAILED: ReadonlySet<Readiness['state']> = new Set(['degraded', 'timeout', 'down', 'not_made'])
