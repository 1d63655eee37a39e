/** Counts, sizes, patterns, CSV, and bounded bodies. */

/** `1 row`, `2 rows`. */
export const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? '' : 's'}`

/** As the beginning of a sentence. */
export const capitalize = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`

/** Within a sentence; a name such as `OpenID` or `OIDC` stays. */
export const uncapitalize = (text: string) => text.replace(/^[A-Z](?=[a-z]*\b)/, (letter) => letter.toLowerCase())

/** Adds a missing full stop. */
export const toSentence = (text: string) => (/[.!?…]$/.test(text) ? text : `${text}.`)

/** Control, joining, direction, and invisible characters. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Contain joining characters. */
const EMOJI = /\p{RGI_Emoji}/gv

/** Look-alike letters are accepted. */
export const isVisible = (text: string): boolean => !INVISIBLE.test(text.replaceAll(EMOJI, ''))

const UNITS = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 } as const
type Unit = keyof typeof UNITS
const isUnit = (text: string): text is Unit => Object.hasOwn(UNITS, text)

/** `22G`, `1.5G`, `512M`, `8GiB`, by powers of 1,024; null if invalid or zero. */
export function toSize(text: string): number | null {
  const [, amount, unit = ''] = /^(\d{1,6}(?:\.\d{1,3})?)\s?([KMGT])(?:i?B)?$/.exec(text) ?? []
  if (amount === undefined || !isUnit(unit)) return null
  return Math.round(Number(amount) * UNITS[unit]) || null
}

/** As in `--disk-budget 10G`. */
export const toSizeText = (bytes: number) =>
  bytes >= UNITS.G ? `${(bytes / UNITS.G).toFixed(1)} GiB` : `${(bytes / UNITS.M).toFixed(1)} MiB`

/** `*` matches anything, `/` included. Linear. */
export function matches(pattern: string, slug: string): boolean {
  const [head = '', ...rest] = pattern.split('*')
  if (!slug.startsWith(head)) return false
  const tail = rest.pop()
  if (tail === undefined) return slug === head
  let at = head.length
  for (const piece of rest) {
    const found = slug.indexOf(piece, at)
    if (found === -1) return false
    at = found + piece.length
  }
  return slug.length - at >= tail.length && slug.endsWith(tail)
}

export type CsvCell = string | number | bigint | null

/** Formulas to a spreadsheet (OWASP, CSV injection), also with full-width signs; a leading apostrophe makes them text. */
const FORMULA = /^\s*[=+\-@＝＋－＠|]/u

/** Terminal controls, line breaks, tabs, and direction changes. */
const CONTROL = /[\p{Cc}\p{Bidi_Control}]/gu

/** Control characters become `?`. */
export const toCsv = (headings: readonly string[], rows: readonly (readonly CsvCell[])[]): string =>
  toCsvRows([headings, ...rows])

export const toCsvRows = (rows: readonly (readonly CsvCell[])[]): string =>
  rows.map((row) => `${row.map(toText).join(',')}\r\n`).join('')

function toText(cell: CsvCell): string {
  if (typeof cell !== 'string') return String(cell ?? '')
  const text = cell.replace(CONTROL, '?')
  if (FORMULA.test(cell) || FORMULA.test(text)) return quote(`'${text}`)
  return /[",]/.test(text) ? quote(text) : text
}

const quote = (text: string) => `"${text.replaceAll('"', '""')}"`

/** `isWhole`: false if it is longer. */
export async function readUpTo(
  body: AsyncIterable<Uint8Array> | null,
  mostBytes: number,
): Promise<{ text: string; isWhole: boolean }> {
  const utf8 = new TextDecoder()
  let bytes = 0
  let text = ''
  for await (const piece of body ?? []) {
    const left = mostBytes - bytes
    bytes += piece.length
    if (piece.length > left) return { text: text + utf8.decode(piece.subarray(0, left)), isWhole: false }
    text += utf8.decode(piece, { stream: true })
  }
  return { text: text + utf8.decode(), isWhole: true }
}
