/**
 * Usage reports: settled requests of a period in groups, with tokens, cost, and latencies.
 *
 * Blocks its thread, for seconds per million requests: commands run it in their own process, a server in a worker with a read-only connection. Options and
 * report can be posted between threads.
 */

import {
  DIMENSIONS,
  type Dimension,
  REFUSAL_DIMENSIONS,
  type RefusalDimension,
  USAGE_FILTERS,
} from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { DAY_MS, dayOf, HOUR_MS, hourOf } from '../domain/time.ts'
import type { Span } from '../store/ledger-store.ts'
import {
  DAILY,
  toDaily,
  type UsageCell,
  type UsageFigures,
  type UsageFilter,
  type UsageQuery,
  type UsageReader,
} from '../store/report-store.ts'
import { createLimit, createNaming, type Names, toIds, type UsageGroup } from './report-filter.ts'
import {
  addSums,
  addUp,
  byCost,
  createSums,
  type Figures,
  type Gathered,
  type Sums,
  toFigures,
} from './usage-gather.ts'

export interface UsageOptions {
  /** One or two different ones. */
  by: readonly Dimension[]
  /** Half-open; null: includes the current hour. */
  sinceMs: number
  untilMs: number | null
  /** Keys and teams by name or ID (`keys/find.ts`), or `system`: requests without a key. */
  where: UsageFilter
  /** Maximum groups, most expensive first. */
  limit: number
  /** Default: all. */
  figures?: UsageFigures
  limitMs: number
}

export interface UsageRow {
  group: UsageGroup
  figures: Figures
}

export interface UsageReport {
  /** By time if grouped by it, otherwise most expensive first. */
  rows: UsageRow[]
  /** Total of the groups beyond `limit`; null if there are none. */
  rest: { groups: number; figures: Figures } | null
  total: Figures
  /** Actual period, if some requests are no longer kept individually. */
  sinceMs: number
  untilMs: number
  /** True if the actual period differs. */
  isMoved: boolean
}

/** Parses one or two dimensions, such as `key,model`. Throws `invalid`. */
export const toDimensions = (text: string): Dimension[] => toKnownDimensions(text, DIMENSIONS, 'model')

export const toRefusalDimensions = (text: string): RefusalDimension[] =>
  toKnownDimensions(text, REFUSAL_DIMENSIONS, 'code')

/** @param second for an example. */
function toKnownDimensions<Name extends string>(text: string, known: readonly Name[], second: Name): Name[] {
  const names = text.split(',').map((name) => name.trim())
  const by = names.flatMap((name) => known.find((one) => one === name) ?? [])
  const isFit = by.length === names.length && by.length <= 2 && new Set(by).size === by.length
  if (!isFit) throw invalidBy(`must be one or two of ${known.join(', ')}, e.g. key,${second} (got '${text}')`)
  if (names.includes('day') && names.includes('hour')) throw invalidBy('hour includes the day, so omit day')
  return by
}

const invalidBy = (rule: string) => new ServiceError({ kind: 'invalid', field: 'by' }, `Invalid by: ${rule}.`)

/**
 * Whole days and hours come from the rollup, which is kept forever. Parts of an hour, and users, come from requests. If requests were removed, the report covers
 * the whole hour, or starts at the first complete one.
 *
 * Throws `key_not_found`, `key_ambiguous`, `team_not_found`, `team_ambiguous`, and `report_too_long` after `limitMs`.
 *
 * @param clock ms.
 */
export async function reportUsage(
  reader: UsageReader,
  names: Names,
  options: UsageOptions,
  { nowMs, clock }: { nowMs: number; clock: () => number },
): Promise<UsageReport> {
  const where = toIds(options.where, names, nowMs)
  const span = { fromMs: options.sinceMs, untilMs: options.untilMs ?? hourOf(nowMs) + HOUR_MS }
  const check = createLimit(options.limitMs, clock)
  const isOpen = options.untilMs === null
  const read = await readGroups(reader, { ...options, where, span, isOpen }, check)
  return toReport(read, options, { reader, names, span })
}

/** Dimensions without totals: the requests are scanned. */
const UNSUMMED = USAGE_FILTERS.filter((name) => !DAILY.some((daily) => daily === name))

interface Asked {
  by: readonly Dimension[]
  where: UsageFilter
  span: Span
  /** True if the period has no end. */
  isOpen: boolean
  limit: number
  figures?: UsageFigures
}

type Read = Gathered & { covered: Span }

async function readGroups(
  reader: UsageReader,
  { by, where, span, isOpen, limit, figures = 'all' }: Asked,
  check: () => void,
): Promise<Read> {
  const needsRequests = UNSUMMED.some((name) => by.includes(name) || (where[name]?.length ?? 0) > 0)
  const dayEndMs = dayOf(span.untilMs) + DAY_MS
  const days = {
    known: toDaily(by, where) !== null,
    // The current day is complete if it has no requests after the end.
    isLastWhole: isOpen && !(await reader.hasHours({ fromMs: span.untilMs, untilMs: dayEndMs })),
  }
  const readFrom = async (keptFromMs: number): Promise<Read> => {
    const parts = needsRequests ? toKept(span, keptFromMs) : toParts(span, keptFromMs, days)
    const pages = async function* (): AsyncGenerator<readonly UsageCell[]> {
      for (const part of parts) {
        for await (const page of reader.pages({ ...part, by, where, figures })) {
          check()
          yield page
        }
      }
    }
    const found = await addUp(reader, pages, limit)
    // Requests may have been removed before they were read.
    const now = await reader.keptFromMs()
    const isGone = parts.some((part) => part.from === 'requests' && part.span.fromMs < now)
    return isGone ? readFrom(now) : { ...found, covered: toCovered(parts, span) }
  }
  return readFrom(await reader.keptFromMs())
}

function toReport(
  { groups, others, count, covered }: Read,
  { by, limit }: UsageOptions,
  { reader, names, span }: { reader: UsageReader; names: Names; span: Span },
): UsageReport {
  const ranked = [...groups].sort(([a, { sums: x }], [b, { sums: y }]) => byCost([a, x], [b, y]))
  const shown = ranked.slice(0, limit)
  for (const [, { sums }] of ranked.slice(limit)) addSums(others, sums)
  const total = createSums(reader.counts)
  for (const sums of [others, ...shown.map(([, group]) => group.sums)]) addSums(total, sums)

  const toGroup = createNaming(by, names)
  const toNamed = (sums: Sums) => toFigures(sums, reader.counts)
  const rows = shown.map(([, { of, sums }]) => ({ group: toGroup(of), figures: toNamed(sums) }))
  return {
    rows: rows.sort(({ group: a }, { group: b }) => (a.day ?? a.hour ?? 0) - (b.day ?? b.hour ?? 0)),
    rest: count > shown.length ? { groups: count - shown.length, figures: toNamed(others) } : null,
    total: toNamed(total),
    sinceMs: covered.fromMs,
    untilMs: covered.untilMs,
    isMoved: covered.fromMs !== span.fromMs || covered.untilMs !== span.untilMs,
  }
}

type Part = Pick<UsageQuery, 'from' | 'span'>

/** Whole hours from totals, the rest from requests. If requests were removed, the whole hour. */
function toParts({ fromMs, untilMs }: Span, keptFromMs: number, days: Days): Part[] {
  const startMs = hourOf(fromMs) < keptFromMs ? hourOf(fromMs) : Math.min(hourAfter(fromMs), untilMs)
  const endMs = Math.max(startMs, hourOf(untilMs) < keptFromMs ? hourAfter(untilMs) : hourOf(untilMs))
  const parts: Part[] = [
    { from: 'requests', span: { fromMs, untilMs: startMs } },
    ...toSums({ fromMs: startMs, untilMs: endMs }, days),
    { from: 'requests', span: { fromMs: endMs, untilMs } },
  ]
  return parts.filter(({ span }) => span.fromMs < span.untilMs)
}

interface Days {
  /** True if daily totals have the dimensions. */
  known: boolean
  /** True if the last day has no requests after the end. */
  isLastWhole: boolean
}

/** Whole days from daily totals, the rest from hourly ones. */
function toSums({ fromMs, untilMs }: Span, { known, isLastWhole }: Days): Part[] {
  const startMs = known ? Math.min(dayOf(fromMs + DAY_MS - 1), untilMs) : untilMs
  const endMs = Math.max(startMs, isLastWhole ? untilMs : dayOf(untilMs))
  return [
    { from: 'hours', span: { fromMs, untilMs: startMs } },
    { from: 'days', span: { fromMs: startMs, untilMs: endMs } },
    { from: 'hours', span: { fromMs: endMs, untilMs } },
  ]
}

/** The hour that starts at `ms`, or the next one. */
const hourAfter = (ms: number) => hourOf(ms + HOUR_MS - 1)

function toKept({ fromMs, untilMs }: Span, keptFromMs: number): Part[] {
  const span = { fromMs: Math.max(fromMs, keptFromMs), untilMs }
  return span.fromMs < untilMs ? [{ from: 'requests', span }] : []
}

const toCovered = (parts: readonly Part[], { untilMs }: Span): Span => ({
  fromMs: parts[0]?.span.fromMs ?? untilMs,
  untilMs: parts.at(-1)?.span.untilMs ?? untilMs,
})
