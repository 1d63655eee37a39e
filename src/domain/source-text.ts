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
  if (!isNamed(text, field, from) || countNames(json) !== names || hasNumber(value)) return
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

/** How many fields all objects have. */
function countNames(root: object): number {
  let names = 0
  walk(root, (held) => {
    if (!Array.isArray(held)) for (const _ in held) names++
  })
  return names
}

function hasNumber(root: object): boolean {
  let found = false
  walk(root, (held) => {
    for (const name in held) if (typeof (held as JsonObject)[name] === 'number') found = true
  })
  return found
}

/** Visits a value and all lists and objects within. Does not recurse, for a request may be deep. */
function walk(root: object, visit: (held: object) => void): void {
  const open: object[] = [root]
  for (let held = open.pop(); held !== undefined; held = open.pop()) {
    visit(held)
    for (const name in held) {
      const value = (held as JsonObject)[name]
      if (typeof value === 'object' && value !== null) open.push(value)
    }
  }
}
