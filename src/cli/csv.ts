/** Writes CSV as RFC 4180 has it, and so that no spreadsheet takes a text for a formula. Pure. */

/** What may stand in a cell; null is an empty one. */
export type CsvValue = string | number | bigint | null

/**
 * Texts that a spreadsheet would run: names of keys, users and models are other people's. An apostrophe before them makes them text
 * (OWASP, CSV injection); full-width signs count as well.
 */
const FORMULA = /^[\s]*[=+\-@\t\r＝＋－＠|]/u

const toCell = (value: CsvValue): string => {
  if (typeof value !== 'string') return String(value ?? '')
  const text = FORMULA.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) || text !== value ? `"${text.replaceAll('"', '""')}"` : text
}

/** A record a line, under the names of its fields; those of the first one are those of all. */
export function toCsv(fields: readonly string[], records: readonly Readonly<Record<string, CsvValue>>[]): string {
  const lines = [
    fields.join(','),
    ...records.map((record) => fields.map((field) => toCell(record[field] ?? null)).join(',')),
  ]
  return lines.map((line) => `${line}\r\n`).join('')
}
