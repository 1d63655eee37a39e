/**
 * Parses a long JSON text slice by slice, so that others have the event loop between two of them. A slice ends at a comma of a list,
 * and is parsed within the brackets that are open around it; one that has no such place for too long is given up. Pure.
 */
import { asObject, parseJson } from './json.ts'
import { BACKSLASH, CLOSING, COLON, COMMA, type JsonLimits, OBJECT_BIT, OPENING, QUOTE, SHORT } from './json-scan.ts'

/** From so many characters on a slice ends as soon as it can. */
export const SLICE_CHARS = 100_000
/** The most of one slice: parsing it takes some 50 ms. A list of the shortest values has fewer. */
const OF_SLICE: Omit<JsonLimits, 'depth'> = { values: 100_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }

/** A list or object that is open; where in the text the last name of an object stands. */
interface Open {
  isList: boolean
  nameFrom: number
  nameTo: number
}

export class SlicedJson {
  /** What was parsed so far. */
  root: unknown
  /** Lists, objects and what stands behind commas, so far. */
  values = 0
  /** Names of fields so far. */
  names = 0
  readonly #text: string
  readonly #limits: Pick<JsonLimits, 'depth' | 'values'>
  readonly #sliceChars: number
  readonly #open: Open[] = []
  #at = 0
  /** The next ones, where they have been searched for. */
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

  /** Parses the next slice. Returns what there is too much of, or null. Throws a SyntaxError for what is no JSON. */
  next(): keyof JsonLimits | null {
    const from = this.#at
    const before = this.#open.map(({ isList, nameFrom, nameTo }, at): string => {
      if (isList) return at === this.#open.length - 1 ? '[0,' : '['
      return `{${this.#text.slice(nameFrom, nameTo)}:`
    })
    const excess = this.#findEnd(from)
    if (excess) return excess
    // What is open at the end of the text stays so.
    const after = this.isDone ? [] : this.#open.map(({ isList }) => (isList ? ']' : '}')).reverse()
    const piece = parseJson(before.join('') + this.#text.slice(from, this.#at - 1) + after.join(''))
    this.root = before.length === 0 ? piece : add(this.root, piece, before)
    return null
  }

  /** Goes on to behind the comma that ends the slice, or as far behind the end of the text. */
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

  /** Where the next quote or backslash stands, or the end. */
  #nextMark(at: number): number {
    if (this.#quote < at) this.#quote = indexOf(this.#text, '"', at)
    if (this.#backslash < at) this.#backslash = indexOf(this.#text, '\\', at)
    return Math.min(this.#quote, this.#backslash)
  }
}

const endsRun = (code: number) => code === QUOTE || code === BACKSLASH

function indexOf(text: string, what: string, from: number): number {
  const found = text.indexOf(what, from)
  return found === -1 ? text.length : found
}

/** Adds a slice to what was parsed before it, along the lists and objects that were open between the two. */
function add(root: unknown, piece: unknown, [open = '', ...within]: readonly string[]): unknown {
  if (open.startsWith('[')) {
    if (!Array.isArray(root) || !Array.isArray(piece)) throw notJson()
    if (within.length > 0) add(root.at(-1), piece[0], within)
    for (let at = 1; at < piece.length; at++) root.push(piece[at])
    return root
  }
  const name: string = JSON.parse(open.slice(1, -1))
  const [held, more] = [asObject(root), asObject(piece)]
  if (held === null || more === null || !Object.hasOwn(held, name)) throw notJson()
  add(held[name], more[name], within)
  const { [name]: _, ...others } = more
  // A name may be one that objects inherit by.
  for (const [other, value] of Object.entries(others))
    Object.defineProperty(held, other, { value, configurable: true, enumerable: true, writable: true })
  return held
}

const notJson = () => new SyntaxError('It has a name twice.')
