/** The contract of a store of alert targets, their alerts, and deliveries. Changes of targets work as in `config-store.ts`, without a revision. */
import type { Alert, AlertFormat, AlertSeverity, AlertTopic, SentAlert } from '../domain/alerts.ts'
import type { Actor, Decided } from './config-store.ts'

export interface StoredTarget {
  id: string
  name: string
  format: AlertFormat
  /** Scheme and host of the URL; its path may be a secret. */
  origin: string
  /** JSON of `TargetSecrets`, encrypted. */
  sealed: string
  /** null: all topics, including later ones. */
  topics: AlertTopic[] | null
  createdMs: number
}

/** An alert of a target, from its start until a delivery reports its end. */
export interface AlertEvent {
  targetId: string
  /** Last state of the alert, for reporting its end. */
  alert: Alert
  /** Severity in the last delivery; null before the first. */
  told: AlertSeverity | null
  startedMs: number
  endedMs: number | null
}

export interface AlertDelivery {
  id: string
  targetId: string
  atMs: number
  kind: 'alerts' | 'test'
  alerts: SentAlert[]
  /** Alerts beyond those listed. */
  more: number
  state: 'pending' | 'delivered' | 'failed'
  attempts: number
  /** Next attempt if pending. */
  nextMs: number
  /** HTTP status of the last attempt; null: no response. */
  httpStatus: number | null
  error: string | null
  doneMs: number | null
}

export interface TargetWrite {
  add?: StoredTarget
  /** Target to remove, with its events and deliveries. */
  remove?: string
  /** Encrypted with another key; skipped if changed since. */
  resealed?: readonly { id: string; before: string; sealed: string }[]
}

/** Applied in one transaction; skipped if the target was removed. */
export interface AlertWrite {
  targetId: string
  put?: readonly AlertEvent[]
  /** IDs of alerts. */
  drop?: readonly string[]
  delivery?: AlertDelivery
}

export interface AlertStore {
  /** Oldest first. */
  readTargets(): Promise<StoredTarget[]>
  changeTargets<T>(by: Actor, decide: (targets: StoredTarget[]) => Decided<TargetWrite, T>): Promise<T>
  readEvents(targetId: string): Promise<AlertEvent[]>
  /** Newest first. */
  readDeliveries(query: { targetId?: string; before?: string; limit: number }): Promise<AlertDelivery[]>
  readPending(): Promise<AlertDelivery[]>
  /** Only the newest deliveries are kept. False if the target was removed. */
  write(what: AlertWrite): Promise<boolean>
}
