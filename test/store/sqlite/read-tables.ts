/** All rows of the configuration, in their order. */
import type { Database } from 'bun:sqlite'

const TABLES = [
  ...['catalog_entries', 'upstream_credentials', 'teams', 'keys', 'key_secrets', 'key_models', 'prices'],
  ...['catalog_versions', 'settings', 'audit', 'admins', 'admin_sessions', 'admin_passkeys', 'admin_tokens'],
  ...['alert_targets', 'alert_events', 'alert_deliveries'],
]

export const readTables = (sqlite: Database): Record<string, unknown[]> =>
  Object.fromEntries(TABLES.map((table) => [table, sqlite.query(`SELECT * FROM ${table} ORDER BY rowid`).all()]))
