/** The store of alerts in SQLite. */
import type { Database } from 'bun:sqlite'
import { and, asc, desc, eq, lt } from 'drizzle-orm'
import type { AlertEvent, AlertStore } from '../alert-store.ts'
import { hasTarget, readTargets } from './alert-rows.ts'
import { alertDeliveries, alertEvents } from './alert-schema.ts'
import { changerOf, toProposal } from './change.ts'
import { toTables } from './tables.ts'

export function createAlertStore(sqlite: Database): AlertStore {
  const database = toTables(sqlite)
  return {
    readTargets: async () => readTargets(database),
    changeTargets: (by, decide) =>
      changerOf(sqlite).change({ kind: 'targets', by, propose: (tx) => toProposal(decide(readTargets(tx))) }),
    readEvents: async (targetId) =>
      database
        .select()
        .from(alertEvents)
        .where(eq(alertEvents.targetId, targetId))
        .all()
        .map(({ id: _, ...event }): AlertEvent => event),
    readDeliveries: async ({ targetId, before, limit }) =>
      database
        .select()
        .from(alertDeliveries)
        .where(
          and(
            targetId === undefined ? undefined : eq(alertDeliveries.targetId, targetId),
            before === undefined ? undefined : lt(alertDeliveries.id, before),
          ),
        )
        .orderBy(desc(alertDeliveries.id))
        .limit(limit)
        .all(),
    readPending: async () =>
      database
        .select()
        .from(alertDeliveries)
        .where(eq(alertDeliveries.state, 'pending'))
        .orderBy(asc(alertDeliveries.id))
        .all(),
    write: (write) =>
      changerOf(sqlite).change({
        kind: 'alerts',
        by: { actor: 'server', nowMs: write.delivery?.atMs ?? 0 },
        propose: (tx) => (hasTarget(tx, write.targetId) ? { value: true, write } : { value: false, write: null }),
      }),
  }
}
