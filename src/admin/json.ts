/**
 * Reads bodies that are JSON, of so many levels and values: a body that does not fit is held and written by Elysia's error several
 * times, indented, so that 16 KB of brackets would be a hundred megabytes, and each value costs a schema its look.
 */
import { type JsonLimits, JsonScan } from '../domain/json-scan.ts'

/** No catalogue that may be applied comes near it, and nothing else does. */
const LIMITS: JsonLimits = { depth: 32, values: 200_000, escapes: 1_000_000, bare: 4 * 1024 ** 2 }

/** Rejects for what is no JSON, or too much of it; whatever is thrown here, Elysia takes for a body that cannot be parsed. */
export async function readJson(request: Request): Promise<unknown> {
  const text = await request.text()
  if (new JsonScan(LIMITS).take(text) === null) return JSON.parse(text)
  throw new Error('the body holds too much')
}

export const NOT_READ = `The body must be JSON of at most ${LIMITS.depth} levels and ${LIMITS.values} values, with the content type application/json.`
