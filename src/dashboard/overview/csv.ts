/** Tables as text for spreadsheets (RFC 4180). Pure. */
export type Cell = string | number | null

export const toCsv = (headings: readonly string[], rows: readonly (readonly Cell[])[]): string =>
  [headings, ...rows].map((row) => `${row.map(toText).join(',')}\r\n`).join('')

function toText(cell: Cell): string {
  const text = cell === null ? '' : String(cell)
  // A spreadsheet runs what begins like a formula.
  const safe = typeof cell === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
