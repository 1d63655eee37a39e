/** Usage and failure reports in JSON, for the CLI and the admin API. */
import { type Static, Type } from '@sinclair/typebox'
import { type Dimension, ERROR_STATUSES, isNamed, isTime, type RefusalDimension } from '../domain/report-filters.ts'
import { toRatios } from '../domain/usage-figures.ts'
import type { FailuresReport } from '../ledger/failures.ts'
import type { RefusalReport, RefusalRow } from '../ledger/refusal-report.ts'
import type { UsageGroup } from '../ledger/report-filter.ts'
import type { UsageReport } from '../ledger/usage.ts'
import type { Figures, Percentiles } from '../ledger/usage-gather.ts'
import type { UsageFigures } from '../store/report-store.ts'
import { Count, orNull, TextOrNull, Time, toColumn, wordOf } from './fields.ts'

declare global {
  interface JSON {
    /** Written verbatim by `stringify` (TC39, JSON.parse source text access). */
    rawJSON(text: string): unknown
  }
}

export type UsageFields = Record<string, string | number | bigint | null>
const JsonFields = Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()]))

const pendingRecords = Type.Integer({ description: 'Records not yet in the database, and so not included.' })

export const Usage = Type.Object({
  usage: Type.Array(JsonFields, { description: 'One row per group.' }),
  other: orNull(JsonFields),
  total: JsonFields,
  since_ms: Time,
  until_ms: Time,
  pending_records: pendingRecords,
})
export type UsageDocument = Static<typeof Usage>

/** Write it with `JSON.stringify`, which keeps large integers exact. */
export function toUsageDocument(
  { rows, rest, total, sinceMs, untilMs }: UsageReport,
  by: readonly Dimension[],
  waiting: number,
  told: UsageFigures = 'all',
): UsageDocument {
  const toFields = (figures: Figures) => {
    const fields = Object.entries(toFigureFields(figures))
    return Object.fromEntries(fields.filter(([name]) => TOLD[told](name)))
  }
  return {
    usage: rows.map(({ group, figures }) => toJsonFields({ ...toGroupFields(by, group), ...toFields(figures) })),
    other: rest && { groups: rest.groups, ...toJsonFields(toFields(rest.figures)) },
    total: toJsonFields(toFields(total)),
    since_ms: sinceMs,
    until_ms: untilMs,
    pending_records: waiting,
  }
}

const SPEND: ReadonlySet<string> = new Set(['requests', 'cost_nano_usd', 'estimated_cost_nano_usd', 'estimated_share'])
const TOLD: Record<UsageFigures, (name: string) => boolean> = {
  all: () => true,
  sums: (name) => !/_p\d+_ms$/.test(name),
  spend: (name) => SPEND.has(name),
}

const toPercentileFields = (name: string, { p50, p95, p99 }: Percentiles): UsageFields => ({
  [`${name}_p50_ms`]: p50,
  [`${name}_p95_ms`]: p95,
  [`${name}_p99_ms`]: p99,
})

function toFigureFields({ firstToken, duration, ...sums }: Figures): UsageFields {
  const named = Object.fromEntries(Object.entries(sums).map(([field, value]) => [toColumn(field), value]))
  return {
    ...named,
    ...toPercentileFields('first_token', firstToken),
    ...toPercentileFields('duration', duration),
    ...toRatios(named),
  }
}

/** @param group default: all fields null */
export function toGroupFields(by: readonly Dimension[], group: UsageGroup = {}): UsageFields {
  const toFields = (dimension: Dimension): UsageFields => {
    if (isNamed(dimension)) {
      const { id = null, name = null } = group[dimension] ?? {}
      return { [`${dimension}_id`]: id, [dimension]: name }
    }
    if (!isTime(dimension)) return { [dimension]: group[dimension] ?? null }
    const ms = group[dimension]
    const text = ms === undefined ? null : new Date(ms).toISOString()
    return { [`${dimension}_ms`]: ms ?? null, [dimension]: dimension === 'day' ? (text?.slice(0, 10) ?? null) : text }
  }
  return Object.assign({}, ...by.map(toFields))
}

const toJsonFields = (fields: UsageFields) =>
  Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [
      field,
      typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value,
    ]),
  ) as Static<typeof JsonFields>

export const Failures = Type.Object({
  failures: Type.Array(
    Type.Object({
      at_ms: Type.Integer({ description: 'Start of the hour or day, in ms since 1970.' }),
      ...{ status: wordOf(ERROR_STATUSES), error_code: TextOrNull, requests: Count },
    }),
    { description: 'By time, then by number of requests.' },
  ),
  other_count: Type.Integer({ description: 'Requests with codes beyond `limit`.' }),
  since_ms: Type.Integer({
    description: 'Start of the report; later than requested if older requests are past retention.',
  }),
  until_ms: Time,
  pending_records: pendingRecords,
})
export type FailuresDocument = Static<typeof Failures>

export const toFailuresDocument = (
  { rows, rest, sinceMs, untilMs }: FailuresReport,
  waiting: number,
): FailuresDocument => ({
  failures: rows.map(({ atMs, status, errorCode, requests }) => ({
    ...{ at_ms: atMs, status, error_code: errorCode, requests },
  })),
  ...{ other_count: rest, since_ms: sinceMs, until_ms: untilMs, pending_records: waiting },
})

export const Refusals = Type.Object({
  refusals: Type.Array(JsonFields, {
    description:
      'One row per group, with `refused` and `last_ms`. By code also what it means and what clients got: `http_status` and `error_code`.',
  }),
  other_count: Type.Integer({ description: 'Refused requests of groups beyond `limit`.' }),
  total: Count,
  since_ms: Type.Integer({ description: 'Start of the report: the start of an hour.' }),
  until_ms: Time,
})
export type RefusalsDocument = Static<typeof Refusals>

export function toRefusalsDocument(
  { rows, rest, total, sinceMs, untilMs }: RefusalReport,
  by: readonly RefusalDimension[],
): RefusalsDocument {
  return {
    refusals: rows.map((row) => toJsonFields(toRefusalFields(by, row))),
    ...{ other_count: rest, total, since_ms: sinceMs, until_ms: untilMs },
  }
}

/** @param row default: all fields null */
export function toRefusalFields(by: readonly RefusalDimension[], row?: RefusalRow): UsageFields {
  const { group, code = null, refused = null, lastMs = null } = row ?? {}
  return {
    ...toGroupFields(
      by.filter((dimension) => dimension !== 'code'),
      group,
    ),
    ...(by.includes('code') && {
      ...{ code: code?.name ?? null, http_status: code?.status ?? null },
      ...{ error_code: code?.clientCode ?? null, meaning: code?.meaning ?? null },
    }),
    ...{ refused, last_ms: lastMs },
  }
}
