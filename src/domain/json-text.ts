/**
 * Works on JSON text without parsing: measures its cost in one pass (it may hold millions of values, or be too deep to write), edits single fields and keeps
 * all other bytes, and remembers source texts.
 */
import type { JsonObject } from './json.ts'

export interface JsonLimits {
  depth: number
  /** At any depth; field names don't count. */
  values: number
  /** Parsers process them one by one. */
  escapes: number
  /** Outside of strings: a number may be of any length. */
  bare: number
}

/**
 * What can be parsed, validated, and serialized in some 50 ms each. 64,000 values are a conversation of over 4,000
 * turns with tools.
 */
export const BODY_LIMITS: JsonLimits = { depth: 256, values: 64_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }

export const UNLIMITED: JsonLimits = { depth: Infinity, values: Infinity, escapes: Infinity, bare: Infinity }

export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const BACKSLASH = 0x5c
/** This bit distinguishes `{` from `[`, and `}` from `]`. */
export const OBJECT_BIT = 0x20
export const OPENING = 0x7b
export const CLOSING = 0x7d

/** Up to this length, checking each character is faster than searching. */
export const SHORT = 32

export class JsonScan {
  values = 1
  names = 0
  /** Longest child of the outermost object. */
  longest: { from: number; to: number } | null = null
  isClosed = false
  private readonly limits: JsonLimits
  private depth = 0
  /** Characters before this piece. */
  private taken = 0
  /** Start of the current child. */
  private heldFrom = 0
  private escapes = 0
  private bare = 0
  private isInText = false
  /** The last piece ended with a backslash. */
  private isEscaped = false
  /** It ended within a still empty list or object. */
  private isEmpty = false

  constructor(limits = UNLIMITED) {
    this.limits = limits
  }

  /** Returns the exceeded limit, or null. */
  take(piece: string): keyof JsonLimits | null {
    const { limits } = this
    const end = piece.length
    let { depth, values, escapes, isInText } = this
    let at = this.isEscaped ? 1 : 0
    let bareFrom = at
    // After the last opening bracket, if only whitespace followed.
    let openedAt = this.isEmpty ? 0 : -1
    // Position of the next mark, if already searched for.
    let quote = -1
    let backslash = -1
    while (at < end) {
      if (isInText) {
        const near = Math.min(end, at + SHORT)
        let code = 0
        while (at < near) {
          code = piece.charCodeAt(at)
          if (code === QUOTE || code === BACKSLASH) break
          at++
        }
        if (at === near) {
          if (quote < at) quote = indexOf(piece, '"', at)
          if (backslash < at) backslash = indexOf(piece, '\\', at)
          at = Math.min(quote, backslash)
          if (at === end) break
          code = at === quote ? QUOTE : BACKSLASH
        }
        if (code === BACKSLASH) {
          if (++escapes > limits.escapes) return 'escapes'
          at += 2
          continue
        }
        isInText = false
        bareFrom = ++at
        continue
      }
      const code = piece.charCodeAt(at++)
      if (code === QUOTE) {
        isInText = true
        openedAt = -1
        this.bare += at - bareFrom
      } else if (code === COMMA) {
        if (++values > limits.values) return 'values'
        openedAt = -1
      } else if (code === COLON) {
        this.names++
      } else if ((code | OBJECT_BIT) === OPENING) {
        if (++depth > limits.depth) return 'depth'
        if (depth === 2) this.heldFrom = this.taken + at - 1
        // Counts the first item; all others follow a comma.
        if (values++ > limits.values) return 'values'
        openedAt = at
      } else if ((code | OBJECT_BIT) === CLOSING) {
        if (depth === 2) this.hold(this.taken + at)
        if (--depth === 0) this.isClosed = true
        if (openedAt !== -1 && isBlank(piece, openedAt, at - 1)) values--
        if (values > limits.values) return 'values'
        openedAt = -1
      }
    }
    this.taken += end
    this.depth = depth
    this.values = values
    this.escapes = escapes
    this.isInText = isInText
    this.isEscaped = at > end
    this.isEmpty = openedAt !== -1 && isBlank(piece, openedAt, end)
    if (!isInText) this.bare += end - bareFrom
    return this.bare > limits.bare ? 'bare' : null
  }

  private hold(to: number): void {
    const from = this.heldFrom
    const { longest } = this
    if (longest === null || to - from > longest.to - longest.from) this.longest = { from, to }
  }
}

export function indexOf(text: string, what: string, from: number): number {
  const found = text.indexOf(what, from)
  return found === -1 ? text.length : found
}

const isBlank = (text: string, from: number, to: number) => from >= to || text.slice(from, to).trim() === ''

export interface Member {
  name: string
  from: number
  to: number
  /** Including whitespace, between the separators. */
  begins: number
  ends: number
}

/** New JSON; null removes the field. */
export type Edits = Readonly<Record<string, string | null>>

/**
 * New fields are appended; anything but an object stays as it is.
 * @param at start of the object, or whitespace before it.
 */
export function splice(text: string, edits: Edits, at = 0): string {
  const members = findMembers(text, at)
  if (members === null) return text
  const kept: string[] = []
  const missing = new Set(Object.keys(edits))
  for (const { name, from, to, begins, ends } of members) {
    missing.delete(name)
    const edit = Object.hasOwn(edits, name) ? edits[name] : undefined
    if (edit === null) continue
    kept.push(edit === undefined ? text.slice(begins, ends) : text.slice(begins, from) + edit + text.slice(to, ends))
  }
  for (const name of missing) if (edits[name] != null) kept.push(`${JSON.stringify(name)}:${edits[name]}`)
  if (kept.length === 0 && members.length === 0) return text
  const opened = text.indexOf('{', at) + 1
  const closed = members.at(-1)?.ends ?? text.indexOf('}', opened)
  return text.slice(0, opened) + kept.join(',') + text.slice(closed)
}

/** In a nested object, if there is one. */
export function spliceWithin(text: string, field: string, edits: Edits): string {
  const held = findMembers(text)?.findLast(({ name }) => name === field)
  return held ? splice(text, edits, held.from) : text
}

/** With duplicates; null if no object begins there. */
export function findMembers(text: string, at = 0): Member[] | null {
  let next = skipSpace(text, at)
  if (text[next] !== '{') return null
  const members: Member[] = []
  next++
  if (text[skipSpace(text, next)] === '}') return members
  for (;;) {
    const begins = next
    const name = skipSpace(text, begins)
    const named = endOfText(text, name)
    const colon = skipSpace(text, named)
    const from = skipSpace(text, colon + 1)
    const to = endOfValue(text, from)
    const ends = skipSpace(text, to)
    if (text[colon] !== ':' || to === from) return null
    const isLast = text[ends] !== ','
    members.push({ name: readName(text, name, named), from, to, begins, ends })
    if (isLast) return text[ends] === '}' ? members : null
    next = ends + 1
  }
}

/** Source of a field in nested objects, as receivers read repeated names: the last one. Null if it isn't there. */
export function sourceOf(text: string, ...path: readonly string[]): string | null {
  let [from, to] = [0, text.length]
  for (const name of path) {
    const member = findMembers(text, from)?.findLast((one) => one.name === name)
    if (member === undefined) return null
    ;({ from, to } = member)
  }
  return text.slice(from, to)
}

export type Item = Omit<Member, 'name'>

/** null if no list begins there. */
function findItems(text: string, at: number): Item[] | null {
  let next = skipSpace(text, at)
  if (text[next] !== '[') return null
  const items: Item[] = []
  next++
  if (text[skipSpace(text, next)] === ']') return items
  for (;;) {
    const begins = next
    const from = skipSpace(text, begins)
    const to = endOfValue(text, from)
    const ends = skipSpace(text, to)
    if (to === from) return null
    items.push({ from, to, begins, ends })
    if (text[ends] !== ',') return text[ends] === ']' ? items : null
    next = ends + 1
  }
}

/** @param change values to put in place of an item, or null to keep it. */
export function spliceItems(
  text: string,
  at: number,
  change: (item: string, index: number) => readonly string[] | null,
): string | null {
  const items = findItems(text, at)
  if (items === null) return null
  const kept = items.flatMap(({ from, to, begins, ends }, index) => {
    const changed = change(text.slice(from, to), index)
    return changed === null ? text.slice(begins, ends) : changed
  })
  return `[${kept.join(',')}]`
}

function readName(text: string, from: number, to: number): string {
  const bare = text.slice(from + 1, to - 1)
  return bare.includes('\\') ? (JSON.parse(text.slice(from, to)) as string) : bare
}

/** @param at of the opening quote. */
function endOfText(text: string, at: number): number {
  for (let quote = text.indexOf('"', at + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let before = quote - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((quote - before) % 2 === 1) return quote + 1
  }
  return text.length
}

const BARE_END = /[,\]}\s]/g

function endOfValue(text: string, at: number): number {
  const first = text[at]
  if (first === '"') return endOfText(text, at)
  if (first !== '{' && first !== '[') {
    BARE_END.lastIndex = at
    return BARE_END.exec(text)?.index ?? text.length
  }
  let depth = 0
  let next = at
  while (next < text.length) {
    const code = text.charCodeAt(next)
    if (code === QUOTE) {
      next = endOfText(text, next)
      continue
    }
    next++
    if ((code | OBJECT_BIT) === OPENING) depth++
    else if ((code | OBJECT_BIT) === CLOSING && --depth === 0) return next
  }
  return next
}

function skipSpace(text: string, at: number): number {
  let next = at
  while (isSpace(text.charCodeAt(next))) next++
  return next
}

const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

export interface Layout {
  names: number
  longest: { from: number; to: number } | null
}

const texts = new WeakMap<object, string>()

export const sourceTextOf = (value: object): string | undefined => texts.get(value)

/** As a slice it keeps the whole text in memory. */
export const forgetText = (value: object): void => void texts.delete(value)

/**
 * Stores the source text of the longest child, if it is this field's. Not if a name is repeated, since receivers may use the other value, nor with numbers,
 * which may have thousands of digits.
 */
export function noteText(json: JsonObject, field: string, text: string, { names, longest }: Layout): void {
  const value = json[field]
  if (longest === null || typeof value !== 'object' || value === null) return
  const { from, to } = longest
  if (!isNamed(text, field, from)) return
  const within = survey(value)
  const around = survey({ ...json, [field]: null })
  if (within.hasNumber || within.names + around.names !== names) return
  texts.set(value, text.slice(from, to))
}

/** Whether the value belongs to this field. The character before the name rules out the end of a longer one, where the quote follows a backslash. */
function isNamed(text: string, field: string, from: number): boolean {
  const [, name] = /[{,\s]"(\w+)"\s*:\s*$/.exec(text.slice(Math.max(0, from - 64), from)) ?? []
  return name === field
}

/** Iterative, since requests may be deep; does not read names, for speed. */
export function survey(root: object): { names: number; hasNumber: boolean } {
  let names = 0
  let hasNumber = false
  const open: object[] = [root]
  for (let held = open.pop(); held !== undefined; held = open.pop()) {
    const values: unknown[] = Array.isArray(held) ? held : Object.values(held)
    if (values !== held) names += values.length
    for (const value of values) {
      if (typeof value === 'object' && value !== null) open.push(value)
      else if (typeof value === 'number') hasNumber = true
    }
  }
  return { names, hasNumber }
}
