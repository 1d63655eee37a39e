/** The database's position in the history of its cluster: a row of `settings` for this node only. */
import { eq, ne } from 'drizzle-orm'
import { ServiceError } from '../../domain/service-error.ts'
import type { Position } from '../config-replica.ts'
import { settings } from './schema.ts'
import type { Transaction } from './tables.ts'

const KEY = 'cluster_position'

/** Rows of `settings` that belong to this node only. */
export const OWN_SETTINGS: readonly string[] = [KEY, 'ledger_from']

export const isSetting = ne(settings.key, KEY)

export const readPosition = (tx: Pick<Transaction, 'select'>): Position | null => preparePosition(tx)()

/** Prepared, for frequent use. */
export function preparePosition(tx: Pick<Transaction, 'select'>): () => Position | null {
  const query = tx.select().from(settings).where(eq(settings.key, KEY)).prepare()
  return () => {
    const row = query.get()
    return row ? (JSON.parse(row.value) as Position) : null
  }
}

/** null: no cluster. */
export function writePosition(tx: Pick<Transaction, 'insert' | 'delete'>, position: Position | null): void {
  if (position === null) return void tx.delete(settings).where(eq(settings.key, KEY)).run()
  const set = { value: JSON.stringify(position), updatedMs: 0 }
  tx.insert(settings)
    .values({ key: KEY, ...set })
    .onConflictDoUpdate({ target: settings.key, set })
    .run()
}

/** Throws `cluster_member` for a cluster node, where a local change would be lost. */
export function requireAlone(tx: Pick<Transaction, 'select'>): void {
  if (readPosition(tx) === null) return
  throw new ServiceError(
    { kind: 'cluster_member' },
    "This data folder belongs to a node of a cluster, and its configuration can't be changed without the others.",
  )
}

/** A locally changed copy leaves the cluster's history. A node that starts with such a copy takes over the cluster's configuration. */
export function leaveHistory(tx: Pick<Transaction, 'select' | 'insert' | 'delete'>): void {
  const position = readPosition(tx)
  if (position) writePosition(tx, { ...position, last: '0'.repeat(32) })
}
