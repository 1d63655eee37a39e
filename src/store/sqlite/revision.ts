/**
 * The counter that tells a running server that its configuration changed. Whoever changes keys, models, routes,
 * upstreams, prices or settings bumps it in the same transaction, whatever process that is (design 5).
 */
import { sql } from 'drizzle-orm'
import type { Store } from './open.ts'
import { audit, settings } from './schema.ts'

export type Transaction = Parameters<Parameters<Store['transaction']>[0]>[0]

export interface Change {
  /** Who did it: `cli`, `file`, `server`. */
  actor: string
  /** `keys.create`, `catalog.apply`, … */
  action: string
  subject: string
  detail?: Record<string, unknown>
  nowMs: number
}

/** Runs a change of configuration in one immediate transaction, with its audit row and the bumped revision. */
export function changeConfig<T>(store: Store, change: Change, write: (tx: Transaction) => T): T {
  return store.transaction(
    (tx) => {
      const result = write(tx)
      bumpRevision(tx, change)
      return result
    },
    { behavior: 'immediate' },
  )
}

function bumpRevision(tx: Transaction, change: Change): void {
  tx.insert(settings)
    .values({ key: 'config_revision', value: '1', updatedMs: change.nowMs })
    .onConflictDoUpdate({
      target: settings.key,
      set: {
        value: sql`CAST(${settings.value} AS INTEGER) + 1`,
        updatedMs: change.nowMs,
      },
    })
    .run()
  tx.insert(audit)
    .values({
      id: Bun.randomUUIDv7().replaceAll('-', ''),
      atMs: change.nowMs,
      actor: change.actor,
      action: change.action,
      subject: change.subject,
      detail: change.detail ?? {},
    })
    .run()
}
