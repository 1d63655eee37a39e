/** How a figure compares with the one of the period before, in words. Pure. */
import { toDelta, toPercent } from '../figures/counts.ts'

export interface Delta {
  direction: 'up' | 'down' | 'same'
  text: string
}

const SAME: Delta = { direction: 'same', text: 'as before' }

/** Beyond that, what was before was no more than a beginning. */
const MOST_TIMES = 100

/** Of amounts: `12 % more`. Null where there is nothing to compare. */
export const toAmountDelta = (now: number, before: number): Delta | null =>
  now > before * MOST_TIMES ? null : toDelta(now, before)

/** Of shares, in points of a percent: `0.3 points less`. Null where there is nothing to compare. */
export function toPointsDelta(now: number | null, before: number | null): Delta | null {
  if (now === null || before === null) return null
  const points = Math.abs(now - before)
  if (points < 0.0005) return SAME
  const text = `${toPercent(points).replace(' %', '')} points`
  return now > before ? { direction: 'up', text: `${text} more` } : { direction: 'down', text: `${text} less` }
}

/** Of times: `12 % slower`. */
export function toTimeDelta(now: number | null, before: number | null): Delta | null {
  if (now === null || before === null || before === 0) return null
  const change = (now - before) / before
  // Percentiles of histograms are no more exact than this.
  if (Math.abs(change) < 0.05) return SAME
  const text = change < 10 ? `${Math.round(Math.abs(change) * 100)} %` : `${Math.round(now / before)} times`
  return change > 0 ? { direction: 'up', text: `${text} slower` } : { direction: 'down', text: `${text} faster` }
}
