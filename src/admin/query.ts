/** Values of queries: what several of the admin API's lists are asked with. */
import { Type } from '@sinclair/typebox'
import { t } from 'elysia'
import { ServiceError } from '../domain/service-error.ts'
import { toPastMs } from '../domain/time.ts'

/** ms since 1970, a span such as `7d`, or a date with or without a time. */
const TIME = String.raw`^(\d{10,15}|0|\d{1,10}(ms|s|m|h|d|w)|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?)$`

/** @param values which ones it takes, for the description alone: its route checks them, and refuses others with a sentence. */
export const text = (description: string, values?: object) =>
  Type.Optional(Type.String({ description, ...(values && { values }) }))
/** One value or, with the name repeated, several: read by `toSeveral`. */
export const several = (description: string) =>
  Type.Optional(Type.Unsafe<string | string[]>(Type.Unknown({ description })))

/** Parameters that several lists and reports take. */
export const Since = text('From when on: ms since 1970, `7d` or `12h` (ago), or a date such as 2027-01-31.', {
  pattern: TIME,
})
export const Until = text('Before when, as `since`.', { pattern: TIME })
export const Before = text('`next` of the page before.')
/** Refusals of whatever names keys and teams. */
export const NAMED = ['key_not_found', 'key_ambiguous', 'team_not_found', 'team_ambiguous'] as const

/** What each filter says, of one value or of several. */
export const FILTERS = {
  key: 'By id, a part of it, or name. Reports of usage take several: repeat it.',
  team: 'By id, a part of it, or name. Reports of usage take several: repeat it.',
  model: 'A slug, an alias, or a pattern such as `openai/*`. Reports of usage take several: repeat it.',
  upstream: 'Its id; of requests, the one that was asked last. Reports of usage take several: repeat it.',
  endpoint: 'Such as `chat`.',
  user: 'As its client named it. Reports of usage take several: repeat it.',
} as const
export const Limit = t.Optional(t.Integer({ description: 'Rows at most.' }))

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
