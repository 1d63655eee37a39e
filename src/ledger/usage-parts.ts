/** Where the figures of a span are read: from sums of days and hours, and from the requests themselves where those are too coarse. Pure. */
import { DAY_MS, dayOf, HOUR_MS, hourOf } from '../domain/time.ts'
import type { Span } from '../store/ledger-store.ts'
import type { UsageQuery } from '../store/usage-store.ts'

export type Part = Pick<UsageQuery, 'from' | 'span'>

/** Whole hours by their sums, what is left before and behind them by the requests; if those are gone, the whole hour. */
export function toParts({ fromMs, untilMs }: Span, keptFromMs: number, days: Days): Part[] {
  const startMs = hourOf(fromMs) < keptFromMs ? hourOf(fromMs) : Math.min(hourAfter(fromMs), untilMs)
  const endMs = Math.max(startMs, hourOf(untilMs) < keptFromMs ? hourAfter(untilMs) : hourOf(untilMs))
  const parts: Part[] = [
    { from: 'requests', span: { fromMs, untilMs: startMs } },
    ...toSums({ fromMs: startMs, untilMs: endMs }, days),
    { from: 'requests', span: { fromMs: endMs, untilMs } },
  ]
  return parts.filter(({ span }) => span.fromMs < span.untilMs)
}

export interface Days {
  /** Whether their sums know what is asked for. */
  known: boolean
  /** Whether the one that the span ends in has nothing behind its end. */
  isLastWhole: boolean
}

/** Whole days by theirs, what is left before and behind them by those of hours. */
function toSums({ fromMs, untilMs }: Span, { known, isLastWhole }: Days): Part[] {
  const startMs = known ? Math.min(dayOf(fromMs + DAY_MS - 1), untilMs) : untilMs
  const endMs = Math.max(startMs, isLastWhole ? untilMs : dayOf(untilMs))
  return [
    { from: 'hours', span: { fromMs, untilMs: startMs } },
    { from: 'days', span: { fromMs: startMs, untilMs: endMs } },
    { from: 'hours', span: { fromMs: endMs, untilMs } },
  ]
}

/** The hour that begins then, or next. */
const hourAfter = (ms: number) => hourOf(ms + HOUR_MS - 1)

export function toKept({ fromMs, untilMs }: Span, keptFromMs: number): Part[] {
  const span = { fromMs: Math.max(fromMs, keptFromMs), untilMs }
  return span.fromMs < untilMs ? [{ from: 'requests', span }] : []
}

export const toCovered = (parts: readonly Part[], { untilMs }: Span): Span => ({
  fromMs: parts[0]?.span.fromMs ?? untilMs,
  untilMs: parts.at(-1)?.span.untilMs ?? untilMs,
})
