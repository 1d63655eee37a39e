/** Query parameters that several lists share. */
import { type TSchema, Type } from '@sinclair/typebox'
import { t } from 'elysia'
import { DIMENSIONS, REPORT_PARAMETERS, type ReportParameter } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toPastMs } from '../domain/time.ts'
import { isOperator } from './access.ts'
import type { Asker } from './deps.ts'

/** ms since 1970, a duration such as `7d`, a day, or a date with or without time. */
const TIME = String.raw`^(today|yesterday|\d{10,15}|0|\d{1,10}(ms|s|m|h|d|w)|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?)$`

/** Only for the API description; routes validate them with better messages. */
const VALUES: Partial<Record<ReportParameter, object>> = {
  since: { pattern: TIME },
  until: { pattern: TIME },
  by: { pattern: `^(${DIMENSIONS.join('|')})(,(${DIMENSIONS.join('|')}))?$` },
}

const each = <Name extends ReportParameter, Schema extends TSchema>(
  names: readonly Name[],
  make: (description: string, name: Name) => Schema,
) =>
  Object.fromEntries(names.map((name) => [name, make(`${REPORT_PARAMETERS[name].description}.`, name)])) as Record<
    Name,
    Schema
  >

/** Single-value parameters. */
export const one = <Name extends ReportParameter>(...names: readonly Name[]) =>
  each(names, (description, name) => Type.Optional(Type.String({ description, values: VALUES[name] })))

/** Repeatable parameters, read by `toSeveral`. */
export const several = <Name extends ReportParameter>(...names: readonly Name[]) =>
  each(names, (description) =>
    Type.Optional(Type.Unsafe<string | string[]>(Type.Unknown({ description: `${description} May be repeated.` }))),
  )

export const Limit = t.Optional(t.Integer({ description: `${REPORT_PARAMETERS.limit.description}.` }))

/** Errors of routes that look up keys and teams. */
export const NAMED = ['key_not_found', 'key_ambiguous', 'team_not_found', 'team_ambiguous'] as const

/** All values of each filter. */
export const toWhere = <Name extends string>(request: Request, names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, toSeveral(request, name)])) as Record<Name, string[]>

/** The framework would split repeated values at commas. */
export const toSeveral = (request: Request, name: string): string[] => new URL(request.url).searchParams.getAll(name)

/** Limit for commands. */
const MAX_OF_OPERATOR = 100_000

/** Throws `invalid`. */
export function toLimit(limit: number, mostOfPages: number, asker: Asker): number {
  const most = isOperator(asker) ? Math.max(MAX_OF_OPERATOR, mostOfPages) : mostOfPages
  if (limit >= 1 && limit <= most) return limit
  const message = `Invalid limit: must be a whole number from 1 to ${most}.`
  throw new ServiceError({ kind: 'invalid', field: 'limit' }, message)
}

/** More digits than any date. */
const MS = /^\d{10,15}$/

/** Parses ms since 1970 and what `toPastMs` parses. Throws `invalid`. */
export function toTime(field: string, text: string, nowMs: number): number {
  const atMs = MS.test(text) ? Number(text) : toPastMs(text, nowMs)
  if (atMs !== null) return atMs
  const rule = 'it must be ms since 1970, 7d or 12h (ago), today, yesterday, or a date such as 2027-01-31'
  throw new ServiceError({ kind: 'invalid', field }, `Invalid ${field}: ${rule}.`)
}

/** `untilMs` is null for an open end. Throws `invalid`. */
export function toSpan(since: string, until: string | undefined, nowMs: number) {
  const sinceMs = toTime('since', since, nowMs)
  const untilMs = toTimeOrNone('until', until, nowMs) ?? null
  if (sinceMs >= (untilMs ?? nowMs + 1)) throw new ServiceError({ kind: 'invalid', field: 'since' }, NO_SPAN)
  return { sinceMs, untilMs }
}

const NO_SPAN = 'Invalid since: must be before until and not in the future.'

export const toTimeOrNone = (field: string, text: string | undefined, nowMs: number) =>
  text === undefined ? undefined : toTime(field, text, nowMs)
