/** Guesses which name was meant, for the sentences of `check.ts` and `file.ts`. Pure. */
import { Kind, type TSchema } from '@sinclair/typebox'
import { toAlternatives } from '../validation/explain-words.ts'

/** Returns ` (did you mean 'x'?)` for the name nearest to a misspelt one, or nothing where none is near. */
export function closest(wrong: string, names: string[]): string {
  const near = names
    .map((name) => ({ name, steps: distance(wrong, name) }))
    .filter(({ name, steps }) => steps <= Math.max(1, Math.floor(name.length / 3)))
    .sort((a, b) => a.steps - b.steps)[0]
  return near ? ` (did you mean '${near.name}'?)` : ''
}

/** Lists the field names that a schema knows at a path. */
export function fieldsAt(schema: TSchema, path: readonly (string | number)[]): string[] {
  const [segment, ...rest] = path
  const branches = toAlternatives(schema)
  if (segment === undefined) return branches.flatMap((branch) => Object.keys(branch.properties ?? {}))
  for (const branch of branches) {
    const next =
      branch[Kind] === 'Array'
        ? branch.items
        : (branch.properties?.[segment] ?? Object.values<TSchema>(branch.patternProperties ?? {})[0])
    if (next) return fieldsAt(next, rest)
  }
  return []
}

/** Levenshtein distance. Names are short: a catalogue is not a hostile input of megabytes. */
function distance(a: string, b: string): number {
  if (Math.max(a.length, b.length) > 200) return Infinity
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min(swap, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
    previous = row
  }
  return previous[b.length] ?? Infinity
}
