/** Undoes one version and keeps later changes. */
import { toEntryName } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import {
  type CatalogLayers,
  type EntryOf,
  type Kind,
  mapKinds,
  mergeLayers,
  NAMES,
  NO_LAYERS,
  toKey,
} from '../store/catalog-layers.ts'
import type { CatalogRows, ModelRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { isSameEntry, type Permit, type Reverted, readVersion, showVersion } from './apply.ts'
import { changeCatalog, type EditBy, MAX_KEPT, requireState, toStateRevision } from './change.ts'
import { requireModel, requirePriced } from './check-edit.ts'
import { toNames } from './discover.ts'
import { KINDS } from './fields.ts'

/**
 * Restores the earlier values of the entries that a version changed, as a new version. Charges of requests don't change.
 * Throws `version_not_found`, also for the oldest kept version, and `undo_conflict` if later changes touched or need the
 * same entries.
 */
export async function undoVersion(store: ConfigStore, number: number, by: EditBy, permit?: Permit): Promise<Reverted> {
  const { layers: after } = await readVersion(store, number)
  const before = number === 1 ? NO_LAYERS : (await store.readVersion(number - 1))?.layers
  if (!before) throw oldestOf(number)
  const undoing = changeCatalog(store, by, { action: 'catalog.undo', subject: `version ${number}` }, (state) => {
    requireState(by, state)
    const conflicts: string[] = []
    const layers = mapKinds((kind) => undoKind(kind, { before, after, now: state.layers, nowMs: by.nowMs }, conflicts))
    const rows = mergeLayers(layers)
    conflicts.push(...findBroken(state.rows, rows, layers), ...findUnsound(state.rows, rows))
    if (conflicts.length > 0) throw conflictOf(number, [...new Set(conflicts)])
    permit?.(state, { layers, rows })
    return { layers, detail: { undone: number }, more: { revision: toStateRevision(state) } }
  })
  return undoing.catch(async (error) => {
    if (!(error instanceof ServiceError) || error.failure.kind !== 'undo_conflict') throw error
    const { names } = error.failure
    throw conflictOf(number, names, await findLater(store, number, names))
  })
}

/** Versions after this one that changed one of the entries, or a route of one. */
async function findLater(store: ConfigStore, number: number, names: readonly string[]): Promise<number[]> {
  const isMeant = (changed: string) => names.some((name) => changed === name || changed.startsWith(`${name}: route `))
  const later: number[] = []
  for (const version of await store.readVersions()) {
    if (version.number <= number) continue
    const { changes } = await showVersion(store, version.number)
    if (changes?.some(({ name }) => isMeant(name))) later.push(version.number)
  }
  return later
}

interface Undoing {
  before: CatalogLayers
  after: CatalogLayers
  now: CatalogLayers
  nowMs: number
}

/** Adds the names of entries that have changed since to `conflicts`. */
function undoKind<K extends Kind>(kind: K, { before, after, now, nowMs }: Undoing, conflicts: string[]): EntryOf<K>[] {
  const [was, made, is] = [before, after, now].map(
    (layers) => new Map(layers[kind].map((entry): [string, EntryOf<K>] => [toKey(kind, entry), entry])),
  ) as [Map<string, EntryOf<K>>, Map<string, EntryOf<K>>, Map<string, EntryOf<K>>]
  const next = new Map(is)
  for (const key of new Set([...was.keys(), ...made.keys()])) {
    const [old, changed, current] = [was.get(key), made.get(key), is.get(key)]
    if (isSame(old, changed) || isSame(current, old)) continue
    if (!isSame(current, changed)) {
      const entry = current ?? changed ?? old
      if (entry) conflicts.push(KINDS[kind].nameOf(entry))
    } else if (old === undefined) next.delete(key)
    else next.set(key, 'updatedMs' in old ? { ...old, updatedMs: nowMs } : old)
  }
  return [...next.values()]
}

const isSame = (one: object | undefined, other: object | undefined) =>
  one === undefined || other === undefined ? one === other : isSameEntry(one, other)

/** Remaining entries that would lose their target: routes their model or upstream, aliases their model. */
function findBroken(was: CatalogRows, is: CatalogRows, next: CatalogLayers): string[] {
  const staying = new Set(next.routes.map(NAMES.routes))
  const served = new Set(is.routes.map(NAMES.routes))
  const slugs = new Set(is.models.map(({ slug }) => slug))
  const hadModel = new Set(was.models.map(({ slug }) => slug))
  return [
    ...was.routes
      .filter((row) => staying.has(NAMES.routes(row)) && !served.has(NAMES.routes(row)))
      .map(KINDS.routes.nameOf),
    ...is.aliases.filter(({ model }) => hadModel.has(model) && !slugs.has(model)).map(KINDS.aliases.nameOf),
  ]
}

/** Models with a new problem, such as a paid route that would inherit a price of 0. */
function findUnsound(was: CatalogRows, is: CatalogRows): string[] {
  const upstreams = new Set(is.upstreams.filter(isChanged(was.upstreams, NAMES.upstreams)).map(({ id }) => id))
  const isRouteChanged = isChanged(was.routes, NAMES.routes)
  const routes = is.routes.filter((route) => upstreams.has(route.upstream) || isRouteChanged(route))
  const slugs = new Set([
    ...is.models.filter(isChanged(was.models, NAMES.models)).map(({ slug }) => slug),
    ...routes.map(({ model }) => model),
  ])
  const before = new Map(was.models.map((row) => [row.slug, row]))
  return is.models
    .filter((row) => slugs.has(row.slug) && !isSound(row, is) && isSound(before.get(row.slug), was))
    .map(KINDS.models.nameOf)
}

function isChanged<Row extends object>(rows: readonly Row[], nameOf: (row: Row) => string) {
  const known = new Map(rows.map((row) => [nameOf(row), row]))
  return (row: Row): boolean => !isSame(known.get(nameOf(row)), row)
}

function isSound(model: ModelRow | undefined, rows: CatalogRows): boolean {
  if (!model) return true
  try {
    requireModel(model, rows)
    requirePriced(rows, (route) => route.model === model.slug, 'pricing')
    return true
  } catch (error) {
    if (error instanceof ServiceError) return false
    throw error
  }
}

const oldestOf = (number: number) =>
  new ServiceError(
    { kind: 'version_not_found', number },
    `Can't undo version ${number}: the version before it was deleted, since only the newest ${MAX_KEPT} are kept. Edit the entries, or restore version ${number} as a whole.`,
  )

function conflictOf(number: number, names: readonly string[], later: readonly number[] = []): ServiceError {
  const [who, first] =
    later.length === 0
      ? ['later changes changed or need', 'those changes']
      : later.length === 1
        ? [`version ${later[0]} changed or needs`, 'that version']
        : [`versions ${toNames(later.map(String))} changed or need`, 'those versions']
  return new ServiceError(
    { kind: 'undo_conflict', number, names },
    `Can't undo version ${number}: ${who} ${toNames(names.map(toEntryName))}. Undo ${first} first, edit the entries, or restore an earlier version as a whole.`,
  )
}
