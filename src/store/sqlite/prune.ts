/** Deletes old rows and frees pages in short transactions, so that a kill loses nothing. */
import type { Database } from 'bun:sqlite'
import { toFirstId } from '../../domain/id.ts'
import { HOUR_MS, hourOf } from '../../domain/time.ts'
import type { RemovalWrite } from '../config-entry.ts'
import type { ChangeLog } from '../config-replica.ts'
import type { OldRows, Pruned, PruneSlice, SliceTiming, Space } from '../ledger-store.ts'
import type { Changer } from './change.ts'

const IN_OUTBOX = 'SELECT 1 FROM cluster_outbox WHERE cluster_outbox.request_id'

/** Not open, without an ID ahead of its time, and already shipped. Parameters: see `pruneSlice`. */
const GOES = `id > ?1 AND id <= ?2 AND status <> 'open' AND created_ms < ?3
  AND id NOT IN (SELECT value FROM json_each(?4)) AND NOT EXISTS (${IN_OUTBOX} = requests.id)`

/** Removes calls with their request. Calls without a request go only if they can no longer be settled. */
const REMOVE_CALLS = `
  DELETE FROM calls WHERE request_id > ?1 AND request_id <= ?2 AND CASE
    WHEN EXISTS (SELECT 1 FROM requests WHERE id = request_id)
    THEN EXISTS (SELECT 1 FROM requests WHERE id = request_id AND ${GOES})
    ELSE status <> 'open' AND created_ms < ?3 AND NOT EXISTS (${IN_OUTBOX} = calls.request_id) END`

/** Earlier hours are partly or only in the rollup. Never decreases. */
const MOVE_LEDGER_FROM = `
  INSERT INTO settings (key, value, updated_ms) VALUES ('ledger_from', ?1, ?2)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms
  WHERE CAST(settings.value AS INTEGER) < CAST(excluded.value AS INTEGER)`

/** 0 if nothing was ever deleted. */
export function createKeptFrom(sqlite: Database): () => Promise<number> {
  const from = sqlite.query<{ value: string }, []>(`SELECT value FROM settings WHERE key = 'ledger_from'`)
  return async () => Number(from.get()?.value ?? 0)
}

/** Records that earlier requests were removed. */
export const moveLedgerFrom = (sqlite: Database, ms: number, nowMs: number): void =>
  void sqlite.query(MOVE_LEDGER_FROM).run(String(ms), nowMs)

/**
 * Scans the next `limit` requests before `untilMs` (start of an hour), deletes settled ones with their calls, and moves `settings.ledger_from`. Throws SQLite's
 * error without changing anything.
 */
export function pruneSlice(
  sqlite: Database,
  { untilMs, after, limit, spared }: PruneSlice,
  nowMs: number,
): Pruned & Pick<SliceTiming, 'lockedMs'> {
  const end = toFirstId(untilMs)
  const staying = JSON.stringify(spared)
  // Loads pages before the write lock blocks others.
  const rows = sqlite
    .query<{ id: string }, [string, string, number]>(
      'SELECT id, status, created_ms FROM requests WHERE id > ? AND id < ? ORDER BY id LIMIT ?',
    )
    .all(after, end, limit)
  const last = rows.length < limit ? end : (rows.at(-1)?.id ?? end)
  sqlite.query('SELECT COUNT(*), SUM(created_ms) FROM calls WHERE request_id > ? AND request_id <= ?').get(after, last)
  const startMs = performance.now()
  const pruned = sqlite
    .transaction(() => {
      const newest = sqlite
        .query<{ ms: number | null }, [string, string, number, string]>(
          `SELECT MAX(created_ms) AS ms FROM requests WHERE ${GOES}`,
        )
        .get(after, last, untilMs, staying)
      const calls = sqlite.query(REMOVE_CALLS).run(after, last, untilMs, staying).changes
      if (newest === null || newest.ms === null) return { requests: 0, calls }
      const requests = sqlite.query(`DELETE FROM requests WHERE ${GOES}`).run(after, last, untilMs, staying).changes
      moveLedgerFrom(sqlite, hourOf(newest.ms) + HOUR_MS, nowMs)
      return { requests, calls }
    })
    .immediate()
  return { ...pruned, next: last === end ? null : last, lockedMs: performance.now() - startMs }
}

export function readSpace(sqlite: Database): Space {
  const read = (pragma: string) => Number(Object.values(sqlite.query<object, []>(`PRAGMA ${pragma}`).get() ?? {})[0])
  return {
    pageBytes: read('page_size'),
    pages: read('page_count'),
    freePages: read('freelist_count'),
    canShrink: read('auto_vacuum') !== 0,
  }
}

/** The file shrinks at the next checkpoint. No effect without `canShrink`. */
export function vacuumSlice(sqlite: Database, pages: number): Pick<SliceTiming, 'lockedMs'> {
  const startMs = performance.now()
  // `run` would stop after the first page.
  sqlite.query(`PRAGMA incremental_vacuum(${pages})`).all()
  return { lockedMs: performance.now() - startMs }
}

/** Keys with recorded or rejected requests keep their row and name. */
const IS_OLD_KEY = `(revoked_ms < ?1 OR expires_ms < ?1)
  AND NOT EXISTS (SELECT 1 FROM key_uses WHERE key_id = keys.id)
  AND NOT EXISTS (SELECT 1 FROM usage_hourly WHERE key_id = keys.id)
  AND NOT EXISTS (SELECT 1 FROM refusals_hourly WHERE key_id = keys.id)`

/** A restore must not reactivate keys that ended before. Never decreases. */
const MOVE_KEYS_FROM = `
  INSERT INTO settings (key, value, updated_ms) VALUES ('keys_from', ?1, ?2)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms
  WHERE CAST(settings.value AS INTEGER) < CAST(excluded.value AS INTEGER)`

const NEXT_REVISION = `
  UPDATE settings SET value = CAST(value AS INTEGER) + 1, updated_ms = ?1 WHERE key = 'config_revision'`

type Removed = { rows: number } & Pick<SliceTiming, 'lockedMs'>

/** Hour of the oldest count that hasn't been shipped. */
const FIRST_REFUSAL = `
  SELECT COALESCE(MIN(refusal ->> 0), ${Number.MAX_SAFE_INTEGER}) AS ms FROM cluster_outbox WHERE refusal IS NOT NULL`

/** Throws SQLite's error without changing anything. */
export const dropSlice = (sqlite: Database, { what, untilMs, limit }: OldRows, nowMs: number): Removed =>
  ({
    keys: () => dropKeys(sqlite, untilMs, limit, nowMs),
    audit: () => dropUntil(sqlite, 'audit', ['id'], toFirstId(untilMs), limit),
    refusals: () => {
      // Read before the write lock.
      const until = Math.min(hourOf(untilMs), sqlite.query<{ ms: number }, []>(FIRST_REFUSAL).get()?.ms ?? 0)
      return dropUntil(sqlite, 'refusals_hourly', ['hour_ms', 'key_id', 'team_id', 'code'], until, limit)
    },
  })[what]()

/** In a cluster, all nodes remove the same rows. */
export async function dropShared(
  sqlite: Database,
  { change, log }: Pick<Changer, 'change'> & { log: ChangeLog },
  { what, untilMs, limit }: OldRows & { what: 'keys' | 'audit' },
  nowMs: number,
): Promise<number> {
  const by = { actor: 'server', nowMs }
  if (what === 'audit') {
    const until = toFirstId(untilMs)
    const propose = () => {
      const rows = sqlite
        .query<{ id: string }, [string, number]>('SELECT id FROM audit WHERE id < ? ORDER BY id LIMIT ?')
        .all(until, limit + 1)
      const removed = Math.min(rows.length, limit)
      return { value: removed, write: removed === 0 ? null : { audit: rows[limit]?.id ?? until } }
    }
    return change({ kind: 'removal', by, propose })
  }
  const old = sqlite.query<{ id: string }, [number]>(`SELECT id FROM keys WHERE ${IS_OLD_KEY} ORDER BY id`).all(untilMs)
  if (old.length === 0) return 0
  const unused = new Set(await log.findUnused(old.map(({ id }) => id)))
  const propose = () => {
    const still = sqlite.query<{ id: string }, [number]>(`SELECT id FROM keys WHERE ${IS_OLD_KEY}`).all(untilMs)
    const ids = still.flatMap(({ id }) => (unused.has(id) ? id : [])).slice(0, limit)
    return { value: ids.length, write: ids.length === 0 ? null : { keys: { ids, fromMs: untilMs } } }
  }
  return change({ kind: 'removal', by, propose })
}

export function writeRemoval(
  _: unknown,
  { keys, audit }: RemovalWrite,
  { sqlite, nowMs }: { sqlite: Database; nowMs: number },
): void {
  if (audit !== undefined) sqlite.query('DELETE FROM audit WHERE id < ?').run(audit)
  if (keys === undefined) return
  const ids = JSON.stringify(keys.ids)
  const these = '(SELECT value FROM json_each(?))'
  for (const table of ['key_secrets', 'key_models'])
    sqlite.query(`DELETE FROM ${table} WHERE key_id IN ${these}`).run(ids)
  sqlite.query(`DELETE FROM keys WHERE id IN ${these}`).run(ids)
  sqlite.query(MOVE_KEYS_FROM).run(String(keys.fromMs), nowMs)
}

function dropKeys(sqlite: Database, untilMs: number, limit: number, nowMs: number): Removed {
  // Read before the write lock.
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

/** @param columns the primary key, the time first. */
function dropUntil(
  sqlite: Database,
  table: string,
  columns: readonly string[],
  until: string | number,
  limit: number,
): Removed {
  const row = columns.join(', ')
  const old = `SELECT ${row} FROM ${table} WHERE ${columns[0]} < ? ORDER BY ${row} LIMIT ?`
  return locked(sqlite, () => sqlite.query(`DELETE FROM ${table} WHERE (${row}) IN (${old})`).run(until, limit).changes)
}

function locked(sqlite: Database, work: () => number): Removed {
  const startMs = performance.now()
  const rows = sqlite.transaction(work).immediate()
  return { rows, lockedMs: performance.now() - startMs }
}
