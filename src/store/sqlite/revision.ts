/** The number of the configuration as it is now, by which running servers notice a change. Used by `config-store.ts` and its parts. */
import type { Database } from 'bun:sqlite'
import { eq, sql } from 'drizzle-orm'
import type { Transaction } from './config-store.ts'
import { settings } from './schema.ts'

/** 0 before the first change. */
export function readRevision(tx: Transaction): number {
  return Number(tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()?.value ?? 0)
}

export function bumpRevision(tx: Transaction, nowMs: number): void {
  const value = sql`CAST(${settings.value} AS INTEGER) + 1`
  tx.insert(settings)
    .values({ key: 'config_revision', value: '1', updatedMs: nowMs })
    .onConflictDoUpdate({ target: settings.key, set: { value, updatedMs: nowMs } })
    .run()
}

/** How often each connection has changed the configuration by itself: of its own commits SQLite tells it nothing. */
const ownChanges = new WeakMap<Database, number>()

export const countOwnChanges = (sqlite: Database): number => ownChanges.get(sqlite) ?? 0

/** Notes a change that has been committed. */
export const noteOwnChange = (sqlite: Database) => void ownChanges.set(sqlite, countOwnChanges(sqlite) + 1)
