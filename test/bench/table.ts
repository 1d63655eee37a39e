/** Numbers of the benchmark as text: medians, ratios, and columns. Pure. */

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

/** Takes the median of each number over several rounds of the same measurement. */
export function medians<T extends object>(rounds: readonly T[]): Record<keyof T & string, number> {
  const [first] = rounds
  const names = first ? (Object.keys(first) as (keyof T & string)[]) : []
  const entries = names.map((name) => [name, median(rounds.map((round) => Number(round[name])))] as const)
  return Object.fromEntries(entries) as Record<keyof T & string, number>
}

/** Aligns rows in columns, the first one left, the others right. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => (row[i] ?? '').length)))
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  ')
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n')
}

export const toFigure = (value: number, digits = 1): string => value.toFixed(digits)

export const toRatio = (value: number, floor: number | undefined): string =>
  floor ? `${(value / floor).toFixed(2)}x` : '-'
