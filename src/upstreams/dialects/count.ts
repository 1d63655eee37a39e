/** No call reads or writes more; beyond it a number is nonsense, and sums of money would stop being exact. */
const MAX_TOKENS = 1e9

/** A count of tokens, or of anything that is charged, as an upstream tells it; null where it is none. Pure. */
export const asCount = (value: unknown): number | null =>
  typeof value === 'number' && value >= 0 && value <= MAX_TOKENS ? Math.round(value) : null

/** No model writes faster; a larger number is a slip. */
const MOST_PER_SECOND = 100_000

/** Reads a number of tokens a second; undefined where it is none. */
export const toSpeed = (value: unknown): number | undefined =>
  typeof value === 'number' && value > 0 && value <= MOST_PER_SECOND ? value : undefined
