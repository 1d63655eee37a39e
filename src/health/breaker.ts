/**
 * The circuit breaker of one target: closed; open for 10 s after five failures in a row; then half-open, with one live
 * request as its probe, which closes it by its success or opens it again by its failure. Plain data and functions over
 * it; time comes in, from a clock that never steps. Called by `request.ts` and `health.ts`.
 *
 * It is kept twice, so that one key's requests never take a target away from other keys:
 * - **for a key**: a row is failed requests of that key; a success of that key ends it, what other keys do does not.
 *   Five open it for that key alone.
 * - **for everyone**: a row is failed requests of all keys; any key's success ends it. Five open it once they are of two
 *   keys at least, or once a free probe of the upstream fails too: whichever comes last. When half-open, a probe that
 *   fails shuts out its own key for another 10 s, and everyone once a second key's probe (or a free one) fails too.
 */

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000
/** So long a half-open target comes after healthy ones. Then one request tries it first, or it might never be tried. */
const BEHIND_MS = 10_000
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

/** One circuit as it is for one key. */
export interface View {
  phase: 'closed' | 'open' | 'half_open'
  /** How long until a request may pass, ms; 0 where it may now. */
  waitMs: number
  /** Whether it is half-open and its probe should not wait for others to fail. */
  isProbeDue: boolean
  failures: number
  reason: string
}

/** How everyone's circuit and a key's own are for that key; without a key, everyone's as it is for most. */
export function viewsOf(breaker: Breaker, keyId: string | null, nowMs: number): View[] {
  const own = keyId === null ? undefined : breaker.keys.get(keyId)
  const all = toView(breaker.everyone, everyoneUntil(breaker, keyId), nowMs)
  return own ? [all, toView(own, own.openUntilMs, nowMs)] : [all]
}

/** The circuits of single keys that are not closed. */
export const openKeys = ({ keys }: Breaker, nowMs: number): View[] =>
  [...keys.values()].filter(isOpen).map((own) => toView(own, own.openUntilMs, nowMs))

const isOpen = ({ openUntilMs }: Circuit) => openUntilMs !== null

/** Whether it lets everything pass: all that a request of a healthy target has to know. */
export const isClosed = ({ everyone, keys }: Breaker): boolean => !isOpen(everyone) && ![...keys.values()].some(isOpen)

/** A half-open probe that failed keeps out its own key for longer than the others. */
function everyoneUntil({ everyone, failedKeys }: Breaker, keyId: string | null): number | null {
  const { openUntilMs } = everyone
  if (openUntilMs === null || failedKeys.size === 0 || keyId === null || failedKeys.has(keyId)) return openUntilMs
  return openUntilMs - OPEN_MS
}

function toView({ failures, reason, probe, probeMs }: Circuit, untilMs: number | null, nowMs: number): View {
  if (untilMs === null) return { phase: 'closed', waitMs: 0, isProbeDue: false, failures, reason }
  const waitMs = Math.max(0, (probe === null ? untilMs : probeMs + PROBE_MS) - nowMs)
  const isProbeDue = waitMs === 0 && nowMs >= untilMs + BEHIND_MS
  return { phase: nowMs < untilMs ? 'open' : 'half_open', waitMs, isProbeDue, failures, reason }
}

/** Lets a request pass, or not. Where it is half-open, the request is its probe. */
export function enter(breaker: Breaker, caller: Caller, nowMs: number): boolean {
  if (viewsOf(breaker, caller.keyId, nowMs).some(({ waitMs }) => waitMs > 0)) return false
  for (const circuit of circuitsOf(breaker, caller)) {
    if (isOpen(circuit)) Object.assign(circuit, { probe: caller, probeMs: nowMs })
  }
  return true
}

const circuitsOf = ({ everyone, keys }: Breaker, { keyId }: Caller): Circuit[] =>
  [everyone, keys.get(keyId) ?? []].flat()

/** The circuits of which the request is the half-open probe. */
const probedBy = (breaker: Breaker, caller: Caller): Circuit[] =>
  circuitsOf(breaker, caller).filter(({ probe }) => probe === caller)

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
  const own = ownCircuit(breaker, caller.keyId, nowMs)
  const wasOwnClosed = !isOpen(own)
  if (wasClosed || everyone.probe === caller) {
    fail(everyone, reason)
    failedKeys.add(caller.keyId)
    if (everyone.failures >= FAILURES_TO_OPEN && (isConfirmed || failedKeys.size > 1)) {
      openForEveryone(breaker, nowMs)
      return wasClosed ? 'everyone' : null
    }
    if (!wasClosed) open(everyone, nowMs)
  }
  // While it is shut for everyone, a key's own row stands still.
  if (wasOwnClosed ? !wasClosed : own.probe !== caller) return null
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

/** A free probe failed: what five requests in a row say, it confirms. Returns whether it has opened for everyone. */
export function confirmFailures(breaker: Breaker, nowMs: number): boolean {
  if (isOpen(breaker.everyone) || breaker.everyone.failures < FAILURES_TO_OPEN) return false
  openForEveryone(breaker, nowMs)
  return true
}

/** A request went well: ends the rows of its key and of everyone. Returns for whom that has closed it. */
export function recordSuccess({ everyone, failedKeys, keys }: Breaker, { keyId }: Caller): Change {
  // Nearly always nothing has failed.
  if (everyone.failures === 0 && keys.size === 0) return null
  const own = keys.get(keyId)
  keys.delete(keyId)
  const change = isOpen(everyone) ? 'everyone' : own && isOpen(own) ? 'key' : null
  close(everyone)
  everyone.failures = 0
  failedKeys.clear()
  return change
}

/**
 * Closes it where its half-open probe has begun to answer. What failed before is remembered, so that the next failure
 * opens it again. Returns for whom that has closed it.
 */
export function halfOpenSuccess(breaker: Breaker, caller: Caller): Change {
  const probed = probedBy(breaker, caller)
  for (const circuit of probed) close(circuit)
  if (!probed.includes(breaker.everyone)) return probed.length > 0 ? 'key' : null
  breaker.failedKeys.clear()
  return 'everyone'
}

/** A request ended without saying anything of its target: if it was the half-open probe, another may be. */
export function abortProbe(breaker: Breaker, caller: Caller): void {
  for (const circuit of probedBy(breaker, caller)) circuit.probe = null
}

/** What it opened for is over: the next request is its probe, without waiting for others to fail. */
export function allowProbe({ everyone, failedKeys, keys }: Breaker, nowMs: number): void {
  failedKeys.clear()
  for (const circuit of [everyone, ...keys.values()]) {
    if (circuit.openUntilMs !== null) circuit.openUntilMs = Math.min(circuit.openUntilMs, nowMs - BEHIND_MS)
  }
}
