/** No call reads or writes more; beyond it a number is nonsense, and sums of money would stop being exact. */
const MAX_TOKENS = 1e9

/** A count of tokens, or of anything that is charged, as an upstream tells it; null where it is none. Pure. */
export const asCount = (value: unknown): number | null =>
  typeof value === 'number' && value >= 0 && value <= MAX_TOKENS ? Math.round(value) : null
