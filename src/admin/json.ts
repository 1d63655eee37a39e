/**
 * Reads bodies that are JSON, and not deep: of one that does not fit, Elysia's error holds all of it indented, level by level, which
 * of 16 KB of brackets are a hundred megabytes and a second of the event loop.
 */

/** Nothing that the API takes comes near it. */
const MOST_LEVELS = 32

/** Rejects for what is no JSON, or has too many levels; whatever is thrown here, Elysia takes for a body that cannot be parsed. */
export async function readJson(request: Request): Promise<unknown> {
  const body: unknown = JSON.parse(await request.text())
  if (isWithin(body, MOST_LEVELS)) return body
  throw new Error(`the body has more than ${MOST_LEVELS} levels`)
}

const isWithin = (value: unknown, levels: number): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (levels > 0 && Object.values(value).every((one) => isWithin(one, levels - 1)))
