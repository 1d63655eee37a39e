/** How commands write things for people: tables, times, names. Pure. */

/** Aligns rows under their headings, two spaces apart. */
export function toTable(headings: string[], rows: string[][]): string {
  const lines = [headings, ...rows]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => Bun.stringWidth(line[column] ?? ''))))
  const pad = (cell: string, column: number) => cell + ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(cell))
  return lines.map((line) => `${line.map(pad).join('  ').trimEnd()}\n`).join('')
}

/** Writes a time as UTC to the minute: `2027-01-31 12:00`. */
export function toTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16).replace('T', ' ')
}

/** Control characters of a name would be commands to the terminal that shows it. */
export function toPrintable(text: string): string {
  return text.replace(/\p{Cc}/gu, '?')
}
