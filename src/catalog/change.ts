/**
 * The only way to change the catalog: decided over its layers, then planned, or written with an audit row and a
 * version. Changes are differences of the effective rows.
 */
import type { AuditAction } from '../domain/changes.ts'
import { type Difference, requireRevision, toDifference, toRevision } from '../domain/changes.ts'
import type { Effect } from '../domain/effects.ts'
import type { Origin } from '../domain/models.ts'
import {
  type CatalogLayers,
  type EntryOf,
  KIND_NAMES,
  type Kind,
  mergeLayers,
  NAMES,
  NO_LAYERS,
  toKey,
} from '../store/catalog-layers.ts'
import type {
  CatalogHistory,
  CatalogRows,
  CatalogVersion,
  CatalogWrite,
  KeptCatalog,
  SealedCredential,
  UpstreamRow,
} from '../store/catalog-rows.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import { toUpstreamState } from '../store/vault.ts'
import { KINDS, type KindOf, withoutNull } from './fields.ts'

/** Fields are named as in files. */
export interface Change extends Difference {
  action: 'create' | 'update' | 'delete'
  /** Such as `upstreams.openai` or `models.v/m: route u (m)`. */
  name: string
  /** The row's source before the change, or of a new row. */
  origin: Origin
  /** Set only in plans. */
  effect?: Effect
}

export interface Counts {
  created: number
  updated: number
  deleted: number
  unchanged: number
}

export interface Changes extends Counts {
  changes: Change[]
}

export interface Edited extends Changes {
  /** Null without changes. */
  version: number | null
}

/** A declared row that a stronger layer overrides: `before` is in effect. */
export interface Overridden extends Difference {
  name: string
  /** The overriding layer. */
  origin: Origin
}

export interface EditBy extends Actor {
  isPlan?: boolean
}

/** `rows` are merged from `layers`. */
export interface State {
  layers: CatalogLayers
  rows: CatalogRows
}

export const toState = (layers: CatalogLayers): State => ({ layers, rows: mergeLayers(layers) })

export interface Decision<More extends object = object> extends Pick<CatalogWrite, 'prices' | 'credentials'> {
  layers: CatalogLayers
  /** A change outside the layers, reported as a field of a row. */
  aside?: Pick<Change, 'name' | 'origin' | 'before' | 'after'> | null
  settings?: Readonly<Record<string, string>>
  detail?: Readonly<Record<string, unknown>>
  /** Returned with the changes. */
  more: More
}

export type Edit = Omit<Decision, 'more'>

export interface ChangeRecord {
  action: AuditAction
  subject: string
}

/** Errors that `decide` throws reach the caller. */
export async function changeCatalog<More extends object>(
  store: ConfigStore,
  { isPlan = false, ...by }: EditBy,
  record: ChangeRecord,
  decide: (state: State, readSealed: () => SealedCredential[]) => Decision<More>,
): Promise<Edited & More> {
  if (isPlan) {
    const [layers, sealed] = await Promise.all([store.readLayers(), store.readSealed()])
    const state = toState(layers)
    const decision = decide(state, () => sealed)
    return { ...tell(state, decision), version: null, ...decision.more }
  }
  return store.changeCatalog<Edited & More>(by, (layers, history, readSealed) => {
    const state = toState(layers)
    const decision = decide(state, readSealed)
    const { settings = {}, prices = [], credentials = [], detail = {}, more } = decision
    const told = tell(state, decision)
    const isSame = isSameState(layers, decision.layers)
    if (isSame && told.changes.length === 0)
      return { value: { ...told, version: null, ...more }, settings, change: null }
    // A credential alone creates no version.
    const { version, ...kept } = isSame
      ? { version: null }
      : toVersions(layers, decision.layers, { ...by, ...record }, history)
    const write = { ...(isSame ? {} : { layers: decision.layers }), prices, credentials, ...kept }
    const change = { ...record, detail: { ...detail, version, ...toDetail(told) }, write }
    return { value: { ...told, version, ...more }, settings, change }
  })
}

export const editCatalog = (
  store: ConfigStore,
  by: EditBy,
  record: ChangeRecord,
  decide: (state: State, readSealed: () => SealedCredential[]) => Edit,
): Promise<Edited> =>
  changeCatalog(store, by, record, (state, readSealed) => ({ ...decide(state, readSealed), more: {} }))

function tell({ rows }: State, { layers, aside = null }: Pick<Decision, 'layers' | 'aside'>): Changes {
  const told = toChanges(rows, mergeLayers(layers))
  if (aside === null) return told
  const own = told.changes.find(({ name }) => name === aside.name)
  const merged: Change = {
    ...(own ?? { action: 'update', name: aside.name, origin: aside.origin }),
    before: { ...own?.before, ...aside.before },
    after: { ...own?.after, ...aside.after },
  }
  return { ...told, changes: [merged, ...told.changes.filter((change) => change !== own)] }
}

export function toChanges(before: CatalogRows, after: CatalogRows): Changes {
  const found = [
    ...compare(before.upstreams, after.upstreams, KINDS.upstreams),
    ...compare(before.models, after.models, KINDS.models),
    ...compare(before.routes, after.routes, KINDS.routes),
    ...compare(before.aliases, after.aliases, KINDS.aliases),
  ]
  const of = (action: Change['action']) => found.filter((change) => change.action === action)
  // Deletions come first, so that a long preview doesn't hide them.
  const changes = [...of('delete'), ...of('update'), ...of('create')]
  const [created, updated, deleted] = [of('create').length, of('update').length, of('delete').length]
  const total = Object.values(before).reduce((sum, rows) => sum + rows.length, 0)
  return { created, updated, deleted, unchanged: total - updated - deleted, changes }
}

function compare<Row extends { origin: Origin }>(
  before: readonly Row[],
  after: readonly Row[],
  { nameOf, fieldsOf }: KindOf<Row>,
): Change[] {
  const fields = (row: Row) => withoutNull(fieldsOf(row))
  const [was, is] = [before, after].map((rows) => new Map(rows.map((row) => [nameOf(row), row])))
  const created = after.flatMap((row): Change[] => {
    const name = nameOf(row)
    return was?.has(name) ? [] : [{ action: 'create', name, origin: row.origin, before: {}, after: fields(row) }]
  })
  const updated = after.flatMap((row): Change[] => {
    const name = nameOf(row)
    const old = was?.get(name)
    const difference = old && old !== row && toDifference(fields(old), fields(row))
    if (!difference) return []
    const owners = toDifference({ origin: old.origin }, { origin: row.origin })
    return [
      {
        ...{ action: 'update', name, origin: old.origin },
        before: { ...difference.before, ...owners?.before },
        after: { ...difference.after, ...owners?.after },
      },
    ]
  })
  const deleted = before.flatMap((row): Change[] => {
    const name = nameOf(row)
    return is?.has(name) ? [] : [{ action: 'delete', name, origin: row.origin, before: fields(row), after: {} }]
  })
  return [...created, ...updated, ...deleted]
}

export function findOverridden(rows: CatalogRows, declared: CatalogRows): Overridden[] {
  const find = <Row extends { origin: Origin }>(own: readonly Row[], wanted: readonly Row[], kind: KindOf<Row>) => {
    const counting = new Map(own.map((row) => [kind.nameOf(row), row]))
    return wanted.flatMap((row): Overridden[] => {
      const name = kind.nameOf(row)
      const counts = counting.get(name)
      if (!counts || counts.origin === row.origin) return []
      const difference = toDifference(withoutNull(kind.fieldsOf(counts)), withoutNull(kind.fieldsOf(row)))
      return difference ? [{ name, origin: counts.origin, ...difference }] : []
    })
  }
  return [
    ...find(rows.upstreams, declared.upstreams, KINDS.upstreams),
    ...find(rows.models, declared.models, KINDS.models),
    ...find(rows.routes, declared.routes, KINDS.routes),
    ...find(rows.aliases, declared.aliases, KINDS.aliases),
  ]
}

/** Manual settings of removed rows, which apply again if the rows return. */
export function findUnseen({ layers, rows }: State): string[] {
  const find = <K extends Kind>(kind: K, own: readonly EntryOf<K>[]) => {
    const seen = new Set(own.map(NAMES[kind]))
    const entries: readonly EntryOf<K>[] = layers[kind]
    return entries.flatMap((entry) =>
      entry.origin === 'admin' && !seen.has(NAMES[kind](entry)) ? KINDS[kind].nameOf(entry) : [],
    )
  }
  return [
    ...find('upstreams', rows.upstreams),
    ...find('models', rows.models),
    ...find('routes', rows.routes),
    ...find('aliases', rows.aliases),
  ]
}

export interface ToExport {
  rows: CatalogRows
  /** Upstreams with a stored credential. */
  sealed: string[]
  /** Rows with only manual settings. */
  unseen: string[]
}

export async function readExport(store: ConfigStore): Promise<ToExport> {
  const [layers, sealed] = await Promise.all([store.readLayers(), store.readSealed()])
  const state = toState(layers)
  return { rows: state.rows, sealed: [...new Set(sealed.map(({ id }) => id))], unseen: findUnseen(state) }
}

export const toUnseenNote = (name: string) =>
  `${name}: manual changes apply again once a file or a provider declares it.`

/** Ignores order and times. */
const isSameState = (one: CatalogLayers, other: CatalogLayers): boolean =>
  one === other || Bun.deepEquals(toComparable(one), toComparable(other))

const toComparable = (layers: CatalogLayers) =>
  KIND_NAMES.map((kind) =>
    Object.fromEntries(layers[kind].map((entry) => [toKey(kind, entry), { ...entry, updatedMs: 0 }])),
  )

export const MAX_KEPT = 100

/** The new version, after one for changes that an older program made without one. */
function toVersions(
  before: CatalogLayers,
  after: CatalogLayers,
  { action, subject, actor, nowMs }: Actor & Pick<CatalogVersion, 'action' | 'subject'>,
  history: CatalogHistory,
) {
  const newest = history.newest()
  const versions: KeptCatalog[] = []
  const keep = (kept: Pick<KeptCatalog, 'action' | 'subject' | 'layers'>, from: CatalogLayers) => {
    const { created, updated, deleted } = toChanges(mergeLayers(from), mergeLayers(kept.layers))
    const number = (newest?.number ?? 0) + versions.length + 1
    versions.push({ ...kept, actor, number, atMs: nowMs, created, updated, deleted })
  }
  const known = newest?.layers ?? NO_LAYERS
  if (!isSameState(known, before)) {
    const what = newest ? `changes made after ${newest.number}` : 'state before the first version'
    keep({ action: 'catalog.keep', subject: what, layers: before }, known)
  }
  keep({ action, subject, layers: after }, before)
  const version = (newest?.number ?? 0) + versions.length
  return { version, versions, oldestVersion: version - MAX_KEPT + 1 }
}

/** Maximum changes in an audit row. Versions have all changes. */
const MAX_TOLD = 100

function toDetail({ changes, created, updated, deleted }: Changes) {
  const told = changes.slice(0, MAX_TOLD)
  const side = (which: 'before' | 'after') =>
    Object.fromEntries(told.filter((one) => Object.keys(one[which]).length > 0).map((one) => [one.name, one[which]]))
  const untold = changes.length - told.length
  return {
    ...{ created, updated, deleted, before: side('before'), after: side('after') },
    ...(untold > 0 ? { untold } : {}),
  }
}

/** @throws `revision_conflict` if the catalog has changed since it was read. */
export function requireState(by: Actor, { layers, rows }: State): void {
  const size = Object.fromEntries(Object.entries(rows).map(([kind, own]) => [kind, own.length]))
  requireRevision(by, 'The catalog', layers, size)
}

/** The revision that `requireState` checks. */
export const toStateRevision = ({ layers }: State): string => toRevision(layers)

/** @throws `revision_conflict` if the row has changed since it was read. */
export function requireRow<Table extends Kind>(by: Actor, table: Table, row: CatalogRows[Table][number]): void {
  const { nameOf, fieldsOf } = KINDS[table]
  requireRevision(by, nameOf(row), row, fieldsOf(row))
}

/** @throws `revision_conflict` if the upstream or its stored credentials have changed since they were read. */
export function requireUpstreamRow(by: Actor, row: UpstreamRow, sealed: readonly SealedCredential[]): void {
  const { nameOf, fieldsOf } = KINDS.upstreams
  requireRevision(by, nameOf(row), toUpstreamState(row, sealed), fieldsOf(row))
}
