/** Adds up cells of usage, and makes of a sum the figures that a report shows. Pure. */
import { addHistogram, type Histogram, toPercentile } from '../store/histogram.ts'
import type { UsageCell, UsageCount } from '../store/usage-store.ts'

/** What cells come to. Counts stand in the order of the reader's. */
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

/** Adds `cell`, in place. */
export function addSums(sums: Sums, cell: Omit<UsageCell, 'of'>): void {
  for (let i = 0; i < sums.counts.length; i++) sums.counts[i] = (sums.counts[i] ?? 0) + (cell.counts[i] ?? 0)
  sums.costNanoUsd += cell.costNanoUsd
  sums.estimatedCostNanoUsd += cell.estimatedCostNanoUsd
  addHistogram(sums.firstToken, cell.firstToken)
  addHistogram(sums.duration, cell.duration)
}

/** In ms, from a histogram: within a factor of `RESOLUTION` (`store/histogram.ts`). Null where nothing is known. */
export interface Percentiles {
  p50: number | null
  p95: number | null
  p99: number | null
}

/** Money is exact, whatever the sum. */
export interface Figures extends Record<UsageCount, number> {
  costNanoUsd: bigint
  estimatedCostNanoUsd: bigint
  /** From 0 to 1, to the ten thousandth; null where nothing cost anything. */
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

/** The dearer first; of what costs the same, what was asked more often, and then by name. */
export const byCost = (a: [id: string, sums: Sums], b: [id: string, sums: Sums]): number =>
  compare(b[1].costNanoUsd, a[1].costNanoUsd) ||
  compare(b[1].counts[0] ?? 0, a[1].counts[0] ?? 0) ||
  compare(a[0], b[0])

const compare = <T>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
