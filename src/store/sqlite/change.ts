/** How configuration is changed: one transaction of what was decided, its audit row and, where servers are to notice, a new revision. */
import { desc, eq } from 'drizzle-orm'
import { codeOf } from '../../domain/error.ts'
import { mintId, timeOfId } from '../../domain/id.ts'
import type { Actor, Decided, SettingsWrite } from '../config-store.ts'
import type { Connection, Transaction } from './config-store.ts'
import { bumpRevision, noteOwnChange } from './revision.ts'
import { audit, settings } from './schema.ts'

/** Other writers are done within moments; a slice of retention takes a few ms. */
const PATIENCE_MS = 1_000
const AGAIN_MS = 5

/** Tries again where the database is locked: a server's connection never waits inside SQLite. */
export async function untilFree<T>(work: () => T): Promise<T> {
  const endMs = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!codeOf(error).startsWith('SQLITE_BUSY') || performance.now() >= endMs) throw error
    }
    await Bun.sleep(AGAIN_MS)
  }
}

export interface ChangeSteps<Rows, Write, T> {
  by: Actor
  read(tx: Transaction): Rows
  decide(rows: Rows): Decided<Write, T>
  write(tx: Transaction, what: Write): void
  /** Whether running servers are to take it in; else it is on record alone. */
  isNews?(what: Write): boolean
}

export function change<Rows, Write, T>(
  database: Connection,
  { by, read, decide, write, isNews }: ChangeSteps<Rows, Write, T>,
): T {
  let isNew = false
  const value = database.transaction(
    (tx) => {
      const decided = decide(read(tx))
      writeSettings(tx, decided.settings ?? {}, by.nowMs)
      if (decided.change === null) return decided.value
      const { write: what, ...record } = decided.change
      write(tx, what)
      isNew = isNews?.(what) ?? true
      if (isNew) bumpRevision(tx, by.nowMs)
      tx.insert(audit)
        .values({ id: toAuditId(tx, by.nowMs), atMs: by.nowMs, actor: by.actor, ...record })
        .run()
      return decided.value
    },
    { behavior: 'immediate' },
  )
  if (isNew) noteOwnChange(database.$client)
  return value
}

export function writeSettings(tx: Transaction, rows: SettingsWrite, updatedMs: number): void {
  for (const [key, value] of Object.entries(rows)) {
    if (value === null) {
      tx.delete(settings).where(eq(settings.key, key)).run()
      continue
    }
    const set = { value, updatedMs }
    tx.insert(settings)
      .values({ key, ...set })
      .onConflictDoUpdate({ target: settings.key, set })
      .run()
  }
}

/** An id behind all others: of two commands at a time, the one that began first may change something last. */
function toAuditId(tx: Transaction, nowMs: number): string {
  const last = tx.select({ id: audit.id }).from(audit).orderBy(desc(audit.id)).limit(1).get()
  const id = mintId(nowMs)
  // Ids of one ms are in order as long as none of another time is minted between them.
  return last === undefined || id > last.id ? id : mintId(timeOfId(last.id) + 1)
}
