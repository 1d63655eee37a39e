/**
 * Reads JSON that others wrote: no shape is taken for granted, and the numbers that JSON lacks do not end the reading. Writes
 * JSON that is one line to everyone.
 */

import { type JsonLimits, JsonScan } from './json-scan.ts'

export type JsonObject = Record<string, unknown>

/** Bare `NaN` and `Infinity`, as Python's `json` writes them; quotes, and escapes, which may hold one, tell them from words. */
const NOT_NUMBERS = /\\.|"|-?\bInfinity\b|\bNaN\b/gs

/** Deeper JSON can be read but not written again: the runtime's writer is recursive, and takes a second to give up. */
const MAX_DEPTH = 10_000
const LIMITS: JsonLimits = { depth: MAX_DEPTH, values: Infinity, escapes: Infinity, bare: Infinity }

/** Makes another value of one, which stood there as `source` where it is no list or object. */
export type Reviver = (name: string, value: unknown, context: { source?: string }) => unknown

/** Parses JSON text; a number that is none becomes null. Throws a SyntaxError, also for what is nested too deeply. */
export function parseJson(text: string, reviver?: Reviver): unknown {
  // A level takes two characters at least, so that nearly everything is let through unseen.
  if (text.length > 2 * MAX_DEPTH && new JsonScan(LIMITS).take(text) !== null)
    throw new SyntaxError(`It is nested more than ${MAX_DEPTH} levels deep.`)
  return parse(text, reviver)
}

function parse(text: string, reviver: Reviver | undefined): unknown {
  try {
    return read(text, reviver)
  } catch (error) {
    let isQuoted = false
    const mended = text.replace(NOT_NUMBERS, (found) => {
      if (found === '"') isQuoted = !isQuoted
      return isQuoted || found === '"' || found.startsWith('\\') ? found : 'null'
    })
    if (mended === text) throw error
    return read(mended, reviver)
  }
}

const read = (text: string, reviver: Reviver | undefined): unknown =>
  reviver ? JSON.parse(text, reviver as Parameters<typeof JSON.parse>[1]) : JSON.parse(text)

export const asObject = (value: unknown): JsonObject | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null

export const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** A text that says something, or ''. */
export const asText = (value: unknown): string => (typeof value === 'string' ? value : '')

/** What some clients take for the end of a line, though JSON and server-sent events do not (openai-python splits there). */
const LINE_ENDS = /[\u0085\u2028\u2029]/g
const ESCAPED: Record<string, string> = { '\u0085': '\\u0085', '\u2028': '\\u2028', '\u2029': '\\u2029' }

/** Writes JSON that is one line to everyone. */
export const toLine = (value: unknown) => JSON.stringify(value).replace(LINE_ENDS, toEscaped)
const toEscaped = (found: string) => ESCAPED[found] ?? ''

/**
 * Gives every value within one, at any depth, with the name of its field: lists and objects, too. '' for what stands in a list.
 * Copies nothing and does not recurse: it may be as large and as deep as a request.
 */
export function* valuesWithin(root: object): Generator<[name: string, value: unknown]> {
  const open: object[] = [root]
  for (let held = open.pop(); held !== undefined; held = open.pop()) {
    for (const name in held) {
      const value = (held as JsonObject)[name]
      if (typeof value === 'object' && value !== null) open.push(value)
      yield [Array.isArray(held) ? '' : name, value]
    }
  }
}
