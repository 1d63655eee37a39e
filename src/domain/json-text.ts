/**
 * JSON as its text, never parsed here: what reading one would cost, found in one pass before it is parsed, for a few megabytes may hold millions
 * of values or be nested too deeply to be written again; single fields changed within it and nothing else of it, so that numbers of any length,
 * the order of fields, their spaces and escapes stay as they came; and the text that a large value was parsed from. Pure.
 */
import type { JsonObject } from './json.ts'

/** The most that a text may have of each. */
export interface JsonLimits {
  /** How deeply lists and objects may be nested. */
  depth: number
  /** Lists, objects, texts, numbers and words, whatever holds them; names of fields are none. */
  values: number
  /** Backslashes in texts and names: a parser takes those apart letter by letter. */
  escapes: number
  /** Characters outside of texts and names: a number may be as long as it likes. */
  bare: number
}

export const UNLIMITED: JsonLimits = { depth: Infinity, values: Infinity, escapes: Infinity, bare: Infinity }

export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const BACKSLASH = 0x5c
/** `[` and `{` differ in this bit, and so do `]` and `}`. */
export const OBJECT_BIT = 0x20
export const OPENING = 0x7b
export const CLOSING = 0x7d

/** Most texts are shorter: up to here it is quicker to look at each letter than to have the end searched for. */
export const SHORT = 32

export class JsonScan {
  /** As many as were found so far. */
  values = 1
  /** Names of fields. */
  names = 0
  /** Where the longest list or object that the outermost object holds stands. */
  longest: { from: number; to: number } | null = null
  /** Whether the outermost list or object has ended. */
  isClosed = false
  private readonly limits: JsonLimits
  private depth = 0
  /** Of the pieces before, in characters. */
  private taken = 0
  /** Where what the outermost one holds was opened. */
  private heldFrom = 0
  private escapes = 0
  private bare = 0
  private isInText = false
  /** Whether the last piece ended with a backslash. */
  private isEscaped = false
  /** Whether it ended within a list or object that nothing stands in yet. */
  private isEmpty = false

  constructor(limits = UNLIMITED) {
    this.limits = limits
  }

  /** Reads on. Returns what there is too much of, or null. */
  take(piece: string): keyof JsonLimits | null {
    const { limits } = this
    const end = piece.length
    let { depth, values, escapes, isInText } = this
    let at = this.isEscaped ? 1 : 0
    let bareFrom = at
    // Behind the list or object that was opened last, as long as nothing but space may have come since.
    let openedAt = this.isEmpty ? 0 : -1
    // The next ones from `at` on, where they have been searched for.
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
        // For the first that stands in it, if one does: the others have a comma before them.
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

/** Where it stands from there on, or the end. */
export function indexOf(text: string, what: string, from: number): number {
  const found = text.indexOf(what, from)
  return found === -1 ? text.length : found
}

const isBlank = (text: string, from: number, to: number) => from >= to || text.slice(from, to).trim() === ''

/** A field and its value, as they stand in the text of their object. */
export interface Member {
  name: string
  /** Where its value begins and ends. */
  from: number
  to: number
  /** Where it is parted from the one before it and the one behind it. */
  begins: number
  ends: number
}

/** What becomes of fields, by their names: the JSON of a new value, or null to leave it out. */
export type Edits = Readonly<Record<string, string | null>>

/**
 * Sets and leaves out fields of an object, wherever their name stands, and adds those at its end that it does not have. What is no
 * object stays as it is.
 *
 * @param at where the object begins in the text, or space before it.
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

/** The same within an object that a field of the text's object holds; where that has none, nothing changes. */
export function spliceWithin(text: string, field: string, edits: Edits): string {
  const held = findMembers(text)?.findLast(({ name }) => name === field)
  return held ? splice(text, edits, held.from) : text
}

/** The fields of the object that begins there, as often as each stands; null where none begins. */
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

/** An item of a list, as it stands in its text. */
export type Item = Omit<Member, 'name'>

/** The items of the list that begins there; null where none begins. */
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

/**
 * Changes items of a list, and nothing else of it.
 * @param change gives what stands in place of an item: any number of values, or null for the item as it is.
 * @returns the text of the list alone.
 */
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

/** @param at of its first quote. */
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

/** What `JsonScan` found: names of fields in all, and where the longest list or object of the outermost object stands. */
export interface Layout {
  names: number
  longest: { from: number; to: number } | null
}

const texts = new WeakMap<object, string>()

/** The text of a value, where that is known. */
export const sourceTextOf = (value: object): string | undefined => texts.get(value)

/** Lets go of the text of a value: it keeps all that it was cut out of in memory. */
export const forgetText = (value: object): void => void texts.delete(value)

/**
 * Notes the text of the longest list or object that a parsed text has in this field. Not where any name stands twice in an
 * object: its reader may take the other value than we did. And not where it holds a number, which may be thousands of digits
 * long, or none that we could write.
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

/**
 * Whether the value that begins there is the one of this field, its name written without escapes. What stands before the name
 * tells it from the end of a longer one: a quote within a name has a backslash before it.
 */
function isNamed(text: string, field: string, from: number): boolean {
  const [, name] = /[{,\s]"(\w+)"\s*:\s*$/.exec(text.slice(Math.max(0, from - 64), from)) ?? []
  return name === field
}

/**
 * How many fields all objects within have, and whether there is a number. Does not recurse, for a request may be deep; and each
 * large request pays for it, so that no letter of a name is looked at.
 */
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
