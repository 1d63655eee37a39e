/** The contract of a store of alert targets, what each was told, and deliveries. Changes of targets work as in `config-store.ts`, without a revision. */
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
  /** null: all, including later ones. */
  topics: AlertTopic[] | null
  createdMs: number
}

/** An alert of a target, from its start until its end was put into a delivery. */
export interface AlertEvent {
  targetId: string
  /** In its last state, for its end. */
  alert: Alert
  /** Last put into a delivery; null: not yet. */
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
  /** With its events and deliveries. */
  remove?: string
  /** With another key; skipped if changed since. */
  resealed?: readonly { id: string; before: string; sealed: string }[]
}

/** In one transaction, skipped if the target is gone. */
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
  /** Only the newest deliveries are kept. False if the target is gone. */
  write(what: AlertWrite): Promise<boolean>
}
