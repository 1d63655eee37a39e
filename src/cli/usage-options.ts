/** Options of `tollgate usage`, and the names of its groups. */
import type { UsageFields } from '../documents/usage.ts'
import { toShortId } from '../domain/id.ts'
import { asText } from '../domain/json.ts'
import {
  type Dimension,
  REFUSAL_FILTERS,
  type RefusalDimension,
  USAGE_FILTERS,
  type UsageFilterName,
} from '../domain/report-filters.ts'
import { toDay } from '../domain/time.ts'
import { usageError } from './command-error.ts'
import { type Context, toShort, toTime } from './io.ts'
import { toMoment } from './values.ts'

type FilterName = UsageFilterName | (typeof REFUSAL_FILTERS)[number]

export interface UsageFlags extends Partial<Record<FilterName, string[]>> {
  since: string
  until?: string
  by: string
  limit: string
  csv?: boolean
  table?: boolean
}

const MAX_ROWS = 100_000

export function toForm({ csv, table }: UsageFlags, io: Context): 'json' | 'csv' | 'table' {
  if (Number(io.json) + Number(csv === true) + Number(table === true) > 1)
    throw usageError('Pass only one of --json, --csv, and --table.')
  if (io.json) return 'json'
  if (csv || table) return csv ? 'csv' : 'table'
  return io.isTerminal(1) ? 'table' : 'csv'
}

/** @param filters that the report has; others are rejected. */
export function toReportQuery(flags: UsageFlags, filters: readonly FilterName[], io: Context) {
  const nowMs = io.nowMs()
  const sinceMs = toMoment('--since', flags.since, nowMs)
  const untilMs = flags.until === undefined ? null : toMoment('--until', flags.until, nowMs)
  if (sinceMs >= (untilMs ?? nowMs + 1)) throw usageError('--since must be before --until and not in the future.')
  const query = new URLSearchParams({ by: flags.by, since: String(sinceMs), limit: String(toLimit(flags.limit)) })
  if (untilMs !== null) query.set('until', String(untilMs))
  for (const name of new Set([...USAGE_FILTERS, ...REFUSAL_FILTERS])) {
    const values = flags[name] ?? []
    if (values.length > 0 && !filters.includes(name))
      throw usageError(`--${name} works only ${name === 'code' ? 'with' : 'without'} --refusals.`)
    for (const value of values) query.append(name, value)
  }
  return { query, nowMs, sinceMs, untilMs }
}

function toLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text.trim()) ? Number(text) : 0
  if (limit >= 1 && limit <= MAX_ROWS) return limit
  throw usageError(`--limit must be a whole number from 1 to ${MAX_ROWS} (got '${text}').`)
}

/** Adds the ID to shared names. */
export function toNames(rows: readonly UsageFields[], by: readonly (Dimension | RefusalDimension)[]): string[][] {
  const ids = Map.groupBy(rows, ({ key }) => key)
  const isShared = (name: string) => new Set(ids.get(name)?.map(({ key_id: id }) => id)).size > 1
  const toKey = (id: string, name: string) => {
    if (name === '') return toShort(id.length === 32 ? toShortId(id) : id)
    return isShared(name) ? `${toShort(name)} (${toShortId(id)})` : toShort(name)
  }
  const cells: Partial<Record<Dimension | RefusalDimension, (row: UsageFields) => string>> = {
    key: ({ key_id: id, key }) => (id === null ? '(no key)' : toKey(asText(id), asText(key))),
    team: ({ team_id: id, team }) => (id === null ? '(no team)' : toShort(asText(team) || toShortId(asText(id)))),
    model: ({ model }) => toShort(asText(model), MODEL_WIDTH),
    day: ({ day_ms: ms }) => toDay(Number(ms)),
    hour: ({ hour_ms: ms }) => toTime(Number(ms)),
  }
  const toCell = (row: UsageFields, dimension: Dimension | RefusalDimension) =>
    row[dimension] === null ? `(no ${dimension})` : toShort(asText(row[dimension]))
  return rows.map((row) => by.map((dimension) => cells[dimension]?.(row) ?? toCell(row, dimension)))
}

const MODEL_WIDTH = 32
