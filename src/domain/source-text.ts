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
