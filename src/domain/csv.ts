/** Tables as CSV (RFC 4180) that neither a spreadsheet nor a terminal takes orders from. Pure. */

/** What may stand in a cell; null is an empty one. */
export type CsvCell = string | number | bigint | null

/**
 * Texts that a spreadsheet would run: names of keys, users and models are other people's. An apostrophe before them makes them text
 * (OWASP, CSV injection); full-width signs count as well.
 */
const FORMULA = /^\s*[=+\-@＝＋－＠|]/u

/** Commands to a terminal, line breaks and tabs among them, and what turns the direction of a text around. */
const CONTROL = /[\p{Cc}\p{Bidi_Control}]/gu

/** A record a line, under the headings. In texts `?` stands for each control character, as in the tables of a terminal. */
export const toCsv = (headings: readonly string[], rows: readonly (readonly CsvCell[])[]): string =>
  [headings, ...rows].map((row) => `${row.map(toText).join(',')}\r\n`).join('')

function toText(cell: CsvCell): string {
  if (typeof cell !== 'string') return String(cell ?? '')
  const text = cell.replace(CONTROL, '?')
  if (FORMULA.test(cell) || FORMULA.test(text)) return quote(`'${text}`)
  return /[",]/.test(text) ? quote(text) : text
}

const quote = (text: string) => `"${text.replaceAll('"', '""')}"`
