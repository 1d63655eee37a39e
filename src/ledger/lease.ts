/**
 * Keeps the lease of a running server: as long as it is renewed, nobody else gives up what this one has open. One that the store
 * refuses is tried again, for as long as it runs and behind that. `server/storage.ts` starts it.
 */
import type { Leases } from '../store/ledger-store.ts'

export const LEASE_MS = 60_000
const RENEW_MS = 15_000

export function keepLease(leases: Leases, instance: string, now: () => number): { stop(): void } {
  const renew = () => {
    const fromMs = now()
    const untilMs = fromMs + LEASE_MS
    try {
      if (!leases.renew(instance, untilMs)) leases.begin(instance, { fromMs, untilMs }, false)
    } catch {
      // The ledger says in the log that its store refuses.
    }
  }
  const timer = setInterval(renew, RENEW_MS)
  return { stop: () => clearInterval(timer) }
}
