/** Why work on a request ends before it is done, and what says so. */

/**
 * - `disconnected`: the client has left
 * - `stopped`: the server stops
 * - `superseded`: nobody wants the answer of a call any more: another call of its request has failed, or a budget has no room for the rest
 * - `deadline`: a deadline of ours has passed
 */
export type EndReason = 'disconnected' | 'stopped' | 'superseded' | 'deadline'

/**
 * What is read of an `AbortSignal`, which is one: whoever has the work ended decides when, whoever does it listens. Its reason is an
 * EndReason, but for the signal of a client's connection (`endReasonOf`).
 */
export interface EndSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Whether a call that ends so is read on for its usage, for as long as its disconnect grace says. */
const READS_ON: Readonly<Record<EndReason, boolean>> = {
  disconnected: true,
  stopped: true,
  superseded: false,
  deadline: false,
}

/** Why a signal has aborted; null where it has not. A connection that has ended says nothing but that its client has left. */
export function endReasonOf({ aborted, reason }: EndSignal): EndReason | null {
  if (!aborted) return null
  return isEndReason(reason) ? reason : 'disconnected'
}

const isEndReason = (reason: unknown): reason is EndReason => typeof reason === 'string' && reason in READS_ON

/** Whether a call whose signal has aborted may be read on for its usage. */
export function mayReadOn(signal: EndSignal): boolean {
  const reason = endReasonOf(signal)
  return reason !== null && READS_ON[reason]
}

/** A part of the work, which ends with all of it or before. */
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
