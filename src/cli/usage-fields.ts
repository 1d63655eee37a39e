/** A report of usage under its columns' names, for JSON and CSV. Pure. */
import type { UsageGroup } from '../ledger/usage.ts'
import type { Figures, Percentiles } from '../ledger/usage-sums.ts'
import type { Dimension } from '../store/usage-store.ts'
import type { CsvValue } from './csv.ts'

declare global {
  interface JSON {
    /** A value that `stringify` writes as it is (TC39, JSON.parse source text access). */
    rawJSON(text: string): unknown
  }
}

export type UsageFields = Record<string, CsvValue>

const toPercentileFields = (name: string, { p50, p95, p99 }: Percentiles): UsageFields => ({
  [`${name}_p50_ms`]: p50,
  [`${name}_p95_ms`]: p95,
  [`${name}_p99_ms`]: p99,
})

/** Such as `cache_write_1h_tokens` of `cacheWrite1hTokens`. */
const toColumn = (field: string) => field.replace(/(?<=[a-z])(?=[A-Z0-9])/g, '_').toLowerCase()

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

/** As JSON has them: every integer exact, however large. */
export const toJsonFields = (fields: UsageFields) =>
  Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [
      field,
      typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value,
    ]),
  )
