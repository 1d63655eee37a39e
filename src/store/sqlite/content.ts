/** Content that an upgrade must keep, read from a database of any version. Amounts are exact text. */
import type { Database } from 'bun:sqlite'
import type { CopyContent } from '../store.ts'

const KEY = 'id, name, scope, team_id, expires_ms, rpm, tpm, concurrency, budget_nano_usd, budget_period, revoked_ms'

/** Before layers, the catalog was in separate tables. */
const CATALOG = {
  upstreams: ['id', 'upstreams'],
  models: ['slug', 'models'],
  routes: [`model || ' ' || upstream || ' ' || upstream_model`, 'routes'],
  aliases: ['alias', 'aliases'],
} as const

/** Each yields one column of text. */
const LISTS: Record<string, string> = {
  requests: 'SELECT CAST(COUNT(*) AS TEXT) FROM requests',
  'cost of requests': 'SELECT CAST(COALESCE(SUM(cost_nano_usd), 0) AS TEXT) FROM requests',
  'spend of keys': `SELECT key_id || ' ' || CAST(SUM(cost_nano_usd) AS TEXT) FROM usage_hourly GROUP BY key_id`,
  keys: `SELECT json_array(${KEY}) FROM keys`,
  'key secrets': `SELECT hash || ' ' || key_id FROM key_secrets`,
  'model patterns of keys': `SELECT key_id || ' ' || pattern FROM key_models`,
  teams: 'SELECT json_array(id, name, budget_nano_usd, budget_period) FROM teams',
  settings: `SELECT key || '=' || value FROM settings`,
}

export function readContent(sqlite: Database): CopyContent {
  const tables = new Set(
    sqlite
      .query<{ name: string }, []>('SELECT name FROM sqlite_schema')
      .all()
      .map(({ name }) => name),
  )
  const read = (sql: string) =>
    sqlite
      .query<object, []>(sql)
      .values()
      .map(([text]) => String(text))
      .sort()
  const catalog = Object.entries(CATALOG).map(([kind, [name, table]]): [string, string] => [
    kind,
    tables.has('catalog_entries')
      ? `SELECT DISTINCT name FROM catalog_entries WHERE kind = '${kind}'`
      : `SELECT ${name} FROM ${table}`,
  ])
  return new Map([...Object.entries(LISTS), ...catalog].map(([what, sql]) => [what, read(sql)]))
}
