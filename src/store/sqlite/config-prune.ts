/**
 * Removes old rows of the configuration, a slice at a time, as `ledger-prune.ts` does those of the ledger: keys that have ended unused, and
 * entries of the audit log. `upkeep-worker.ts` runs both.
 */
import type { Database } from 'bun:sqlite'
import { toFirstId } from '../../domain/id.ts'
import type { OldRows, Took } from '../ledger-upkeep.ts'

/** Of a request that was ever recorded, one of the two tables names its key for ever: that row stays, with its name. */
const IS_OLD_KEY = `(revoked_ms < ?1 OR expires_ms < ?1)
  AND NOT EXISTS (SELECT 1 FROM key_uses WHERE key_id = keys.id)
  AND NOT EXISTS (SELECT 1 FROM usage_hourly WHERE key_id = keys.id)`

/** Keys that had ended by then may be missing: a restore must not let them in again. Never goes back. */
const MOVE_KEYS_FROM = `
  INSERT INTO settings (key, value, updated_ms) VALUES ('keys_from', ?1, ?2)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms
  WHERE CAST(settings.value AS INTEGER) < CAST(excluded.value AS INTEGER)`

const NEXT_REVISION = `
  UPDATE settings SET value = CAST(value AS INTEGER) + 1, updated_ms = ?1 WHERE key = 'config_revision'`

type Removed = { rows: number } & Pick<Took, 'lockedMs'>

/** Throws what SQLite says, and then nothing has changed. */
export const dropSlice = (sqlite: Database, { what, untilMs, limit }: OldRows, nowMs: number): Removed =>
  what === 'keys' ? dropKeys(sqlite, untilMs, limit, nowMs) : dropAudit(sqlite, untilMs, limit)

function dropKeys(sqlite: Database, untilMs: number, limit: number, nowMs: number): Removed {
  // Read before the write lock is taken.
  const found = sqlite
    .query<{ id: string }, [number, number]>(`SELECT id FROM keys WHERE ${IS_OLD_KEY} ORDER BY id LIMIT ?2`)
    .all(untilMs, limit)
  if (found.length === 0) return { rows: 0, lockedMs: 0 }
  const ids = JSON.stringify(found.map(({ id }) => id))
  const old = `SELECT id FROM keys WHERE id IN (SELECT value FROM json_each(?2)) AND ${IS_OLD_KEY}`
  return locked(sqlite, () => {
    for (const table of ['key_secrets', 'key_models'])
      sqlite.query(`DELETE FROM ${table} WHERE key_id IN (${old})`).run(untilMs, ids)
    const rows = sqlite.query(`DELETE FROM keys WHERE id IN (${old})`).run(untilMs, ids).changes
    sqlite.query(MOVE_KEYS_FROM).run(String(untilMs), nowMs)
    sqlite.query(NEXT_REVISION).run(nowMs)
    return rows
  })
}

function dropAudit(sqlite: Database, untilMs: number, limit: number): Removed {
  return locked(
    sqlite,
    () =>
      sqlite
        .query('DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ? ORDER BY id LIMIT ?)')
        .run(toFirstId(untilMs), limit).changes,
  )
}

function locked(sqlite: Database, work: () => number): Removed {
  const startMs = performance.now()
  const rows = sqlite.transaction(work).immediate()
  return { rows, lockedMs: performance.now() - startMs }
}
