/** How long a report may take. */
import { ServiceError } from '../domain/service-error.ts'

/** Makes what a report calls between two pages. It throws `report_too_long` beyond `limitMs`, which begin now. @param clock in ms. */
export function createLimit(limitMs: number, clock: () => number): () => void {
  const endMs = clock() + limitMs
  return () => {
    if (clock() <= endMs) return
    throw new ServiceError({ kind: 'report_too_long' }, `The report took longer than ${limitMs / 1_000} s.`)
  }
}
