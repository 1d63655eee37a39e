/**
 * Notes when each key was last used, and for which model, inside the transaction that applies its requests: once a key and batch.
 * Of two requests the later one counts, whichever is applied first, so that a replay changes nothing. What was refused has no
 * row in the ledger, and so is no use. `ledger-apply.ts` calls it; `ledger-spending.ts` reads it.
 */
import type { Database } from 'bun:sqlite'
import type { OpenRow } from '../ledger-rows.ts'

type Use = Pick<OpenRow, 'keyId' | 'createdMs' | 'model'>

export interface KeyUses {
  note(row: Use): void
  /** Writes what was noted. Call it inside the transaction of the rows. */
  flush(): void
  /** Forgets what was noted, after a rollback. */
  clear(): void
}

export function createKeyUses(sqlite: Database): KeyUses {
  const uses = new Map<string, Use>()
  // Of two in one millisecond it is always the same one.
  const upsert = sqlite.query(
    `INSERT INTO key_uses (key_id, last_used_ms, last_model) VALUES (?, ?, ?)
     ON CONFLICT (key_id) DO UPDATE SET last_used_ms = excluded.last_used_ms, last_model = excluded.last_model
     WHERE (excluded.last_used_ms, excluded.last_model) > (last_used_ms, last_model)`,
  )

  return {
    note(row) {
      const latest = uses.get(row.keyId)
      if (!latest || isLater(row, latest)) uses.set(row.keyId, row)
    },
    flush() {
      for (const { keyId, createdMs, model } of uses.values()) upsert.run(keyId, createdMs, model)
      uses.clear()
    },
    clear: () => uses.clear(),
  }
}

const isLater = (one: Use, other: Use) =>
  one.createdMs > other.createdMs || (one.createdMs === other.createdMs && one.model > other.model)
