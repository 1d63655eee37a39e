/** PostgreSQL as an engine for report readers. */
import type { Histogram } from '../histogram.ts'
import type { Dialect, Engine, Given } from '../reports/engine.ts'
import type { Queries } from './client.ts'

const ID_DIGITS = 32

const toId = (column: string) => `replace(${column}::text, '-', '')`

export const DIALECT: Dialect = {
  toId,
  toBound: (text) => (text.endsWith('g') ? text.slice(0, -1).padEnd(ID_DIGITS, 'f') : text.padEnd(ID_DIGITS, '0')),
  ofRequests: ', (SELECT name FROM tollgate.nodes WHERE nodes.id = requests.node) AS node',
  endsWith: (column, parameter, length) => `right(${toId(column)}, ${length}) = ${parameter}`,
  matches: (column, parameter) => `${column} LIKE ${parameter}`,
  toPattern: (pattern) => pattern.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%'),
  toText: (column) => `${column}::text`,
  addUp: (column) => `tollgate.sum_histograms(${column})::text`,
  readText,
  countDurations: (column) => `tollgate.histogram(tollgate.bucket(${column}), 1)::text`,
}

/** `{0,2}`: one count per bucket, from bucket 0. */
function readText(text: string): Histogram {
  const histogram: Histogram = {}
  for (const [bucket, count] of text.slice(1, -1).split(',').entries())
    if (Number(count) > 0) histogram[bucket] = Number(count)
  return histogram
}

const TABLES = /\b(FROM|JOIN) (requests|calls|usage_hourly|usage_daily|refusals_hourly|key_uses)\b/g

/** Tables are named with their schema, since poolers don't keep a search path. */
const toText = (sql: string) => sql.replace(TABLES, '$1 tollgate.$2').replace(/\?(\d+)/g, '$$$1')

const KEPT_FROM = 'SELECT kept_from_ms AS ms FROM tollgate.ledger_state'

/** Removes characters that PostgreSQL can't store in text, as for stored rows. */
const toStored = (value: Given) =>
  typeof value === 'string' ? value.replaceAll('\0', '\u{fffd}').toWellFormed() : value

export function createEngine(postgres: Queries): Engine {
  const ask = <Row>(sql: string, values: readonly Given[]) => postgres.query<Row>(toText(sql), values.map(toStored))
  const rows = async <Row>(sql: string, values: readonly Given[]) => {
    const found = await ask<Row>(sql, values)
    // Convert sums beyond exact numbers, like SQLite.
    for (const row of found as Record<string, unknown>[])
      for (const name in row) if (typeof row[name] === 'bigint') row[name] = Number(row[name])
    return found
  }
  return {
    dialect: DIALECT,
    rows,
    lists: async (sql, values) => (await ask<Record<string, never>>(sql, values)).map((row) => Object.values(row)),
    keptFromMs: async () => Number((await rows<{ ms: number }>(KEPT_FROM, []))[0]?.ms ?? 0),
  }
}
