/** What failed calls and free probes say: whether a breaker counts it, what is held against whom, and in which words. */

import type { UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { redact } from '../log.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { toRefusal, toRefusedByProbe, whyRefused } from '../upstreams/failure.ts'
import { isOurShortage } from '../upstreams/shortage.ts'
import { Breaker } from './breaker.ts'
import type { CallingRequest } from './circuit.ts'
import { PENALTY_MS, type TargetState, type UpstreamState } from './state.ts'

/** So long a call that went well counts for more than a free probe. */
const PROVEN_MS = 60_000

/** So long others come before one that is busy, where it does not say. */
const BUSY_MS = 1_000

/** Takes the failure of a call. */
export function takeFailure(target: TargetState, request: CallingRequest, error: UpstreamError): void {
  const { owner, deps } = target
  const { status, retryAfterMs } = error
  const refusal = toRefusal(error)
  const counts = refusal === null && isFailure(error)
  // What an upstream says about the request itself is no error of its own.
  if (counts || status === 429 || error.isSpoiled || whyRefused(error) !== null)
    owner.lastError = { message: toMessage(error), at_ms: deps.wallMs() }
  if (counts) {
    if (!owner.unreached && isUnreached(error) && owner.upstream.baseUrl !== null) {
      owner.unreached = true
      deps.onUnreached?.(owner.upstream)
    }
    target.breaker ??= new Breaker(target.about, deps.log)
    target.breaker.recordFailure(request, toWords(error), owner.probeFailed, deps.nowMs())
    return
  }
  // A 4xx is an answer, whatever it says.
  target.breaker?.abortProbe(request)
  if (error.isBusy)
    target.hold('paused', 'it has no room for more just now', Math.min(retryAfterMs ?? BUSY_MS, PENALTY_MS))
  if (status === 429 && retryAfterMs !== null)
    target.hold('paused', 'its provider limits our rate', Math.min(retryAfterMs, PENALTY_MS))
  if (!refusal) return
  if (owner.penalty?.kind === 'down') owner.reached()
  const reason = `it answered ${status}: ${refusal.why}`
  const isConfirmed = refusal.of === 'upstream' && owner.probeRefused && !isProven(owner)
  if (refusal.isForEveryone || isConfirmed) owner.penalise('refused', reason, true)
  else target.refuse(request.keyId, reason)
}

/** Whether a call has gone well so recently that a free probe says less. */
const isProven = ({ deps, workedMs }: UpstreamState): boolean => deps.nowMs() - workedMs < PROVEN_MS

/**
 * Takes what a free probe found.
 * @param used the upstream as it was probed, with one of its credentials.
 */
export function takeProbe(upstream: UpstreamState, found: Readiness, used: Upstream): void {
  const reason = 'reason' in found ? found.reason : ''
  if (found.state === 'not_made') return
  upstream.probeRefused = found.state === 'refused'
  const isHarmless = found.state === 'refused' && !isHeld(upstream, found, used)
  if (isHarmless) upstream.noteRefusal(used, reason)
  else if (found.state === 'refused' && upstream.credentialFailed(used, toRefusedByProbe(reason))) {
    upstream.reached()
    return
  }
  const state = isHarmless ? 'unknown' : found.state
  if (state === 'timeout') upstream.timeouts++
  else if (state !== 'down') upstream.reached()
  const { penalty, unreached, timeouts, deps } = upstream
  // Silence of one that calls did not find silent may be a slow answer, and makes it come after others at most.
  const isSilent = state === 'timeout' && unreached && (timeouts > 1 || penalty?.kind === 'down')
  if (state === 'down' || isSilent) upstream.markDown(reason)
  else if (!upstream.present()?.isOfCall) {
    // Any answer ends a doubt of whether it answers, only a welcome a refusal.
    if (state === 'ready' || (state === 'unknown' && penalty?.kind === 'degraded')) upstream.clear()
    else if (state !== 'unknown' && (unreached || timeouts > 1 || !isProven(upstream)))
      upstream.penalise(state === 'refused' ? 'refused' : 'degraded', reason)
  }
  upstream.probeFailed = state === 'down' || state === 'timeout' || state === 'degraded'
  if (!upstream.probeFailed) return
  for (const { breaker } of upstream.targets.values()) breaker?.confirmFailures(deps.nowMs())
  deps.onUnreached?.(upstream.upstream)
}

/** Whether a refused probe is held against its credential: what may list no models chats all the same, and calls will tell. */
const isHeld = (
  { credentials }: UpstreamState,
  { isWrong }: { isWrong: boolean },
  { each, credentialNumber }: Upstream,
) => isWrong && !(each && credentials.isProven(credentialNumber))

/** Whether the breaker counts it: the target did not do its work. A 4xx is an answer, a 429 a provider's good right. */
function isFailure({ kind, status, cause, isBusy, isSpoiled }: UpstreamError): boolean {
  if (isBusy || isSpoiled) return false
  if (kind === 'status') return status === null || status >= 500
  return kind !== 'aborted' && !isOurShortage(cause)
}

/** Whether it leaves in doubt that the upstream can be reached at all. */
const isUnreached = ({ kind, deadline }: UpstreamError): boolean =>
  kind === 'connection' || (kind === 'deadline' && (deadline === 'headers' || deadline === 'total_whole'))

/** The failure in words that clients may read: not in an upstream's, and short, since ours may quote a header of it. */
const toWords = ({ kind, status, message }: UpstreamError): string =>
  kind === 'status' ? `status ${status ?? 'unknown'}` : message.slice(0, 100)

/** The failure for an administrator, with the upstream's words, which may be a whole page. */
function toMessage(error: UpstreamError): string {
  const words = error.kind === 'status' ? `${toWords(error)}: ${error.message}` : error.message
  return redact(words).slice(0, 300)
}
