/**
 * The circuit breaker of one target: closed; open for 10 s after five failures in a row; then half-open, with one live
 * request as its probe, which closes it by its success or opens it again by its failure. Time comes in, from a clock that
 * never steps. The log has a line where it opens or closes.
 *
 * It is kept twice, so that one key's requests never take a target away from other keys:
 * - **for a key**: a row is failed requests of that key; a success of that key ends it, what other keys do does not.
 *   Five open it for that key alone.
 * - **for everyone**: a row is failed requests of all keys; any key's success ends it. Five open it once they are of two
 *   keys at least that share no team, or once a free probe of the upstream fails too: whichever comes last. A half-open
 *   probe that fails opens it for its own key, and for everyone once a second key's (or a free one) fails too. Where a key
 *   does well while the breaker is open for another one, or after others have opened it for everyone, it was their
 *   requests: for ten minutes theirs open it for everyone only where a free probe fails, too.
 */
import type { Log, LogFields } from '../log.ts'

/** Keys that something holds for, each for a fixed time from when it was noted last. Time comes in. */
export class MarkedKeys {
  /** Until when, the one that was noted first at the beginning. */
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

/** How long it stays open; and a half-open probe that has said nothing for so long makes room for another: it may only be slow. */
const WAIT_MS = 10_000

/** A request. The object itself tells one from another, the one that is a half-open probe in particular. */
export interface CallingRequest {
  readonly keyId: string
  /** Keys of one team may be of one person. */
  readonly teamId: string | null
}

/** One circuit of a breaker: closed, open until a time, or half-open with at most one request as its probe. */
class Circuit {
  failures = 0
  /** What failed last, in words that clients may read. */
  reason = ''
  lastFailureMs = 0
  /** Until when no other request passes; null while it is closed. */
  private untilMs: number | null = null
  probe: CallingRequest | null = null

  constructor(
    private readonly about: LogFields,
    private readonly log?: Pick<Log, 'info' | 'warn'>,
  ) {}

  isOpen(): boolean {
    return this.untilMs !== null
  }

  /** How long until a request may pass, ms; 0 where it may now. */
  waitMs(nowMs: number): number {
    return Math.max(0, (this.untilMs ?? nowMs) - nowMs)
  }

  /** Keeps requests out, but for the probe where there is one. */
  open(nowMs: number, probe: CallingRequest | null = null): void {
    const { about, log, reason } = this
    if (!this.isOpen()) log?.warn('breaker_opened', 'a breaker opened', { ...about, reason })
    this.untilMs = nowMs + WAIT_MS
    this.probe = probe
  }

  /** Has room for a probe now. */
  halfOpen(): void {
    this.untilMs = Number.NEGATIVE_INFINITY
    this.probe = null
  }

  close(): void {
    if (this.isOpen()) this.log?.info('breaker_closed', 'a breaker closed', this.about)
    this.untilMs = null
    this.probe = null
  }
}

const FAILURES_TO_OPEN = 5
/** A key's failures are forgotten when none has joined them for so long. */
const FORGET_MS = 10 * 60_000
/** A key that means harm is back at once; an outage in the meantime, others find out, too. */
const SUSPECT_MS = 10 * 60_000

export class Breaker {
  readonly everyone: Circuit
  /** Keys whose requests failed in everyone's row, since it opened last, and the team of each, or itself. */
  private readonly failedKeys = new Map<string, string>()
  /** Keys whose failures opened it for everyone last. */
  private openedBy: string[] = []
  /** Keys whose requests failed while those of other keys went well: their failures say nothing about the target for others. */
  private readonly suspects = new MarkedKeys(SUSPECT_MS)
  /** Keys whose last request failed, in the order of their last failures. */
  readonly keys = new Map<string, Circuit>()
  /** A request counts once, however often it is tried and in however many calls. */
  private readonly counted = new WeakSet<CallingRequest>()

  constructor(
    private readonly about: LogFields,
    private readonly log?: Pick<Log, 'info' | 'warn'>,
  ) {
    this.everyone = new Circuit(about, log)
  }

  /** The circuits that are not closed: everyone's, or else those of keys. */
  openCircuits(): Circuit[] {
    return this.everyone.isOpen() ? [this.everyone] : [...this.keys.values()].filter((circuit) => circuit.isOpen())
  }

  /** The circuit that keeps a key's requests out: an open one before one whose probe is under way. */
  blocking(keyId: string, nowMs: number): Circuit | null {
    // Nearly always nothing has failed.
    if (this.keys.size === 0 && !this.everyone.isOpen()) return null
    const blocking = this.circuitsOf(keyId).filter((circuit) => circuit.waitMs(nowMs) > 0)
    return blocking.find(({ probe }) => probe === null) ?? blocking[0] ?? null
  }

  /** Lets a request pass, or not. Where it is half-open, the request is its probe. */
  enter(request: CallingRequest, nowMs: number): boolean {
    if (this.blocking(request.keyId, nowMs)) return false
    for (const circuit of this.circuitsOf(request.keyId)) if (circuit.isOpen()) circuit.open(nowMs, request)
    return true
  }

  /**
   * Counts a failed request. One that was sent before it opened says nothing new, and does not keep it open.
   * @param isConfirmed whether a free probe of the upstream failed, too
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
      // From now on the key alone waits, for whom it has not been closed meanwhile.
      everyone.halfOpen()
      own.halfOpen()
    } else if (own.isOpen() && own.probe !== request) return
    own.failures = isProbe ? everyone.failures : own.failures + 1
    own.reason = reason
    if (own.failures >= FAILURES_TO_OPEN) own.open(nowMs)
  }

  /** A free probe failed: what five requests in a row say, it confirms. */
  confirmFailures(nowMs: number): void {
    if (!this.everyone.isOpen() && this.everyone.failures >= FAILURES_TO_OPEN) this.openForEveryone(nowMs)
  }

  /** A request went well: ends the rows of its key and of everyone. */
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

  /**
   * Closes it where its half-open probe has begun to answer. What failed before is remembered, so that the next failure
   * opens it again.
   */
  halfOpenSuccess(request: CallingRequest): void {
    const [circuit] = this.probedBy(request)
    if (circuit === this.everyone) this.closeForEveryone()
    else circuit?.close()
  }

  /** A request ended without saying anything of its target: if it was the half-open probe, another may be. */
  abortProbe(request: CallingRequest): void {
    for (const circuit of this.probedBy(request)) circuit.halfOpen()
  }

  /** What it opened for is over: it is half-open at once. */
  allowProbe(): void {
    this.failedKeys.clear()
    for (const circuit of [this.everyone, ...this.keys.values()])
      if (circuit.isOpen() && circuit.probe === null) circuit.halfOpen()
  }

  /** Everyone's circuit, and a key's own where it has one. */
  private circuitsOf(keyId: string): Circuit[] {
    const own = this.keys.get(keyId)
    return own ? [this.everyone, own] : [this.everyone]
  }

  /** The circuits of which the request is the half-open probe. */
  private probedBy(request: CallingRequest): Circuit[] {
    return this.circuitsOf(request.keyId).filter(({ probe }) => probe === request)
  }

  /** A key's own circuit, as the last one to fail. Keys that have long not failed are forgotten. */
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
