/**
 * Asks upstreams how they are without a call that costs anything: a question of their dialect now and then, and a TCP look
 * every 2 s at those that could not be reached, so that a dead host is skipped and a revived one found. Tells `health`
 * what it finds. Only upstreams that a route leads to are asked, each by one question at a time. Holds up nothing: its
 * timers do not keep the process alive, and it never throws.
 */
import type { Backend, Readiness } from '../backends/backend.ts'
import { createLook, type Look } from '../backends/tcp.ts'
import type { Log } from '../log.ts'
import type { Snapshot, Upstream } from '../store/snapshot.ts'
import type { Health } from './health.ts'
import { isSame } from './place.ts'

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
/** One that takes connections and loses them is looked at after each call that failed, but not more often than this. */
const LOOK_GAP_MS = 200
/** An upstream that is down is asked more often: the sooner it is found again, the better. */
const DOWN_INTERVAL_MS = 10_000
/** Upstreams that are new at the same time are asked one after the other; later ones drift apart by chance. */
const STAGGER_MS = 20
const JITTER = 0.1

interface Watched {
  upstream: Upstream
  isBusy: boolean
  isDown: boolean
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
    const wasDown = one.isDown
    try {
      const looked = await look(one.upstream, one.gone.signal)
      if (looked) tell(one, looked, 'look')
      if (isProbe && looked?.state !== 'down') tell(one, await ask(one), 'probe')
    } catch (error) {
      log?.error('an upstream could not be probed for a reason of our own', {
        upstream: one.upstream.id,
        error: error instanceof Error ? (error.stack ?? error.message) : String(error),
      })
    }
    const nowMs = performance.now()
    one.isBusy = false
    one.nextLookMs = nowMs + (one.isDown ? LOOK_MS : LOOK_GAP_MS)
    if (isProbe) one.nextProbeMs = nowMs + toPause(one.isDown ? Math.min(intervalMs, DOWN_INTERVAL_MS) : intervalMs)
    // It takes connections again; whether it also answers is another question.
    else if (wasDown && !one.isDown) one.nextProbeMs = nowMs
    wake(nowMs)
  }

  const ask = async ({ upstream, gone }: Watched): Promise<Readiness> => {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(), timeoutMs)
    timer.unref()
    const signal = AbortSignal.any([gone.signal, timeout.signal])
    const readiness = await backendFor({ upstream }).probe(upstream, signal)
    clearTimeout(timer)
    // It takes connections, so it may only be busy, or we are: doubt does less harm here than an outage.
    const isLate = timeout.signal.aborted && readiness.state === 'down'
    return isLate ? { state: 'refused', reason: readiness.reason } : readiness
  }

  const tell = (one: Watched, readiness: Readiness, by: 'look' | 'probe'): void => {
    if (one.gone.signal.aborted) return
    one.isDown = readiness.state === 'down'
    health.probed(one.upstream, readiness, by)
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
  isDown: false,
  nextProbeMs,
  nextLookMs: 0,
  gone: new AbortController(),
})

const toPause = (ms: number) => ms * (1 - JITTER + 2 * JITTER * Math.random())
