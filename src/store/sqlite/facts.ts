/** Rows of the settings table that a server writes about itself. */
import type { Database } from 'bun:sqlite'

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
