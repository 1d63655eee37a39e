/** Suggests the name that a mistyped one was probably meant for. */

/** ` (did you mean 'x'?)` for the nearest name, or ''. */
export function closest(wrong: string, names: string[]): string {
  const near = names
    .map((name) => ({ name, steps: distance(wrong, name) }))
    .filter(({ name, steps }) => steps <= Math.max(1, Math.floor(name.length / 3)))
    .sort((a, b) => a.steps - b.steps)[0]
  return near ? ` (did you mean '${near.name}'?)` : ''
}

/** Levenshtein distance. */
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
