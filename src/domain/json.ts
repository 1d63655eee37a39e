/** Parses untrusted JSON (with `NaN` and `Infinity`), long texts in slices with pauses, and writes JSON without line breaks. */
import {
  BACKSLASH,
  CLOSING,
  COLON,
  COMMA,
  indexOf,
  type JsonLimits,
  JsonScan,
  OBJECT_BIT,
  OPENING,
  QUOTE,
  SHORT,
} from './json-text.ts'

export type JsonObject = Record<string, unknown>

/** As Python's `json` writes them; quotes and escapes match to skip strings. */
const NOT_NUMBERS = /\\.|"|-?\bInfinity\b|\bNaN\b/gs

/** Deeper JSON can be parsed but not written: the recursive writer takes a second to give up. */
const MAX_DEPTH = 10_000
const READ_LIMITS: JsonLimits = { depth: MAX_DEPTH, values: Infinity, escapes: Infinity, bare: Infinity }

/** Primitives come with their `source` text. */
export type Reviver = (name: string, value: unknown, context: { source?: string }) => unknown

/** `NaN` and `Infinity` become null. Throws a SyntaxError, also if too deep. */
export function parseJson(text: string, reviver?: Reviver): unknown {
  // A level takes two characters, so most texts skip the scan.
  if (text.length > 2 * MAX_DEPTH && new JsonScan(READ_LIMITS).take(text) !== null)
    throw new SyntaxError(`It is nested more than ${MAX_DEPTH} levels deep.`)
  return parse(text, reviver)
}

/** undefined for invalid JSON. */
export function tryJson(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

function parse(text: string, reviver: Reviver | undefined): unknown {
  try {
    return read(text, reviver)
  } catch (error) {
    let isQuoted = false
    const mended = text.replace(NOT_NUMBERS, (found) => {
      if (found === '"') isQuoted = !isQuoted
      return isQuoted || found === '"' || found.startsWith('\\') ? found : 'null'
    })
    if (mended === text) throw error
    return read(mended, reviver)
  }
}

const read = (text: string, reviver: Reviver | undefined): unknown =>
  reviver ? JSON.parse(text, reviver as Parameters<typeof JSON.parse>[1]) : JSON.parse(text)

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** For tables without other keys. */
export const keysOf = <T extends object>(table: T) => Object.keys(table) as (keyof T & string)[]

export const asObject = (value: unknown): JsonObject | null => (isObject(value) ? value : null)

export const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

export const asText = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Line breaks to some clients (openai-python), though not in JSON or SSE. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g
const ESCAPED: Record<string, string> = { '\u0085': '\\u0085', '\u2028': '\\u2028', '\u2029': '\\u2029' }

export const toLine = (value: unknown) => JSON.stringify(value).replace(LINE_ENDS, toEscaped)
const toEscaped = (found: string) => ESCAPED[found] ?? ''

/** All nested values with their field names ('' for list items). Iterative and without copies, since requests may be large and deep. */
export function* valuesWithin(root: object): Generator<[name: string, value: unknown]> {
  const open: object[] = [root]
  for (let held = open.pop(); held !== undefined; held = open.pop()) {
    const isList = Array.isArray(held)
    for (const name of Object.keys(held)) {
      const value = (held as JsonObject)[name]
      if (typeof value === 'object' && value !== null) open.push(value)
      yield [isList ? '' : name, value]
    }
  }
}

/** A slice ends at the first opportunity after this. */
export const SLICE_CHARS = 100_000
/** About 50 ms of parsing. */
const OF_SLICE: Omit<JsonLimits, 'depth'> = { values: 100_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }

interface Open {
  isList: boolean
  nameFrom: number
  nameTo: number
}

export class SlicedJson {
  root: unknown
  /** Lists, objects, and items after commas. */
  values = 0
  names = 0
  readonly #text: string
  readonly #limits: Pick<JsonLimits, 'depth' | 'values'>
  readonly #sliceChars: number
  readonly #open: Open[] = []
  #at = 0
  /** Position of the next quote, if already searched for. */
  #quote = -1
  #backslash = -1

  constructor(text: string, limits: Pick<JsonLimits, 'depth' | 'values'>, sliceChars = SLICE_CHARS) {
    this.#text = text
    this.#limits = limits
    this.#sliceChars = sliceChars
  }

  get isDone(): boolean {
    return this.#at > this.#text.length
  }

  /** Returns the exceeded limit, or null. Throws a SyntaxError. */
  next(): keyof JsonLimits | null {
    const from = this.#at
    const before = this.#open.map(({ isList, nameFrom, nameTo }, at): string => {
      if (isList) return at === this.#open.length - 1 ? '[0,' : '['
      return `{${this.#text.slice(nameFrom, nameTo)}:`
    })
    const excess = this.#findEnd(from)
    if (excess) return excess
    const after = this.isDone ? [] : this.#open.map(({ isList }) => (isList ? ']' : '}')).reverse()
    const piece = parseJson(before.join('') + this.#text.slice(from, this.#at - 1) + after.join(''))
    this.root = before.length === 0 ? piece : addSlice(this.root, piece, before)
    return null
  }

  /** Moves past the comma that ends the slice, or past the end. */
  #findEnd(from: number): keyof JsonLimits | null {
    const text = this.#text
    const open = this.#open
    let { values, names } = this
    const mostValues = Math.min(this.#limits.values, values + OF_SLICE.values)
    const cutFrom = from + this.#sliceChars
    let top = open.at(-1)
    let escapes = 0
    let bareFrom = from
    let bare = 0
    let textFrom = from
    let at = from
    while (at < text.length) {
      const code = text.charCodeAt(at++)
      if (code === QUOTE) {
        bare += at - bareFrom
        textFrom = at - 1
        for (;;) {
          const near = Math.min(text.length, at + SHORT)
          while (at < near && !endsRun(text.charCodeAt(at))) at++
          if (at === near) at = this.#nextMark(at)
          if (text.charCodeAt(at) !== BACKSLASH) break
          if (++escapes > OF_SLICE.escapes) return 'escapes'
          at += 2
        }
        bareFrom = ++at
      } else if (code === COMMA) {
        if (++values > mostValues) return 'values'
        if (at > cutFrom && top?.isList) break
      } else if (code === COLON) {
        names++
        if (top) {
          top.nameFrom = textFrom
          top.nameTo = bareFrom
        }
      } else if ((code | OBJECT_BIT) === OPENING) {
        if (++values > mostValues) return 'values'
        top = { isList: code !== OPENING, nameFrom: 0, nameTo: 0 }
        if (open.push(top) > this.#limits.depth) return 'depth'
      } else if ((code | OBJECT_BIT) === CLOSING) {
        open.pop()
        top = open.at(-1)
      }
    }
    this.values = values
    this.names = names
    const isEnd = at >= text.length && !(top?.isList && text.charCodeAt(text.length - 1) === COMMA)
    this.#at = isEnd ? text.length + 1 : at
    return bare + at - bareFrom > OF_SLICE.bare ? 'bare' : null
  }

  #nextMark(at: number): number {
    if (this.#quote < at) this.#quote = indexOf(this.#text, '"', at)
    if (this.#backslash < at) this.#backslash = indexOf(this.#text, '\\', at)
    return Math.min(this.#quote, this.#backslash)
  }
}

const endsRun = (code: number) => code === QUOTE || code === BACKSLASH

/** Appends at the end of the lists and objects that are open between the two slices. */
function addSlice(root: unknown, piece: unknown, [open = '', ...within]: readonly string[]): unknown {
  if (open.startsWith('[')) {
    if (!Array.isArray(root) || !Array.isArray(piece)) throw notJson()
    if (within.length > 0) addSlice(root.at(-1), piece[0], within)
    for (let at = 1; at < piece.length; at++) root.push(piece[at])
    return root
  }
  const name: string = JSON.parse(open.slice(1, -1))
  const [held, more] = [asObject(root), asObject(piece)]
  if (held === null || more === null || !Object.hasOwn(held, name)) throw notJson()
  addSlice(held[name], more[name], within)
  const { [name]: _, ...others } = more
  // May be an inherited name, such as `__proto__`.
  for (const [other, value] of Object.entries(others))
    Object.defineProperty(held, other, { value, configurable: true, enumerable: true, writable: true })
  return held
}

const notJson = () => new SyntaxError('It has a duplicate name.')
