/**
 * Changes single fields of a JSON object within its text, and nothing else of it: numbers of any length, the order of fields, their
 * spaces and escapes stay as they came. For whoever passes on what others wrote. Works on text that a JSON parser takes. Pure.
 */

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
export function findItems(text: string, at: number): Item[] | null {
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

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** `[` and `{` differ in this bit, and so do `]` and `}`. */
const OBJECT_BIT = 0x20
const OPENING = 0x7b
const CLOSING = 0x7d

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
