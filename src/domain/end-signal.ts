/** Why work on a request ends early. */

/**
 * - `disconnected`: the client disconnected
 * - `stopped`: server shutdown
 * - `superseded`: another call failed, or no budget is left
 * - `deadline`: a timeout of ours
 */
export type EndReason = 'disconnected' | 'stopped' | 'superseded' | 'deadline'

/** The part of `AbortSignal` that workers need. Its reason is an EndReason, except on client connections (`endReasonOf`). */
export interface EndSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Whether usage is still read, for up to the disconnect grace. */
const READS_ON: Readonly<Record<EndReason, boolean>> = {
  disconnected: true,
  stopped: true,
  superseded: false,
  deadline: false,
}

/** null if not aborted; without a reason, the client disconnected. */
export function endReasonOf({ aborted, reason }: EndSignal): EndReason | null {
  if (!aborted) return null
  return isEndReason(reason) ? reason : 'disconnected'
}

const isEndReason = (reason: unknown): reason is EndReason => typeof reason === 'string' && reason in READS_ON

export function mayReadOn(signal: EndSignal): boolean {
  const reason = endReasonOf(signal)
  return reason !== null && READS_ON[reason]
}

/** Ends with the whole signal, or earlier. */
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
