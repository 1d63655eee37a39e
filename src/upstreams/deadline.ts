/**
 * Ends a call on a timeout, client disconnect or server stop. One ticker checks all calls, because a timer and listener per call cost more
 * than the rest of a call's bookkeeping. So calls end up to TICK_MS late.
 */
import { type EndSignal, mayReadOn } from '../domain/end-signal.ts'
import { endOf, UpstreamError } from '../domain/error.ts'
import type { CallObserver, Reading } from './backend.ts'

const TICK_MS = 50
/** A later tick means that this process or the machine was suspended, so data that arrived couldn't be read. */
const LATE_MS = 4 * TICK_MS

const running = new Set<Deadline>()
let ticker: ReturnType<typeof setInterval> | null = null
let lastMs = 0

function tick(): void {
  const nowMs = performance.now()
  const stillMs = Math.max(0, nowMs - lastMs - LATE_MS)
  lastMs = nowMs
  for (const deadline of running) if (deadline.check(nowMs, stillMs)) running.delete(deadline)
  if (running.size > 0 || ticker === null) return
  clearInterval(ticker)
  ticker = null
}

export interface DeadlineOptions {
  name: string
  ms: number
  totalMs?: number
  /** Called at most once, with the reason: a timeout, or the client's signal. */
  end(error: UpstreamError): void
  client?: EndSignal
  /** Decides how long to keep reading once `client` has aborted. Without an observer, the call ends then. */
  observer?: Pick<CallObserver, 'left'>
}

export interface ActivitySource {
  isHeard: boolean
}

export class Deadline implements Reading {
  readonly #startedMs = performance.now()
  readonly #totalMs: number
  #end: (error: UpstreamError) => void
  #client: EndSignal | undefined
  #observer: Pick<CallObserver, 'left'> | undefined
  #readOnMs: number | null = null
  #name: string
  #ms: number
  #since = this.#startedMs
  #isTouched = false
  #isPaused = false
  #hearer: ActivitySource | null = null

  constructor({ name, ms, totalMs = Number.POSITIVE_INFINITY, end, client, observer }: DeadlineOptions) {
    this.#name = name
    this.#ms = ms
    this.#totalMs = totalMs
    this.#end = end
    this.#client = client
    this.#observer = observer
    running.add(this)
    if (ticker !== null) return
    lastMs = this.#startedMs
    ticker = setInterval(tick, TICK_MS)
  }

  /** Enters a phase, which ends the call after more than `ms` of silence. */
  enter(name: string, ms: number): void {
    this.#name = name
    this.#ms = ms
    this.#since = performance.now()
    this.#isTouched = false
  }

  /** Asks `hearer` at each tick if the phase restarts, so that chunks don't have to access this object. */
  askOf(hearer: ActivitySource): void {
    this.#hearer = hearer
  }

  /** Silence doesn't count while we make the upstream wait. */
  pause(paused: boolean): void {
    // The phase restarts when we read again.
    if (this.#isPaused && !paused) this.#isTouched = true
    this.#isPaused = paused
  }

  /**
   * Drops references, since the runtime keeps finished objects reachable for a while. With 32 concurrent requests, each collection found
   * 2 MB alive with references and 0.5 MB without, and took three times as long (BUN_JSC_logGC=1).
   */
  stop(): void {
    running.delete(this)
    this.#client = undefined
    this.#observer = undefined
    this.#hearer = null
    this.#end = nothing
  }

  endWithin(ms: number): void {
    this.#readOnMs = Math.min(this.#readOnMs ?? Number.POSITIVE_INFINITY, performance.now() + ms)
  }

  /**
   * Checks the clock and the client; true once the call was ended.
   * @param stillMs time in which this process was suspended, which doesn't count as silence.
   */
  check(nowMs: number, stillMs: number): boolean {
    if (this.#client?.aborted && !this.#isReadOn(this.#client, nowMs)) {
      this.#end(endOf(this.#client))
      return true
    }
    if (this.#hearer?.isHeard) {
      this.#hearer.isHeard = false
      this.#isTouched = true
    }
    this.#since = this.#isTouched || this.#isPaused ? nowMs : Math.min(nowMs, this.#since + stillMs)
    this.#isTouched = false
    const isTotal = nowMs - this.#startedMs >= this.#totalMs
    if (!isTotal && nowMs - this.#since < this.#ms) return false
    const [name, ms] = isTotal ? ['total', this.#totalMs] : [this.#name, this.#ms]
    const message = `${name} timeout (${Number(ms) / 1000} s)`
    this.#end(new UpstreamError('deadline', message, { deadline: String(name), retryable: true }))
    return true
  }

  #isReadOn(client: EndSignal, nowMs: number): boolean {
    if (!mayReadOn(client)) return false
    this.#readOnMs ??= nowMs + (this.#observer?.left(this) ?? 0)
    return nowMs < this.#readOnMs
  }
}

const nothing = () => {}
