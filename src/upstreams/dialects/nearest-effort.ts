import { EFFORTS, type Effort } from '../../domain/models.ts'

/** From the least on; where thinking cannot be switched off, `none` is the least that there is. */
const ORDER: readonly string[] = ['none', ...EFFORTS]

/** Of the efforts that a model knows the nearest one, of two that are as near the higher; undefined where it knows none. Pure. */
export function toNearestEffort(wanted: Effort | 'none', known: readonly Effort[]): Effort | undefined {
  const distance = (one: Effort) => Math.abs(ORDER.indexOf(one) - ORDER.indexOf(wanted))
  return known.toSorted((a, b) => distance(a) - distance(b) || ORDER.indexOf(b) - ORDER.indexOf(a))[0]
}
