/**
 * Asks upstreams how they are without a call that costs anything: a question of their dialect now and then, and a TCP look
 * every 2 s at those that could not be reached, so that a dead host is skipped and a revived one found. Tells `health`
 * what it finds. Only upstreams that a route leads to are asked, each by one question at a time. Holds up nothing: its
 * timers do not keep the process alive, and it never throws.
 */

import type { Snapshot, Upstream } from '../domain/snapshot.ts'
import { type Log, traceOf } from '../log.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import type { Health } from './health.ts'
import { isSame } from './state.ts'
import { createLook, type Look } from './tcp.ts'

export interface ProberDeps {
  health: Pick<Health, 'probed' | 'unreached'>
  snapshot(): Snapshot
  backendFor(at: { upstream: Upstream }): Pick<Backend, 'probe'>
  look?: Look
  /** How often each upstream is asked whether it is ready; 0 = never, and only the looks go on. */
  intervalMs?: number
  /** How long an answer may take. */
  timeoutMs?: number
  log?: Pick<Log, 'error'>
}

export interface Prober {
  start(): void
  /** Does at once what it would see to in a moment: for a new configuration, and after a failure. Cheap. */
  kick(): void
  stop(): void
}

const LOOK_MS = 2_000
/** One that is lost is first looked at sooner: it may only have been restarted. */
const FIRST_LOOKS_MS = [250, 500, 1_000]
/** One that takes connections and loses them is looked at after each call that failed, but not more often than this. */
const LOOK_GAP_MS = 250
/** An upstream that is down or doubtful is asked more often: the sooner it is found again, the better. */
const LOST_INTERVAL_MS = 10_000
/** Upstreams that are new at the same time are asked one after the other; later ones drift apart by chance. */
const STAGGER_MS = 20
const JITTER = 0.1

interface Watched {
  upstream: Upstream
  isBusy: boolean
  /** Looks in a row that found no connection. */
  lostLooks: number
  nextProbeMs: number
  nextLookMs: number
  /** Aborts once nobody wants to know any more. */
  gone: AbortController
}

export function createProber(deps: ProberDeps): Prober {
  const { health, snapshot, backendFor, look = createLook(), intervalMs = 30_000, timeoutMs = 5_000, log } = deps
  const watched = new Map<string, Watched>()
  let seen: Snapshot | null = null
  let isRunning = false
  let timer: ReturnType<typeof setTimeout> | null = null
  /** When the timer goes off. */
  let wakeMs = 0

  const wake = (atMs: number): void => {
    if (!isRunning || (timer !== null && wakeMs <= atMs)) return
    if (timer !== null) clearTimeout(timer)
    wakeMs = atMs
    timer = setTimeout(tick, Math.max(0, atMs - performance.now()))
    timer.unref()
  }

  const tick = (): void => {
    timer = null
    const nowMs = performance.now()
    takeOver(snapshot(), nowMs)
    const lost = new Set(health.unreached().map(({ id }) => id))
    let nextMs = nowMs + LOOK_MS
    for (const one of watched.values()) {
      if (one.isBusy) continue
      const probeMs = intervalMs > 0 ? one.nextProbeMs : Number.POSITIVE_INFINITY
      const lookMs = lost.has(one.upstream.id) ? one.nextLookMs : Number.POSITIVE_INFINITY
      if (Math.min(probeMs, lookMs) <= nowMs) void run(one, probeMs <= nowMs)
      else nextMs = Math.min(nextMs, probeMs, lookMs)
    }
    wake(nextMs)
  }

  /** Takes up upstreams that are new or have changed, and lets go of what is gone. */
  const takeOver = (present: Snapshot, nowMs: number): void => {
    if (present === seen) return
    seen = present
    const used = toUsed(present)
    for (const [id, { upstream, gone }] of watched) {
      const next = used.get(id)
      if (next && isSame(next, upstream)) continue
      gone.abort()
      watched.delete(id)
    }
    let count = 0
    for (const [id, upstream] of used) {
      const known = watched.get(id)
      if (known) known.upstream = upstream
      else watched.set(id, toWatched(upstream, nowMs + STAGGER_MS * count++))
    }
  }

  /** Looks, and asks if it is time and the look found nothing against it. */
  const run = async (one: Watched, isProbe: boolean): Promise<void> => {
    one.isBusy = true
    const wasLost = one.lostLooks > 0
    let looked: Readiness | null = null
    let asked: Readiness | null = null
    try {
      looked = await look(one.upstream, one.gone.signal)
      one.lostLooks = isLost(looked) ? one.lostLooks + 1 : 0
      tell(one, looked, 'look')
      if (isProbe && !isLost(looked)) asked = await ask(one)
      tell(one, asked, 'probe')
    } catch (error) {
      log?.error('an upstream could not be probed for a reason of our own', {
        upstream: one.upstream.id,
        error: traceOf(error),
      })
    }
    const nowMs = performance.now()
    one.isBusy = false
    one.nextLookMs = nowMs + toLookPause(one, looked)
    if (isProbe)
      one.nextProbeMs = nowMs + toPause(isLost(asked ?? looked) ? Math.min(intervalMs, LOST_INTERVAL_MS) : intervalMs)
    // It takes connections again; whether it also answers is another question.
    else if (wasLost && one.lostLooks === 0) one.nextProbeMs = nowMs
    wake(nowMs)
  }

  const ask = async ({ upstream, gone }: Watched): Promise<Readiness> => {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(), timeoutMs)
    timer.unref()
    const signal = AbortSignal.any([gone.signal, timeout.signal])
    const readiness = await backendFor({ upstream }).probe(upstream, signal)
    clearTimeout(timer)
    return readiness
  }

  const tell = ({ upstream, gone }: Watched, readiness: Readiness | null, by: 'look' | 'probe'): void => {
    if (readiness !== null && !gone.signal.aborted) health.probed(upstream, readiness, by)
  }

  return {
    start() {
      isRunning = true
      wake(performance.now())
    },
    kick: () => wake(performance.now()),
    stop() {
      isRunning = false
      if (timer !== null) clearTimeout(timer)
      timer = null
      for (const { gone } of watched.values()) gone.abort()
      watched.clear()
      seen = null
    },
  }
}

/** Upstreams that an enabled route leads to and that have what a call needs. */
function toUsed({ models }: Snapshot): Map<string, Upstream> {
  const used = new Map<string, Upstream>()
  for (const { targets } of models.values()) {
    for (const { upstream } of targets) if (upstream.notReady === null) used.set(upstream.id, upstream)
  }
  return used
}

const toWatched = (upstream: Upstream, nextProbeMs: number): Watched => ({
  upstream,
  isBusy: false,
  lostLooks: 0,
  nextProbeMs,
  nextLookMs: 0,
  gone: new AbortController(),
})

const isLost = (found: Readiness | null) => found?.state === 'down' || found?.state === 'doubtful'

/** How long until it may be looked at again. A look that learns nothing will learn nothing in a moment. */
function toLookPause({ lostLooks }: Watched, looked: Readiness | null): number {
  if (lostLooks > 0) return FIRST_LOOKS_MS[lostLooks - 1] ?? LOOK_MS
  return looked === null ? LOOK_MS : LOOK_GAP_MS
}

const toPause = (ms: number) => ms * (1 - JITTER + 2 * JITTER * Math.random())
