/** Rows of alert targets, their alerts, and deliveries. */
import type { Database } from 'bun:sqlite'
import { and, asc, desc, eq, ne, sql } from 'drizzle-orm'
import type { AlertDelivery, AlertWrite, TargetWrite } from '../alert-store.ts'
import { alertDeliveries, alertTargets } from './alert-schema.ts'
import type { Transaction } from './tables.ts'

/** Limit for all targets together. */
const MAX_DELIVERIES = 1_000

export const readTargets = (tx: Pick<Transaction, 'select'>) =>
  tx.select().from(alertTargets).orderBy(asc(alertTargets.createdMs), asc(alertTargets.id)).all()

export function writeTargets(tx: Transaction, { add, remove, resealed = [] }: TargetWrite): void {
  if (add) tx.insert(alertTargets).values(add).run()
  if (remove !== undefined) tx.delete(alertTargets).where(eq(alertTargets.id, remove)).run()
  for (const { id, before, sealed } of resealed)
    tx.update(alertTargets)
      .set({ sealed })
      .where(and(eq(alertTargets.id, id), eq(alertTargets.sealed, before)))
      .run()
}

/** Prepared: thousands of budgets may change at once. */
const PUT_EVENT = `
  INSERT INTO alert_events (target_id, id, alert, told, started_ms, ended_ms) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET alert = excluded.alert, told = excluded.told, ended_ms = excluded.ended_ms`
const DROP_EVENT = 'DELETE FROM alert_events WHERE target_id = ? AND id = ?'

export const hasTarget = (tx: Pick<Transaction, 'select'>, id: string): boolean =>
  tx.select({ id: alertTargets.id }).from(alertTargets).where(eq(alertTargets.id, id)).get() !== undefined

export function writeAlerts(tx: Transaction, write: AlertWrite, { sqlite }: { sqlite: Database }): void {
  const { targetId, put = [], drop = [], delivery } = write
  const [putEvent, dropEvent] = [sqlite.query(PUT_EVENT), sqlite.query(DROP_EVENT)]
  for (const id of drop) dropEvent.run(targetId, id)
  for (const { alert, told, startedMs, endedMs } of put)
    putEvent.run(targetId, alert.id, JSON.stringify(alert), told, startedMs, endedMs)
  if (delivery) writeDelivery(tx, delivery)
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
