/** Words that depend on a number. Pure. */

/** Writes a count with its noun: `1 row`, `2 rows`. */
export const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? '' : 's'}`
