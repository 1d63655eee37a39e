/** How far the server's clock is ahead of this browser's: pages tell by it how long ago something was. */
import { signal } from '@preact/signals'

/** A response takes time, and its date lacks the fraction of a second. */
const LEAST_MS = 5_000

export const aheadMs = signal(0)

/** @param date a response's header */
export function learnClock(date: string | null): void {
  const foundMs = Date.parse(date ?? '') - Date.now()
  if (Math.abs(foundMs - aheadMs.peek()) > LEAST_MS) aheadMs.value = Math.abs(foundMs) > LEAST_MS ? foundMs : 0
}
