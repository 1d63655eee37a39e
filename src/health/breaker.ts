/**
 * The circuit breaker of one target: closed; open for 10 s after five failures in a row; then half-open, with one live
 * request as its probe, which closes it by its success or opens it again by its failure. Time
 * comes in, from a clock that never steps. Pure.
 *
 * It is kept twice, so that one key's requests never take a target away from other keys:
 * - **for a key**: a row is failed requests of that key; a success of that key ends it, what other keys do does not.
 *   Five open it for that key alone.
 * - **for everyone**: a row is failed requests of all keys; any key's success ends it. Five open it once they are of two
 *   keys at least, or once a free probe of the upstream fails too: whichever comes last. A half-open probe that fails
 *   opens it for its own key, and for everyone once a second key's (or a free one) fails too.
 */

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000
/** A half-open probe that has said nothing for so long makes room for another: it may only be slow. */
const PROBE_MS = 10_000
/** A key's failures are forgotten when none has joined them for so long. */
const FORGET_MS = 10 * 60_000

/** A request. The object itself tells one from another, the one that is a half-open probe in particular. */
export interface Caller {
  readonly keyId: string
}

/** For whom a breaker has opened or closed; null where nothing changed. */
export type Change = 'everyone' | 'key' | null

/** One circuit as it is now. */
interface View {
  phase: 'closed' | 'open' | 'half_open'
  /** How long until a request may pass, ms; 0 where it may now. */
  waitMs: number
  failures: number
  /** What failed last, in words that clients may read. */
  reason: string
}

class Circuit {
  failures = 0
  reason = ''
  lastFailureMs = 0
  /** Null while it is closed. */
  openUntilMs: number | null = null
  probe: Caller | null = null
  probeMs = 0

  fail(reason: string): void {
    this.failures++
    this.reason = reason
  }

  open(nowMs: number): void {
    this.openUntilMs = nowMs + OPEN_MS
    this.probe = null
  }

  close(): void {
    this.openUntilMs = null
    this.probe = null
  }

  view(nowMs: number): View {
    const { openUntilMs, failures, reason, probe, probeMs } = this
    if (openUntilMs === null) return { phase: 'closed', waitMs: 0, failures, reason }
    const waitMs = Math.max(0, (probe === null ? openUntilMs : probeMs + PROBE_MS) - nowMs)
    return { phase: nowMs < openUntilMs ? 'open' : 'half_open', waitMs, failures, reason }
  }
}

const isOpen = ({ openUntilMs }: Circuit) => openUntilMs !== null

export class Breaker {
  readonly everyone = new Circuit()
  /** Whose requests failed in everyone's row, since it opened last: never more than five. */
  private readonly failedKeys = new Set<string>()
  /** Keys whose last request failed, in the order of their last failures. */
  readonly keys = new Map<string, Circuit>()

  /** Whether it lets everything pass, whoever asks: all that a request of a healthy target has to know. */
  isQuiet(): boolean {
    return this.everyone.openUntilMs === null && this.keys.size === 0
  }

  /** Everyone's circuit, and a key's own where it has one. */
  viewsFor(keyId: string, nowMs: number): View[] {
    return this.circuitsOf(keyId).map((circuit) => circuit.view(nowMs))
  }

  /** What most requests meet: everyone's circuit where it is not closed, else those of the keys that have one open. */
  openViews(nowMs: number): { views: View[]; isForKeys: boolean } {
    const own = isOpen(this.everyone) ? [] : [...this.keys.values()].filter(isOpen)
    const views = (own.length > 0 ? own : [this.everyone]).map((circuit) => circuit.view(nowMs))
    return { views, isForKeys: own.length > 0 }
  }

  /** Lets a request pass, or not. Where it is half-open, the request is its probe. */
  enter(caller: Caller, nowMs: number): boolean {
    const circuits = this.circuitsOf(caller.keyId)
    if (circuits.some((circuit) => circuit.view(nowMs).waitMs > 0)) return false
    for (const circuit of circuits.filter(isOpen)) Object.assign(circuit, { probe: caller, probeMs: nowMs })
    return true
  }

  isProbe(caller: Caller): boolean {
    return this.probedBy(caller).length > 0
  }

  /**
   * Counts a failed request. One that was sent before it opened says nothing new, and does not keep it open.
   * @param isConfirmed whether a free probe of the upstream failed, too
   * @returns for whom it has opened, where it was closed.
   */
  recordFailure(caller: Caller, reason: string, isConfirmed: boolean, nowMs: number): Change {
    const { everyone, failedKeys } = this
    const wasClosed = !isOpen(everyone)
    if (!wasClosed && everyone.probe !== caller) return null
    everyone.fail(reason)
    failedKeys.add(caller.keyId)
    if (everyone.failures >= FAILURES_TO_OPEN && (isConfirmed || failedKeys.size > 1)) {
      this.openForEveryone(nowMs)
      return wasClosed ? 'everyone' : null
    }
    const own = this.ownCircuit(caller.keyId, nowMs)
    if (!wasClosed) {
      everyone.probe = null
      Object.assign(own, { failures: everyone.failures, reason })
      own.open(nowMs)
      return null
    }
    const wasOwnClosed = !isOpen(own)
    if (!wasOwnClosed && own.probe !== caller) return null
    own.fail(reason)
    if (own.failures < FAILURES_TO_OPEN) return null
    own.open(nowMs)
    return wasOwnClosed ? 'key' : null
  }

  /** A free probe failed: what five requests in a row say, it confirms. Returns whether it has opened for everyone. */
  confirmFailures(nowMs: number): boolean {
    if (isOpen(this.everyone) || this.everyone.failures < FAILURES_TO_OPEN) return false
    this.openForEveryone(nowMs)
    return true
  }

  /** A request went well: ends the rows of its key and of everyone. Returns for whom that has closed it. */
  recordSuccess({ keyId }: Caller): Change {
    const { everyone, failedKeys, keys } = this
    // Nearly always nothing has failed.
    if (everyone.failures === 0 && keys.size === 0) return null
    everyone.failures = 0
    if (isOpen(everyone)) return this.closeForEveryone()
    failedKeys.clear()
    const own = keys.get(keyId)
    keys.delete(keyId)
    return own && isOpen(own) ? 'key' : null
  }

  /**
   * Closes it where its half-open probe has begun to answer. What failed before is remembered, so that the next failure
   * opens it again. Returns for whom that has closed it.
   */
  halfOpenSuccess(caller: Caller): Change {
    if (this.isQuiet()) return null
    const probed = this.probedBy(caller)
    if (probed.includes(this.everyone)) return this.closeForEveryone()
    for (const circuit of probed) circuit.close()
    return probed.length > 0 ? 'key' : null
  }

  /** A request ended without saying anything of its target: if it was the half-open probe, another may be. */
  abortProbe(caller: Caller): void {
    for (const circuit of this.probedBy(caller)) circuit.probe = null
  }

  /** What it opened for is over: it is half-open at once. */
  allowProbe(nowMs: number): void {
    this.failedKeys.clear()
    for (const circuit of [this.everyone, ...this.keys.values()]) {
      if (circuit.openUntilMs !== null) circuit.openUntilMs = Math.min(circuit.openUntilMs, nowMs)
    }
  }

  private circuitsOf(keyId: string): Circuit[] {
    const own = this.keys.get(keyId)
    return own ? [this.everyone, own] : [this.everyone]
  }

  /** The circuits of which the request is the half-open probe. */
  private probedBy(caller: Caller): Circuit[] {
    return this.circuitsOf(caller.keyId).filter(({ probe }) => probe === caller)
  }

  private ownCircuit(keyId: string, nowMs: number): Circuit {
    for (const [id, { lastFailureMs }] of this.keys) {
      if (nowMs - lastFailureMs < FORGET_MS) break
      this.keys.delete(id)
    }
    const own = this.keys.get(keyId) ?? new Circuit()
    this.keys.delete(keyId)
    this.keys.set(keyId, own)
    own.lastFailureMs = nowMs
    return own
  }

  private openForEveryone(nowMs: number): void {
    this.everyone.open(nowMs)
    this.failedKeys.clear()
    this.keys.clear()
  }

  private closeForEveryone(): Change {
    this.everyone.close()
    this.failedKeys.clear()
    this.keys.clear()
    return 'everyone'
  }
}
