/**
 * The circuit breaker of one target: closed; open for 10 s after five failures in a row; then half-open, with one live
 * request as its probe, which closes it by its success or opens it again by its failure. Plain data and functions over
 * it; time comes in, from a clock that never steps. Called by `request.ts`, `state.ts` and `health.ts`.
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

interface Circuit {
  failures: number
  /** Null while it is closed. */
  openUntilMs: number | null
  probe: Caller | null
  probeMs: number
  lastFailureMs: number
  /** What failed last, in words that clients may read. */
  reason: string
}

export interface Breaker {
  everyone: Circuit
  /** Whose requests failed in everyone's row, since it opened last: never more than five. */
  failedKeys: Set<string>
  /** Keys whose last request failed, in the order of their last failures. */
  keys: Map<string, Circuit>
}

/** For whom a breaker has opened or closed; null where nothing changed. */
export type Change = 'everyone' | 'key' | null

const createCircuit = (): Circuit => ({
  failures: 0,
  openUntilMs: null,
  probe: null,
  probeMs: 0,
  lastFailureMs: 0,
  reason: '',
})

export const createBreaker = (): Breaker => ({ everyone: createCircuit(), failedKeys: new Set(), keys: new Map() })

/** One circuit as it is now. */
export interface View {
  phase: 'closed' | 'open' | 'half_open'
  /** How long until a request may pass, ms; 0 where it may now. */
  waitMs: number
  failures: number
  reason: string
}

/** Everyone's circuit, and a key's own where it has one. */
export const viewsOf = (breaker: Breaker, keyId: string, nowMs: number): View[] =>
  circuitsOf(breaker, keyId).map((circuit) => toView(circuit, nowMs))

/** What most requests meet: everyone's circuit where it is not closed, else those of the keys that have one open. */
export function openViewsOf({ everyone, keys }: Breaker, nowMs: number): { views: View[]; isForKeys: boolean } {
  const own = isOpen(everyone) ? [] : [...keys.values()].filter(isOpen)
  return { views: (own.length > 0 ? own : [everyone]).map((each) => toView(each, nowMs)), isForKeys: own.length > 0 }
}

/** Whether it lets everything pass, whoever asks: all that a request of a healthy target has to know. */
export const isQuiet = ({ everyone, keys }: Breaker): boolean => everyone.openUntilMs === null && keys.size === 0

const isOpen = ({ openUntilMs }: Circuit) => openUntilMs !== null

function toView({ openUntilMs, failures, reason, probe, probeMs }: Circuit, nowMs: number): View {
  if (openUntilMs === null) return { phase: 'closed', waitMs: 0, failures, reason }
  const waitMs = Math.max(0, (probe === null ? openUntilMs : probeMs + PROBE_MS) - nowMs)
  return { phase: nowMs < openUntilMs ? 'open' : 'half_open', waitMs, failures, reason }
}

/** Lets a request pass, or not. Where it is half-open, the request is its probe. */
export function enter(breaker: Breaker, caller: Caller, nowMs: number): boolean {
  if (viewsOf(breaker, caller.keyId, nowMs).some(({ waitMs }) => waitMs > 0)) return false
  for (const circuit of circuitsOf(breaker, caller.keyId)) {
    if (isOpen(circuit)) Object.assign(circuit, { probe: caller, probeMs: nowMs })
  }
  return true
}

const circuitsOf = ({ everyone, keys }: Breaker, keyId: string): Circuit[] => [everyone, keys.get(keyId) ?? []].flat()

/** The circuits of which the request is the half-open probe. */
const probedBy = (breaker: Breaker, caller: Caller): Circuit[] =>
  circuitsOf(breaker, caller.keyId).filter(({ probe }) => probe === caller)

export const isProbe = (breaker: Breaker, caller: Caller): boolean => probedBy(breaker, caller).length > 0

/**
 * Counts a failed request. One that was sent before it opened says nothing new, and does not keep it open.
 * @param isConfirmed whether a free probe of the upstream failed, too
 * @returns for whom it has opened, where it was closed.
 */
export function recordFailure(
  breaker: Breaker,
  caller: Caller,
  reason: string,
  isConfirmed: boolean,
  nowMs: number,
): Change {
  const { everyone, failedKeys } = breaker
  const wasClosed = !isOpen(everyone)
  if (!wasClosed && everyone.probe !== caller) return null
  fail(everyone, reason)
  failedKeys.add(caller.keyId)
  if (everyone.failures >= FAILURES_TO_OPEN && (isConfirmed || failedKeys.size > 1)) {
    openForEveryone(breaker, nowMs)
    return wasClosed ? 'everyone' : null
  }
  const own = ownCircuit(breaker, caller.keyId, nowMs)
  if (!wasClosed) {
    everyone.probe = null
    open(Object.assign(own, { failures: everyone.failures, reason }), nowMs)
    return null
  }
  const wasOwnClosed = !isOpen(own)
  if (!wasOwnClosed && own.probe !== caller) return null
  fail(own, reason)
  if (own.failures < FAILURES_TO_OPEN) return null
  open(own, nowMs)
  return wasOwnClosed ? 'key' : null
}

function ownCircuit({ keys }: Breaker, keyId: string, nowMs: number): Circuit {
  for (const [id, { lastFailureMs }] of keys) {
    if (nowMs - lastFailureMs < FORGET_MS) break
    keys.delete(id)
  }
  const own = keys.get(keyId) ?? createCircuit()
  keys.delete(keyId)
  keys.set(keyId, own)
  own.lastFailureMs = nowMs
  return own
}

const fail = (circuit: Circuit, reason: string) => Object.assign(circuit, { failures: circuit.failures + 1, reason })

const open = (circuit: Circuit, nowMs: number) => Object.assign(circuit, { openUntilMs: nowMs + OPEN_MS, probe: null })

const close = (circuit: Circuit) => Object.assign(circuit, { openUntilMs: null, probe: null })

function openForEveryone({ everyone, failedKeys, keys }: Breaker, nowMs: number): void {
  open(everyone, nowMs)
  failedKeys.clear()
  keys.clear()
}

function closeForEveryone({ everyone, failedKeys, keys }: Breaker): void {
  close(everyone)
  failedKeys.clear()
  keys.clear()
}

/** A free probe failed: what five requests in a row say, it confirms. Returns whether it has opened for everyone. */
export function confirmFailures(breaker: Breaker, nowMs: number): boolean {
  if (isOpen(breaker.everyone) || breaker.everyone.failures < FAILURES_TO_OPEN) return false
  openForEveryone(breaker, nowMs)
  return true
}

/** A request went well: ends the rows of its key and of everyone. Returns for whom that has closed it. */
export function recordSuccess(breaker: Breaker, { keyId }: Caller): Change {
  const { everyone, failedKeys, keys } = breaker
  // Nearly always nothing has failed.
  if (everyone.failures === 0 && keys.size === 0) return null
  everyone.failures = 0
  if (isOpen(everyone)) {
    closeForEveryone(breaker)
    return 'everyone'
  }
  failedKeys.clear()
  const own = keys.get(keyId)
  keys.delete(keyId)
  return own && isOpen(own) ? 'key' : null
}

/**
 * Closes it where its half-open probe has begun to answer. What failed before is remembered, so that the next failure
 * opens it again. Returns for whom that has closed it.
 */
export function halfOpenSuccess(breaker: Breaker, caller: Caller): Change {
  const probed = probedBy(breaker, caller)
  if (probed.includes(breaker.everyone)) {
    closeForEveryone(breaker)
    return 'everyone'
  }
  for (const circuit of probed) close(circuit)
  return probed.length > 0 ? 'key' : null
}

/** A request ended without saying anything of its target: if it was the half-open probe, another may be. */
export function abortProbe(breaker: Breaker, caller: Caller): void {
  for (const circuit of probedBy(breaker, caller)) circuit.probe = null
}

/** What it opened for is over: it is half-open at once. */
export function allowProbe({ everyone, failedKeys, keys }: Breaker, nowMs: number): void {
  failedKeys.clear()
  for (const circuit of [everyone, ...keys.values()]) {
    if (circuit.openUntilMs !== null) circuit.openUntilMs = Math.min(circuit.openUntilMs, nowMs)
  }
}
