/** The server's time, for ages on pages: this browser's clock may be wrong. */
import { computed, signal } from '@preact/signals'

const TICK_MS = 30_000
/** Tolerance: a response takes time, and its date lacks the fraction of a second. */
const LEAST_MS = 2_000

const tickMs = signal(Date.now())
const aheadMs = signal(0)

/** Updated every 30 seconds and with each response, so that no time in it is in the future. */
export const nowMs = computed(() => tickMs.value + aheadMs.value)

/** To the millisecond, for ranges of queries. */
export const readNow = (): number => Date.now() + aheadMs.peek()

export const updateNow = (): void => {
  if (!document.hidden) tickMs.value = Date.now()
}
setInterval(updateNow, TICK_MS)
document.addEventListener('visibilitychange', updateNow)

/** @param date the `Date` header of a response */
export function learnClock(date: string | null): void {
  const foundMs = Date.parse(date ?? '') - Date.now()
  if (Math.abs(foundMs - aheadMs.peek()) > LEAST_MS) aheadMs.value = Math.abs(foundMs) > LEAST_MS ? foundMs : 0
  updateNow()
}
