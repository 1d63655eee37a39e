/**
 * Probes upstreams by a request of their dialect that costs nothing: each now and then, and soon and often one that could
 * not be reached, so that a dead host is skipped and a revived one found. Tells `health` what it finds. Only upstreams
 * that a route leads to are probed, each by one probe at a time. Its timers do not keep the process alive, and it never throws.
 */

import type { Snapshot, Upstream } from '../domain/snapshot.ts'
import { type Log, traceOf } from '../log.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import { type Health, isSame } from './health.ts'

export interface ProberDeps {
  health: Pick<Health, 'probed' | 'unreached'>
  snapshot(): Snapshot
  backendFor(at: { upstream: Upstream }): Pick<Backend, 'probe'>
  /** How often each upstream is probed; 0 = never, but for those that could not be reached. */
  intervalMs?: number
  /** How long an answer may take. `fetch` shows no connect event: only this tells a silent host. */
  timeoutMs?: number
  /** The same for one that could not be reached. */
  unreachedTimeoutMs?: number
  log?: Pick<Log, 'error'>
}

export interface Prober {
  start(): void
  /** Does at once what it would see to in a moment: for a new configuration, and after a failure. Cheap. */
  trigger(): void
  stop(): void
}

/** Pauses before the next probes of one that could not be reached: it may only have been restarted. The last one stays. */
const PAUSES_MS = [250, 500, 1_000, 2_000]
/** One that failed its probe is probed more often: the sooner it is found again, the better. */
const FAILED_INTERVAL_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY
/** A time limit is counted in so many steps: a stall of our own loop counts as one of them, and not as silence. */
const STEPS = 10

interface Watched {
  upstream: Upstream
  isBusy: boolean
  /** Probes in a row that failed. */
  failures: number
  lastMs: number
  /** When it is probed in its turn. */
  nextMs: number
  /** Aborts once nobody wants to know any more. */
  gone: AbortController
}

export function createProber(deps: ProberDeps): Prober {
  const { health, snapshot, backendFor, intervalMs = 30_000, timeoutMs = 5_000, unreachedTimeoutMs = 2_000, log } = deps
  const watched = new Map<string, Watched>()
  let seen: Snapshot | null = null
  let isRunning = false
  let timer: Timer | undefined

  const wake = (atMs: number): void => {
    clearTimeout(timer)
    if (isRunning && atMs !== NEVER) timer = setTimeout(tick, Math.max(0, atMs - performance.now())).unref()
  }

  const tick = (): void => {
    takeOver(snapshot())
    const nowMs = performance.now()
    const unreached = new Set(health.unreached().map(({ id }) => id))
    let nextMs = NEVER
    for (const one of watched.values()) {
      if (one.isBusy) continue
      const isUnreached = unreached.has(one.upstream.id)
      const dueMs = Math.min(intervalMs > 0 ? one.nextMs : NEVER, isUnreached ? soonOf(one) : NEVER)
      if (dueMs <= nowMs) void run(one, isUnreached)
      else nextMs = Math.min(nextMs, dueMs)
    }
    wake(nextMs)
  }

  /** Takes up upstreams that are new or have changed, and lets go of what is gone. */
  const takeOver = (present: Snapshot): void => {
    if (present === seen) return
    seen = present
    const used = toUsed(present)
    for (const [id, { upstream, gone }] of watched) {
      const next = used.get(id)
      if (next && isSame(next, upstream)) continue
      gone.abort()
      watched.delete(id)
    }
    for (const [id, upstream] of used) {
      const known = watched.get(id)
      if (known) known.upstream = upstream
      else {
        const gone = new AbortController()
        watched.set(id, { upstream, isBusy: false, failures: 0, lastMs: -NEVER, nextMs: -NEVER, gone })
      }
    }
  }

  const run = async (one: Watched, isUnreached: boolean): Promise<void> => {
    one.isBusy = true
    let failed = true
    try {
      const found = await probe(one, isUnreached ? unreachedTimeoutMs : timeoutMs)
      failed = FAILED.has(found.state)
      if (!one.gone.signal.aborted) health.probed(one.upstream, found)
    } catch (error) {
      log?.error('internal_error', 'an upstream could not be probed for an internal error', {
        upstream: one.upstream.id,
        error: traceOf(error),
      })
    }
    one.isBusy = false
    one.failures = failed ? one.failures + 1 : 0
    one.lastMs = performance.now()
    one.nextMs = one.lastMs + (failed ? Math.min(intervalMs, FAILED_INTERVAL_MS) : intervalMs)
    wake(one.lastMs)
  }

  const probe = async ({ upstream, gone }: Watched, limitMs: number): Promise<Readiness> => {
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
    trigger: () => wake(performance.now()),
    stop() {
      isRunning = false
      clearTimeout(timer)
      for (const { gone } of watched.values()) gone.abort()
      watched.clear()
      seen = null
    },
  }
}

const FAILED: ReadonlySet<Readiness['state']> = new Set(['degraded', 'timeout', 'down', 'not_made'])

/** Upstreams that an enabled route leads to and that have what a call needs. */
function toUsed({ models }: Snapshot): Map<string, Upstream> {
  const used = new Map<string, Upstream>()
  for (const { targets } of models.values()) {
    for (const { upstream } of targets) if (upstream.notReady === null) used.set(upstream.id, upstream)
  }
  return used
}

/** When one that could not be reached is probed again. */
const soonOf = ({ failures, lastMs }: Watched): number =>
  lastMs + (PAUSES_MS[Math.min(Math.max(failures, 1), PAUSES_MS.length) - 1] ?? 0)
