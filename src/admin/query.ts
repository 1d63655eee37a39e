/** Values of queries: what several of the admin API's lists are asked with. */
import { Type } from '@sinclair/typebox'
import { ServiceError } from '../domain/service-error.ts'
import { toPastMs } from '../domain/time.ts'

/** One value or, with the name repeated, several: read by `toSeveral`. */
export const Several = Type.Optional(Type.Unsafe<string | string[]>(Type.Unknown()))

/** All values of a name. The framework would take a comma in one of several for the end of a value. */
export const toSeveral = (request: Request, name: string): string[] => new URL(request.url).searchParams.getAll(name)

/** Checks how many rows are asked for at most. Throws `invalid`. */
export function toLimit(limit: number, most: number): number {
  if (limit >= 1 && limit <= most) return limit
  const message = `The field limit is invalid: it must be a whole number from 1 to ${most}.`
  throw new ServiceError({ kind: 'invalid', field: 'limit' }, message)
}

/** ms since 1970 have more digits than any date. */
const MS = /^\d{10,15}$/

/** Reads a time: ms since 1970, or as commands take it: `7d`, `12h` (ago), `2027-01-31`. Throws `invalid`. */
export function toTime(field: string, text: string, nowMs: number): number {
  const atMs = MS.test(text) ? Number(text) : toPastMs(text, nowMs)
  if (atMs !== null) return atMs
  const rule = 'it must be ms since 1970, 7d or 12h (ago), or a date such as 2027-01-31'
  throw new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${rule}.`)
}

/** The time that a report is about; null where it has no end. Throws `invalid`. */
export function toSpan(since: string, until: string | undefined, nowMs: number) {
  const sinceMs = toTime('since', since, nowMs)
  const untilMs = toTimeOrNone('until', until, nowMs) ?? null
  if (sinceMs >= (untilMs ?? nowMs + 1)) throw new ServiceError({ kind: 'invalid', field: 'since' }, NO_SPAN)
  return { sinceMs, untilMs }
}

const NO_SPAN = 'The field since is invalid: it must be before until, and not in the future.'

export const toTimeOrNone = (field: string, text: string | undefined, nowMs: number) =>
  text === undefined ? undefined : toTime(field, text, nowMs)
