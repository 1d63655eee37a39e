/** Tables of alerts; contracts describe the columns. */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Alert, AlertFormat, AlertSeverity, AlertTopic, SentAlert } from '../../domain/alerts.ts'
import type { AlertDelivery } from '../alert-store.ts'

export const alertTargets = sqliteTable('alert_targets', {
  id: text('id').primaryKey(),
  name: text('name').notNull().unique(),
  format: text('format').$type<AlertFormat>().notNull(),
  origin: text('origin').notNull(),
  sealed: text('sealed').notNull(),
  topics: text('topics', { mode: 'json' }).$type<AlertTopic[]>(),
  createdMs: integer('created_ms').notNull(),
})

const targetId = () =>
  text('target_id')
    .notNull()
    .references(() => alertTargets.id, { onDelete: 'cascade' })

export const alertEvents = sqliteTable(
  'alert_events',
  {
    targetId: targetId(),
    /** ID of the alert. */
    id: text('id').notNull(),
    alert: text('alert', { mode: 'json' }).$type<Alert>().notNull(),
    told: text('told').$type<AlertSeverity>(),
    startedMs: integer('started_ms').notNull(),
    endedMs: integer('ended_ms'),
  },
  (table) => [primaryKey({ columns: [table.targetId, table.id] })],
)

export const alertDeliveries = sqliteTable(
  'alert_deliveries',
  {
    id: text('id').primaryKey(),
    targetId: targetId(),
    atMs: integer('at_ms').notNull(),
    kind: text('kind').$type<AlertDelivery['kind']>().notNull(),
    alerts: text('alerts', { mode: 'json' }).$type<SentAlert[]>().notNull(),
    more: integer('more').notNull(),
    state: text('state').$type<AlertDelivery['state']>().notNull(),
    attempts: integer('attempts').notNull(),
    nextMs: integer('next_ms').notNull(),
    httpStatus: integer('http_status'),
    error: text('error'),
    doneMs: integer('done_ms'),
  },
  (table) => [index('alert_deliveries_target').on(table.targetId, table.id)],
)
