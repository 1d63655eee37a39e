/** The store of alerts in SQLite. */
import type { Database } from 'bun:sqlite'
import { and, asc, desc, eq, lt, ne, sql } from 'drizzle-orm'
import type { AlertDelivery, AlertEvent, AlertStore, TargetWrite } from '../alert-store.ts'
import { alertDeliveries, alertEvents, alertTargets } from './alert-schema.ts'
import { change, type Transaction, toTables, untilFree } from './config-store.ts'

/** Of all targets. */
const MAX_DELIVERIES = 1_000

export function createAlertStore(sqlite: Database): AlertStore {
  const database = toTables(sqlite)
  // Prepared: thousands of budgets may change at once.
  const putEvent = () =>
    sqlite.query(
      `INSERT INTO alert_events (target_id, id, alert, told, started_ms, ended_ms) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET alert = excluded.alert, told = excluded.told, ended_ms = excluded.ended_ms`,
    )
  const dropEvent = () => sqlite.query('DELETE FROM alert_events WHERE target_id = ? AND id = ?')
  return {
    readTargets: async () => readTargets(database),
    changeTargets: (by, decide) =>
      untilFree(() =>
        change(database, { ...{ by, read: readTargets, decide, write: writeTargets }, isNews: () => false }),
      ),
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
    write: ({ targetId, put = [], drop = [], delivery }) =>
      untilFree(() =>
        database.transaction(
          (tx) => {
            if (!tx.select({ id: alertTargets.id }).from(alertTargets).where(eq(alertTargets.id, targetId)).get())
              return false
            for (const id of drop) dropEvent().run(targetId, id)
            for (const { alert, told, startedMs, endedMs } of put)
              putEvent().run(targetId, alert.id, JSON.stringify(alert), told, startedMs, endedMs)
            if (delivery) writeDelivery(tx, delivery)
            return true
          },
          { behavior: 'immediate' },
        ),
      ),
  }
}

const readTargets = (tx: Pick<Transaction, 'select'>) =>
  tx.select().from(alertTargets).orderBy(asc(alertTargets.createdMs), asc(alertTargets.id)).all()

function writeTargets(tx: Transaction, { add, remove, resealed = [] }: TargetWrite): void {
  if (add) tx.insert(alertTargets).values(add).run()
  if (remove !== undefined) tx.delete(alertTargets).where(eq(alertTargets.id, remove)).run()
  for (const { id, before, sealed } of resealed)
    tx.update(alertTargets)
      .set({ sealed })
      .where(and(eq(alertTargets.id, id), eq(alertTargets.sealed, before)))
      .run()
}

function writeDelivery(tx: Transaction, delivery: AlertDelivery): void {
  const { id, state } = alertDeliveries
  tx.insert(alertDeliveries).values(delivery).onConflictDoUpdate({ target: id, set: delivery }).run()
  const oldest = tx.select({ id }).from(alertDeliveries).orderBy(desc(id)).limit(1).offset(MAX_DELIVERIES).get()
  if (oldest)
    tx.delete(alertDeliveries)
      .where(and(sql`${id} <= ${oldest.id}`, ne(state, 'pending')))
      .run()
}
