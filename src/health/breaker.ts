/**
 * Circuit breaker of one target: open for 10 s after five failures in a row, then half-open with one live request as
 * its probe, which closes or reopens it.
 *
 * Kept twice, so that one key's requests never take a target away from other keys:
 * - **per key**: counts that key's failed requests, reset by its successes; five open it for that key only.
 * - **for everyone**: counts all failed requests, reset by any success. Five open it once they are of two keys that
 * share no team, or once a free health check fails, too. A failed probe opens it for its own key, and for everyone once
 * a second key's (or a free one) fails. If a key succeeds while the breaker is open for others or by others' failures,
 * those keys are suspects: for ten minutes their failures count for everyone only if a free health check fails, too.
 */
import type { Log, LogFields } from '../log.ts'

export class MarkedKeys {
  readonly #untilMs = new Map<string, number>()

  constructor(private readonly forMs: number) {}

  note(keyId: string, nowMs: number): void {
    this.#dropExpired(nowMs)
    this.#untilMs.delete(keyId)
    this.#untilMs.set(keyId, nowMs + this.forMs)
  }

  has(keyId: string, nowMs: number): boolean {
    return (this.#untilMs.get(keyId) ?? nowMs) > nowMs
  }

  forget(keyId: string): void {
    this.#untilMs.delete(keyId)
  }

  count(nowMs: number): number {
    this.#dropExpired(nowMs)
    return this.#untilMs.size
  }

  #dropExpired(nowMs: number): void {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) break
      this.#untilMs.delete(id)
    }
  }
}

/** How long it stays open, and how long a silent half-open probe, which may only be slow, blocks another. */
const WAIT_MS = 10_000

/** Compared by identity. */
export interface CallingRequest {
  readonly keyId: string
  /** Keys of one team may belong to one person. */
  readonly teamId: string | null
}

class Circuit {
  failures = 0
  /** The last failure, in words that clients may read. */
  reason = ''
  lastFailureMs = 0
  private untilMs: number | null = null
  /** Since when it has been open, also half-open. */
  openedMs: number | null = null
  probe: CallingRequest | null = null

  constructor(
    private readonly about: LogFields,
    private readonly log?: Pick<Log, 'info' | 'warn'>,
  ) {}

  isOpen(): boolean {
    return this.untilMs !== null
  }

  waitMs(nowMs: number): number {
    return Math.max(0, (this.untilMs ?? nowMs) - nowMs)
  }

  /** Blocks all requests except the probe. */
  open(nowMs: number, probe: CallingRequest | null = null): void {
    const { about, log, reason } = this
    if (!this.isOpen()) log?.warn('breaker_opened', 'circuit breaker opened', { ...about, reason })
    this.openedMs ??= nowMs
    this.untilMs = nowMs + WAIT_MS
    this.probe = probe
  }

  halfOpen(): void {
    this.untilMs = Number.NEGATIVE_INFINITY
    this.probe = null
  }

  close(): void {
    if (this.isOpen()) this.log?.info('breaker_closed', 'circuit breaker closed', this.about)
    this.untilMs = null
    this.openedMs = null
    this.probe = null
  }
}

const FAILURES_TO_OPEN = 5
/** A key's failures expire after this time without another. */
const FORGET_MS = 10 * 60_000
/** A malicious key is back at once; a real outage would be noticed by other keys. */
const SUSPECT_MS = 10 * 60_000

export class Breaker {
  readonly everyone: Circuit
  /** Keys with failures counted for everyone since it last opened, with their team, or themselves. */
  private readonly failedKeys = new Map<string, string>()
  private openedBy: string[] = []
  private readonly suspects = new MarkedKeys(SUSPECT_MS)
  /** Keys whose last request failed, by time of failure. */
  readonly keys = new Map<string, Circuit>()
  /** A request counts once, whatever its number of calls. */
  private readonly counted = new WeakSet<CallingRequest>()

  constructor(
    private readonly about: LogFields,
    private readonly log?: Pick<Log, 'info' | 'warn'>,
  ) {
    this.everyone = new Circuit(about, log)
  }

  /** Everyone's, or else those of keys. */
  openCircuits(): Circuit[] {
    return this.everyone.isOpen() ? [this.everyone] : [...this.keys.values()].filter((circuit) => circuit.isOpen())
  }

  /** The circuit that blocks a key: an open one before one with a running probe. */
  blocking(keyId: string, nowMs: number): Circuit | null {
    // A shortcut: nearly always nothing has failed.
    if (this.keys.size === 0 && !this.everyone.isOpen()) return null
    const blocking = this.circuitsOf(keyId).filter((circuit) => circuit.waitMs(nowMs) > 0)
    return blocking.find(({ probe }) => probe === null) ?? blocking[0] ?? null
  }

  /** If half-open, the request becomes its probe. */
  enter(request: CallingRequest, nowMs: number): boolean {
    if (this.blocking(request.keyId, nowMs)) return false
    for (const circuit of this.circuitsOf(request.keyId)) if (circuit.isOpen()) circuit.open(nowMs, request)
    return true
  }

  /**
   * Ignores requests sent before it opened.
   * @param isConfirmed whether a free health check failed, too.
   */
  recordFailure(request: CallingRequest, reason: string, isConfirmed: boolean, nowMs: number): void {
    const { everyone, failedKeys, counted } = this
    const { keyId } = request
    if (counted.has(request) && this.probedBy(request).length === 0) return
    counted.add(request)
    const isProbe = everyone.probe === request
    if (everyone.isOpen() && !isProbe) return
    if (isConfirmed || !this.suspects.has(keyId, nowMs)) {
      everyone.failures++
      everyone.reason = reason
      failedKeys.set(keyId, request.teamId ?? keyId)
      if (everyone.failures >= FAILURES_TO_OPEN && (isConfirmed || new Set(failedKeys.values()).size > 1)) {
        this.openForEveryone(nowMs)
        return
      }
    }
    const own = this.ownCircuit(keyId, nowMs)
    if (isProbe) {
      // Only this key must wait; for others the breaker is half-open.
      everyone.halfOpen()
      own.halfOpen()
    } else if (own.isOpen() && own.probe !== request) return
    own.failures = isProbe ? everyone.failures : own.failures + 1
    own.reason = reason
    if (own.failures >= FAILURES_TO_OPEN) own.open(nowMs)
  }

  /** A failed free health check confirms five failures in a row. */
  confirmFailures(nowMs: number): void {
    if (!this.everyone.isOpen() && this.everyone.failures >= FAILURES_TO_OPEN) this.openForEveryone(nowMs)
  }

  /** Resets the counts of its key and of everyone. */
  recordSuccess({ keyId }: CallingRequest, nowMs: number): void {
    for (const id of this.openedBy) if (id !== keyId) this.suspects.note(id, nowMs)
    this.openedBy = []
    for (const [id, circuit] of this.keys) if (id !== keyId && circuit.isOpen()) this.suspects.note(id, nowMs)
    this.everyone.failures = 0
    if (this.everyone.isOpen()) this.closeForEveryone()
    this.failedKeys.clear()
    this.keys.get(keyId)?.close()
    this.keys.delete(keyId)
  }

  /** The half-open probe has begun to respond. Earlier failures are kept, so that the next one reopens it. */
  halfOpenSuccess(request: CallingRequest): void {
    const [circuit] = this.probedBy(request)
    if (circuit === this.everyone) this.closeForEveryone()
    else circuit?.close()
  }

  /** The request ended without saying anything about its target; another may be the probe. */
  abortProbe(request: CallingRequest): void {
    for (const circuit of this.probedBy(request)) circuit.halfOpen()
  }

  isProbedBy(request: CallingRequest): boolean {
    return this.probedBy(request).length > 0
  }

  /** Whether a success of the key would reset anything. */
  hasFailed(keyId: string): boolean {
    return this.everyone.failures > 0 || this.everyone.isOpen() || this.keys.has(keyId)
  }

  /** Restores the state of another process. */
  restore(reason: string, nowMs: number): void {
    this.everyone.failures = FAILURES_TO_OPEN
    this.everyone.reason = reason
    this.openForEveryone(nowMs)
  }

  /** The cause is gone: half-open at once. */
  allowProbe(): void {
    this.failedKeys.clear()
    for (const circuit of [this.everyone, ...this.keys.values()])
      if (circuit.isOpen() && circuit.probe === null) circuit.halfOpen()
  }

  private circuitsOf(keyId: string): Circuit[] {
    const own = this.keys.get(keyId)
    return own ? [this.everyone, own] : [this.everyone]
  }

  private probedBy(request: CallingRequest): Circuit[] {
    return this.circuitsOf(request.keyId).filter(({ probe }) => probe === request)
  }

  /** Moves it to the end of the failed keys, and drops expired ones. */
  private ownCircuit(keyId: string, nowMs: number): Circuit {
    for (const [id, { lastFailureMs }] of this.keys) {
      if (nowMs - lastFailureMs < FORGET_MS) break
      this.keys.delete(id)
    }
    const own = this.keys.get(keyId) ?? new Circuit({ ...this.about, key: keyId }, this.log)
    this.keys.delete(keyId)
    this.keys.set(keyId, own)
    own.lastFailureMs = nowMs
    return own
  }

  private openForEveryone(nowMs: number): void {
    this.everyone.open(nowMs)
    this.openedBy = [...this.failedKeys.keys()]
    this.failedKeys.clear()
    this.keys.clear()
  }

  private closeForEveryone(): void {
    this.everyone.close()
    this.failedKeys.clear()
    this.keys.clear()
  }
}
