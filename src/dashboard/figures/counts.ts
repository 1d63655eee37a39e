/** Counts, shares, latencies and differences as pages show them. Pure. */

/** `1,284` up to 9,999, then `12.8k`, `3.4M`, `1.2B`. */
export function toCount(count: number): string {
  if (Math.abs(count) < 10_000) return toExactCount(count)
  for (const [unit, size] of UNITS) {
    const amount = count / size
    // What rounds up to a thousand belongs to the next unit.
    if (Math.abs(amount) < 999.5 || unit === 'T') return `${toShort(amount)}${unit}`
  }
  return toExactCount(count)
}

const UNITS = [
  ['k', 1e3],
  ['M', 1e6],
  ['B', 1e9],
  ['T', 1e12],
] as const

const toShort = (amount: number) =>
  Math.abs(amount) < 99.95 ? amount.toFixed(1).replace(/\.0$/, '') : amount.toFixed(0)

/** `12,804`. */
export const toExactCount = (count: number): string => count.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ',')

/** A share of 1 in percent: `1.2 %`, `38 %`, `< 0.1 %`. */
export function toPercent(share: number): string {
  const percent = share * 100
  if (percent === 0) return '0 %'
  if (percent < 0.1) return '< 0.1 %'
  return `${percent < 9.95 ? percent.toFixed(1).replace(/\.0$/, '') : percent.toFixed(0)} %`
}

/** `840 ms`, `1.24 s`, `12.4 s`, `2 min 5 s`, `2 min`. */
export function toLatency(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 9_995) return `${(ms / 1_000).toFixed(2)} s`
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  const rest = seconds % 60 === 0 ? '' : ` ${seconds % 60} s`
  return `${Math.floor(seconds / 60)} min${rest}`
}

/** How a figure compares with the one of the period before, in words. Null where that says nothing. */
export function toDelta(now: number, before: number): { direction: 'up' | 'down' | 'same'; text: string } | null {
  if (before === 0) return null
  const change = (now - before) / before
  if (Math.abs(change) < 0.005) return { direction: 'same', text: 'as before' }
  const percent =
    Math.abs(change) < 10 ? `${Math.round(Math.abs(change) * 100)} %` : `${Math.round(now / before)} times`
  return change > 0 ? { direction: 'up', text: `${percent} more` } : { direction: 'down', text: `${percent} less` }
}
