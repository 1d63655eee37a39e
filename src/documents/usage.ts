/** A report of usage under its columns' names, as `usage --json` and `--csv` print it and the admin API answers. Pure. */
import type { UsageReport } from '../ledger/usage.ts'
import type { UsageGroup } from '../ledger/usage-names.ts'
import type { Figures, Percentiles } from '../ledger/usage-sums.ts'
import type { Dimension, UsageFigures } from '../store/usage-store.ts'
import { toColumn } from './columns.ts'

declare global {
  interface JSON {
    /** A value that `stringify` writes as it is (TC39, JSON.parse source text access). */
    rawJSON(text: string): unknown
  }
}

export type UsageFields = Record<string, string | number | bigint | null>
/** The same in JSON, where a whole number is one, however large. */
type JsonFields = Record<string, string | number | null>

export interface UsageDocument {
  usage: JsonFields[]
  rest: JsonFields | null
  total: JsonFields
  since_ms: number
  until_ms: number
  /** Ledger records that the database did not have yet. */
  waiting: number
}

/** To be written by `JSON.stringify` as it is: it keeps every integer exact. */
export function toUsageDocument(
  { rows, rest, total, sinceMs, untilMs }: UsageReport,
  by: readonly Dimension[],
  waiting: number,
  told: UsageFigures = 'all',
): UsageDocument {
  const toFields = (figures: Figures) => {
    const fields = Object.entries(toFigureFields(figures))
    return Object.fromEntries(told === 'all' ? fields : fields.filter(([name]) => SPEND.has(name)))
  }
  return {
    usage: rows.map(({ group, figures }) => toJsonFields({ ...toGroupFields(by, group), ...toFields(figures) })),
    rest: rest && { groups: rest.groups, ...toJsonFields(toFields(rest.figures)) },
    total: toJsonFields(toFields(total)),
    since_ms: sinceMs,
    until_ms: untilMs,
    waiting,
  }
}

const SPEND: ReadonlySet<string> = new Set(['requests', 'cost_nano_usd', 'estimated_cost_nano_usd', 'estimated_share'])

const toPercentileFields = (name: string, { p50, p95, p99 }: Percentiles): UsageFields => ({
  [`${name}_p50_ms`]: p50,
  [`${name}_p95_ms`]: p95,
  [`${name}_p99_ms`]: p99,
})

export function toFigureFields({ firstToken, duration, ...sums }: Figures): UsageFields {
  const named = Object.entries(sums).map(([field, value]) => [toColumn(field), value])
  return {
    ...Object.fromEntries(named),
    ...toPercentileFields('first_token', firstToken),
    ...toPercentileFields('duration', duration),
  }
}

/** Without a group: the fields of one, empty. */
export function toGroupFields(by: readonly Dimension[], group: UsageGroup = {}): UsageFields {
  const { key, team, model, upstream, endpoint, user, dayMs, hourMs } = group
  const fields: Record<Dimension, UsageFields> = {
    key: { key_id: key?.id ?? null, key: key?.name ?? null },
    team: { team_id: team?.id ?? null, team: team?.name ?? null },
    model: { model: model ?? null },
    upstream: { upstream: upstream ?? null },
    endpoint: { endpoint: endpoint ?? null },
    user: { user: user ?? null },
    day: { day_ms: dayMs ?? null, day: dayMs === undefined ? null : toIso(dayMs).slice(0, 10) },
    hour: { hour_ms: hourMs ?? null, hour: hourMs === undefined ? null : toIso(hourMs) },
  }
  return Object.assign({}, ...by.map((dimension) => fields[dimension]))
}

const toIso = (ms: number) => new Date(ms).toISOString()

const toJsonFields = (fields: UsageFields) =>
  Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [
      field,
      typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value,
    ]),
  ) as JsonFields
