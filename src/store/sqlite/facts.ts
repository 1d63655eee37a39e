/** Rows of the settings table that a server reads and writes about itself. */
import type { Database } from 'bun:sqlite'

/** Rows of the settings table, by key. */
export type Settings = Readonly<Record<string, string>>

const HOUR_MS = 3_600_000

/** Writes what `audit` and the next start want to know: since when the ledger is kept, and who keeps it now. */
export function writeFacts(writer: Database, instance: string, nowMs: number): void {
  const write = (sql: string, key: string, value: string) =>
    writer.query(`INSERT INTO settings (key, value, updated_ms) VALUES (?, ?, ?) ${sql}`).run(key, value, nowMs)
  writer
    .transaction(() => {
      write('ON CONFLICT (key) DO NOTHING', 'ledger_from', String(nowMs - (nowMs % HOUR_MS)))
      write('ON CONFLICT (key) DO UPDATE SET value = excluded.value', 'instance', instance)
    })
    .immediate()
}

export function readSettings(writer: Database): Settings {
  const rows = writer.query<{ key: string; value: string }, []>('SELECT key, value FROM settings').all()
  return Object.fromEntries(rows.map((row) => [row.key, row.value]))
}
