/** Reads JSON that others wrote: no shape is taken for granted, and the numbers that JSON lacks do not end the reading. */

export type JsonObject = Record<string, unknown>

/** Bare `NaN` and `Infinity`, as Python's `json` writes them; quotes, and escapes, which may hold one, tell them from words. */
const NOT_NUMBERS = /\\.|"|-?\bInfinity\b|\bNaN\b/gs

/** Parses JSON text; a number that is none becomes null. Throws a SyntaxError. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    let isQuoted = false
    const mended = text.replace(NOT_NUMBERS, (found) => {
      if (found === '"') isQuoted = !isQuoted
      return isQuoted || found === '"' || found.startsWith('\\') ? found : 'null'
    })
    if (mended === text) throw error
    return JSON.parse(mended)
  }
}

export const asObject = (value: unknown): JsonObject | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null

export const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** A text that says something, or ''. */
export const asText = (value: unknown): string => (typeof value === 'string' ? value : '')
