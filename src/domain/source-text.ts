/**
 * The text that a large value of a request was parsed from, for whoever sends that value on unchanged: to write it again takes
 * longer than all the rest of a large request. Kept beside the value, for as long as it lives: values of requests never change.
 */
import type { JsonObject } from './json.ts'

/** What `JsonScan` found: names of fields in all, and where the longest list or object of the outermost object stands. */
export interface Layout {
  names: number
  longest: { from: number; to: number } | null
}

const texts = new WeakMap<object, string>()

/** The text of a value, where that is known. */
export const textOf = (value: object): string | undefined => texts.get(value)

/**
 * Notes the text of the longest list or object that a parsed text has in this field. Not where any name stands twice in an
 * object: its reader may take the other value than we did.
 */
export function noteText(json: JsonObject, field: string, text: string, { names, longest }: Layout): void {
  const value = json[field]
  if (longest === null || typeof value !== 'object' || value === null) return
  const { from, to } = longest
  if (!isNamed(text, field, from) || countNames(json) !== names) return
  texts.set(value, text.slice(from, to))
}

/** Whether the value that begins there is the one of this field, its name written without escapes. */
function isNamed(text: string, field: string, from: number): boolean {
  const before = text.slice(Math.max(0, from - 64), from).trimEnd()
  return before.endsWith(':') && before.slice(0, -1).trimEnd().endsWith(`"${field}"`)
}

/** How many fields all objects have. Does not recurse, for a request may be deep. */
function countNames(root: object): number {
  let names = 0
  const open: object[] = [root]
  for (let held = open.pop(); held !== undefined; held = open.pop()) {
    if (Array.isArray(held)) {
      for (const value of held) if (typeof value === 'object' && value !== null) open.push(value)
      continue
    }
    for (const name in held) {
      names++
      const value = (held as JsonObject)[name]
      if (typeof value === 'object' && value !== null) open.push(value)
    }
  }
  return names
}
