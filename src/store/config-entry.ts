/**
 * A change of the configuration as plain JSON. Applied in order, entries give the same rows on every node of a cluster, because generated values such as IDs are
 * in the entry. A single node applies its entries at once.
 */
import type { Origin } from '../domain/models.ts'
import type { AlertWrite, TargetWrite } from './alert-store.ts'
import type { CatalogLayers, EntryOf, Kind } from './catalog-layers.ts'
import type { CatalogVersion, CatalogWrite } from './catalog-rows.ts'
import type { AuditRow, KeyWrite, SettingsWrite } from './config-store.ts'
import type { IdentityWrite } from './identity-store.ts'

/** Layers as differences, since a catalog may have megabytes. */
export interface CatalogEdit extends Omit<CatalogWrite, 'layers' | 'versions'> {
  entries?: CatalogChanges
  /** `before` and `after` this change, or other layers. */
  versions?: readonly (CatalogVersion & { layers: CatalogLayers | 'before' | 'after' })[]
}

export type CatalogChanges = { [K in Kind]: EntryChanges<K> }

export interface EntryChanges<K extends Kind> {
  /** Whole rows. New rows are added at the end, in this order. */
  put: EntryOf<K>[]
  remove: { name: string; origin: Origin }[]
}

export interface SessionWrite {
  seen?: { id: string; seenMs: number }
  /** Removes sessions begun, or last used, before. */
  forget?: { createdMs: number; seenMs: number }
}

/** A change by retention. */
export interface RemovalWrite {
  /** IDs of keys, and the time before which all had ended. */
  keys?: { ids: readonly string[]; fromMs: number }
  /** Removes entries with IDs below this. */
  audit?: string
}

export interface EntryWrites {
  keys: KeyWrite
  catalog: CatalogEdit
  settings: SettingsWrite
  identity: IdentityWrite
  sessions: SessionWrite
  targets: TargetWrite
  alerts: AlertWrite
  removal: RemovalWrite
}

export type EntryKind = keyof EntryWrites

export interface EntryOfKind<K extends EntryKind> {
  kind: K
  nowMs: number
  settings: SettingsWrite
  /** null: only settings. */
  write: EntryWrites[K] | null
  audit: AuditRow | null
}

export type ConfigEntry = { [K in EntryKind]: EntryOfKind<K> }[EntryKind]
