/** What a change changed, as audit rows keep it and commands tell it. Pure. */

/** By the names of columns, and nothing secret among them. */
export type Fields = Readonly<Record<string, unknown>>

/** The fields that changed, as they were and as they are. A field that was not there, or is gone, is on one side alone. */
export interface Difference {
  before: Fields
  after: Fields
}

/**
 * Compares two states of one thing, in depth; null where they are the same. Before what is made, and after what is gone, there
 * is `{}`.
 */
export function toDifference(before: Fields, after: Fields): Difference | null {
  const names = Object.keys({ ...before, ...after }).filter((name) => !Bun.deepEquals(before[name], after[name]))
  if (names.length === 0) return null
  const pick = (fields: Fields) =>
    Object.fromEntries(names.filter((name) => Object.hasOwn(fields, name)).map((name) => [name, fields[name]]))
  return { before: pick(before), after: pick(after) }
}
