/** Where the database is in the history of its cluster: a row of `settings` of this node only. */
import { eq, ne } from 'drizzle-orm'
import { ServiceError } from '../../domain/service-error.ts'
import type { Position } from '../config-replica.ts'
import { settings } from './schema.ts'
import type { Transaction } from './tables.ts'

const KEY = 'cluster_position'

/** Rows of `settings` that are of this node only. */
export const OWN_SETTINGS: readonly string[] = [KEY, 'ledger_from']

export const isSetting = ne(settings.key, KEY)

export const readPosition = (tx: Pick<Transaction, 'select'>): Position | null => preparePosition(tx)()

/** For one who asks often. */
export function preparePosition(tx: Pick<Transaction, 'select'>): () => Position | null {
  const query = tx.select().from(settings).where(eq(settings.key, KEY)).prepare()
  return () => {
    const row = query.get()
    return row ? (JSON.parse(row.value) as Position) : null
  }
}

/** null: of no cluster. */
export function writePosition(tx: Pick<Transaction, 'insert' | 'delete'>, position: Position | null): void {
  if (position === null) return void tx.delete(settings).where(eq(settings.key, KEY)).run()
  const set = { value: JSON.stringify(position), updatedMs: 0 }
  tx.insert(settings)
    .values({ key: KEY, ...set })
    .onConflictDoUpdate({ target: settings.key, set })
    .run()
}

/** A change that other nodes don't have would be lost. Throws `cluster_member`. */
export function requireAlone(tx: Pick<Transaction, 'select'>): void {
  if (readPosition(tx) === null) return
  throw new ServiceError(
    { kind: 'cluster_member' },
    "This data folder belongs to a node of a cluster, and its configuration can't be changed without the others.",
  )
}

/** A copy that was changed alone is no longer of the cluster's history: a node that starts with it takes the cluster's configuration. */
export function leaveHistory(tx: Pick<Transaction, 'select' | 'insert' | 'delete'>): void {
  const position = readPosition(tx)
  if (position) writePosition(tx, { ...position, last: '0'.repeat(32) })
}
