/** Why work on a request ends early, and the signal that says so. */

/**
 * - `disconnected`: the client disconnected
 * - `stopped`: the server is shutting down
 * - `superseded`: another call of the request failed, or the budget has no room for the rest
 * - `deadline`: a timeout of ours passed
 */
export type EndReason = 'disconnected' | 'stopped' | 'superseded' | 'deadline'

/** The part of `AbortSignal` that workers need. The reason is an EndReason, except on the signal of a client's connection (`endReasonOf`). */
export interface EndSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Whether usage is still read after such an end, for up to the disconnect grace. */
const READS_ON: Readonly<Record<EndReason, boolean>> = {
  disconnected: true,
  stopped: true,
  superseded: false,
  deadline: false,
}

/** Why a signal has aborted; null if it has not. An aborted connection without a reason means that the client disconnected. */
export function endReasonOf({ aborted, reason }: EndSignal): EndReason | null {
  if (!aborted) return null
  return isEndReason(reason) ? reason : 'disconnected'
}

const isEndReason = (reason: unknown): reason is EndReason => typeof reason === 'string' && reason in READS_ON

/** Whether usage of an aborted call may still be read. */
export function mayReadOn(signal: EndSignal): boolean {
  const reason = endReasonOf(signal)
  return reason !== null && READS_ON[reason]
}

/** Part of the work; ends with the whole or earlier. */
export interface Part {
  readonly signal: AbortSignal
  end(reason: EndReason): void
}

export function partOf(whole: EndSignal): Part {
  const controller = new AbortController()
  const end = (reason: EndReason) => controller.abort(reason)
  const endWithAll = () => end(endReasonOf(whole) ?? 'disconnected')
  if (whole.aborted) endWithAll()
  else whole.addEventListener('abort', endWithAll, { once: true })
  return { signal: controller.signal, end }
}
