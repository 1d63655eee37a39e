/** Adds up usage cells by group in bounded memory, and computes a report's figures. */

import { addHistogram, type Histogram, toPercentile } from '../store/histogram.ts'
import { toGroupId, type UsageCell, type UsageCount, type UsageReader } from '../store/report-store.ts'

/** Minimum number of groups kept in memory. */
const FEW = 10_000

export interface Gathered {
  groups: Map<string, { of: UsageCell['of']; sums: Sums }>
  others: Sums
  /** Number of groups, including others. */
  count: number
}

/**
 * Adds up all pages. The number of groups is unbounded, because clients choose user names. If groups don't fit in memory, they are ranked first, and only the
 * most expensive are kept.
 *
 * @param pages restarts on each call.
 */
export async function addUp(
  { counts, rank }: UsageReader,
  pages: () => AsyncIterable<readonly UsageCell[]>,
  limit: number,
): Promise<Gathered> {
  const most = Math.max(limit, FEW)
  const all = await gather(counts, pages(), (known) => (known < most ? 'keep' : 'stop'))
  if (all !== null) return all
  using ranking = rank()
  for await (const page of pages()) ranking.add(page)
  const wanted = new Set(ranking.top(limit))
  const dearest = await gather(counts, pages(), (_, id) => (wanted.has(id) ? 'keep' : 'leave'))
  return { groups: dearest?.groups ?? new Map(), others: dearest?.others ?? createSums(counts), count: ranking.count() }
}

/** @param place decides about a new group: `leave` adds it to the others, `stop` aborts. */
async function gather(
  counts: readonly unknown[],
  pages: AsyncIterable<readonly UsageCell[]>,
  place: (known: number, id: string) => 'keep' | 'leave' | 'stop',
): Promise<Gathered | null> {
  const groups: Gathered['groups'] = new Map()
  const others = createSums(counts)
  for await (const page of pages) {
    for (const cell of page) {
      const id = toGroupId(cell.of)
      const found = groups.get(id)
      const where = found ? 'keep' : place(groups.size, id)
      if (where === 'stop') return null
      const sums = found?.sums ?? (where === 'keep' ? createSums(counts) : others)
      addSums(sums, cell)
      if (!found && where === 'keep') groups.set(id, { of: cell.of, sums })
    }
  }
  return { groups, others, count: groups.size }
}

/** `counts` are in the reader's order. */
export interface Sums {
  counts: number[]
  costNanoUsd: bigint
  estimatedCostNanoUsd: bigint
  firstToken: Histogram
  duration: Histogram
}

export const createSums = (counts: readonly unknown[]): Sums => ({
  counts: counts.map(() => 0),
  costNanoUsd: 0n,
  estimatedCostNanoUsd: 0n,
  firstToken: {},
  duration: {},
})

export function addSums(sums: Sums, cell: Omit<UsageCell, 'of'>): void {
  for (let i = 0; i < sums.counts.length; i++) sums.counts[i] = (sums.counts[i] ?? 0) + (cell.counts[i] ?? 0)
  sums.costNanoUsd += cell.costNanoUsd
  sums.estimatedCostNanoUsd += cell.estimatedCostNanoUsd
  addHistogram(sums.firstToken, cell.firstToken)
  addHistogram(sums.duration, cell.duration)
}

/** ms, from a histogram, accurate to the factor `RESOLUTION` (`store/histogram.ts`); null if unknown. */
export interface Percentiles {
  p50: number | null
  p95: number | null
  p99: number | null
}

/** Money is exact at any size. */
export interface Figures extends Record<UsageCount, number> {
  costNanoUsd: bigint
  estimatedCostNanoUsd: bigint
  /** 0 to 1, to four decimals; null if nothing cost anything. */
  estimatedShare: number | null
  firstToken: Percentiles
  duration: Percentiles
}

export function toFigures(sums: Sums, counts: readonly UsageCount[]): Figures {
  const { costNanoUsd: cost, estimatedCostNanoUsd: estimated } = sums
  const named = Object.fromEntries(counts.map((name, i) => [name, sums.counts[i] ?? 0])) as Record<UsageCount, number>
  return {
    ...named,
    costNanoUsd: cost,
    estimatedCostNanoUsd: estimated,
    estimatedShare: cost === 0n ? null : Number((estimated * 10_000n) / cost) / 10_000,
    firstToken: toPercentiles(sums.firstToken),
    duration: toPercentiles(sums.duration),
  }
}

const toPercentiles = (histogram: Histogram): Percentiles => ({
  p50: toPercentile(histogram, 0.5),
  p95: toPercentile(histogram, 0.95),
  p99: toPercentile(histogram, 0.99),
})

/** Most expensive first, then most requests, then by name. */
export const byCost = (a: [id: string, sums: Sums], b: [id: string, sums: Sums]): number =>
  compare(b[1].costNanoUsd, a[1].costNanoUsd) ||
  compare(b[1].counts[0] ?? 0, a[1].counts[0] ?? 0) ||
  compare(a[0], b[0])

const compare = <T>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
