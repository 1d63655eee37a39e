/**
 * Upstreams that owners manage. A stored credential stays bound to its URL: a new URL needs the credential again.
 * Variables can't be referenced here.
 */

import { type FieldChanges, toChanged, toDefined } from '../domain/changes.ts'
import type { Deadlines } from '../domain/deadlines.ts'
import { type DialectName, isBuiltIn } from '../domain/dialects.ts'
import { isLimit, type Limits } from '../domain/limits.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isWhole, type ModelEntry, mergeLayers, NO_LAYERS, type UpstreamEntry } from '../store/catalog-layers.ts'
import type { SealedCredential, UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { isReference, isSameCredentialBinding } from '../store/credential-binding.ts'
import { CLEARED, type Vault } from '../store/vault.ts'
import { type AddDetails, type Added, type Chosen, withChosen } from './add-models.ts'
import {
  changeCatalog,
  type Decision,
  type Edit,
  type EditBy,
  type Edited,
  editCatalog,
  requireUpstreamRow,
  toState,
} from './change.ts'
import { requirePriced, requireSoundUpstream } from './check-edit.ts'
import { toPresetDialect } from './complete.ts'
import { findUpstream, isSame, requireOwn, withEntry } from './edit.ts'
import { isUpstreamId } from './entry.ts'
import { type LookUp, type Resolved, requireAddress, resolveHosts } from './remote.ts'

export interface UpstreamDeps {
  store: ConfigStore
  vault: Pick<Vault, 'seal' | 'requireCurrent'>
  /** Null for the data folder's owner, who may use any address and variable. */
  lookUp: LookUp | null
}

/** Omitted fields don't change. */
export interface UpstreamChanges {
  /** null = none. It implies the dialect. */
  preset?: string | null
  /** null = the preset's. */
  baseUrl?: string | null
  /** One or several credentials; null for none. */
  apiKey?: string | readonly string[] | null
  /** A variable that holds the credential. */
  variable?: string
  local?: boolean
  enabled?: boolean
  /** null = no limit. */
  limits?: Partial<Limits>
  /** ms; null = default. */
  deadlines?: FieldChanges<Deadlines>
}

export interface WantedUpstream extends UpstreamChanges {
  id: string
  dialect?: DialectName
}

/** @throws `invalid` with the field, `upstream_exists`. */
export const checkNewUpstream = async (deps: UpstreamDeps, wanted: WantedUpstream, by: EditBy): Promise<UpstreamRow> =>
  (await prepareNew(deps, wanted, { ...by, isPlan: true })).row

async function prepareNew(deps: UpstreamDeps, { id, dialect: said, ...changes }: WantedUpstream, by: EditBy) {
  if (!isUpstreamId(id)) throw invalid('id', "use up to 64 lowercase letters, digits, '-', '_' and '.'.")
  const dialect = said ?? toPresetDialect(changes.preset ?? undefined)
  if (!said && !changes.preset) throw invalid('dialect', 'set a dialect or a preset.')
  if (changes.preset && dialect !== toPresetDialect(changes.preset))
    throw invalid('dialect', "differs from its preset's. Omit it.")
  requireUnused(await deps.store.readCatalog(), id)
  const apiKeyRef = changes.variable === undefined ? null : `\${${changes.variable}}`
  const bare: UpstreamRow = {
    ...{ id, dialect, baseUrl: null, apiKeyRef: null, local: false, enabled: true, deadlines: {}, options: {} },
    ...{ origin: 'admin', createdMs: by.nowMs, updatedMs: by.nowMs },
  }
  const row = { ...withChanges(bare, changes), apiKeyRef }
  const prepared = await prepare(deps, { row, changes, before: undefined }, by)
  requireUpstream(row, undefined, prepared.resolved)
  return { row, ...prepared }
}

function requireUnused({ upstreams }: { upstreams: readonly { id: string }[] }, id: string): void {
  if (upstreams.some((other) => other.id === id))
    throw new ServiceError({ kind: 'upstream_exists', upstream: id }, `Upstream ${id} already exists.`)
}

const NO_MODELS: Chosen = { chosen: [], declared: [] }

/**
 * With its models, if any. Throws `invalid` with the field, `upstream_exists`, `secret_unusable`, `catalog_changed`.
 * @param find called before the transaction, which can't wait
 */
export async function createUpstream(
  deps: UpstreamDeps,
  wanted: WantedUpstream,
  by: EditBy,
  find: (row: UpstreamRow) => Promise<Chosen> = async () => NO_MODELS,
): Promise<Added> {
  const { row, resolved, sealed } = await prepareNew(deps, wanted, by)
  const { id } = row
  const models = await find(row)
  return changeCatalog(
    deps.store,
    by,
    { action: 'upstreams.create', subject: id },
    ({ layers, rows }): Decision<AddDetails> => {
      requireUnused(rows, id)
      requireUpstream(row, undefined, resolved)
      const added = withChosen(toState(withEntry(layers, 'upstreams', row)), id, models, by.nowMs)
      if (sealed === undefined || sealed.length === 0) return added
      deps.vault.requireCurrent(sealed)
      const after = { api_key: toStoredLabel(sealed) }
      const aside = { name: `upstreams.${id}`, origin: row.origin, before: {}, after }
      return { ...added, credentials: [{ id, sealed }], aside }
    },
  )
}

/**
 * A new URL removes the credential unless a new one is given; until then the upstream is not configured. Throws
 * `invalid`, `upstream_not_found`, `catalog_changed`, `secret_unusable`.
 */
export async function editUpstream(
  deps: UpstreamDeps,
  id: string,
  changes: UpstreamChanges,
  by: EditBy,
): Promise<Edited> {
  const { store } = deps
  const current = findUpstream(await store.readCatalog(), id)
  const expected = withChanges(current, changes)
  const { resolved, sealed } = await prepare(deps, { row: expected, changes, before: current }, by)
  return editCatalog(store, by, { action: 'upstreams.edit', subject: id }, ({ layers, rows }, readSealed): Edit => {
    if (sealed !== undefined && sealed.length > 0) deps.vault.requireCurrent(sealed)
    const before = findUpstream(rows, id)
    const held = readSealed().filter((one) => one.id === id)
    requireUpstreamRow(by, before, held)
    const isMoving = !isSameCredentialBinding(before, expected)
    const own = layers.upstreams.find((entry) => entry.id === id && entry.origin === 'admin')
    const entry: UpstreamEntry = {
      ...withEdit(
        own ?? { id, origin: 'admin' },
        changes.variable === undefined ? changes : { ...placeOf(expected), ...changes },
      ),
      ...(sealed !== undefined || isMoving ? { apiKeyRef: null } : {}),
      ...(changes.variable === undefined ? {} : { apiKeyRef: `\${${changes.variable}}` }),
      updatedMs: by.nowMs,
    }
    const after = toState(withEntry(layers, 'upstreams', entry))
    const row = findUpstream(after.rows, id)
    if (!isSameCredentialBinding(row, expected)) throw meanwhile(id)
    requireUpstream(row, before, resolved)
    const credential = changes.variable === undefined ? toCredential(before, held, isMoving, sealed) : null
    const isUnchanged = isSame(before, row)
    if (isUnchanged && credential === null) return { layers }
    if (before.local && !row.local) requirePriced(after.rows, ({ upstream }) => upstream === id, 'local')
    const { write = [], aside = null } = credential ?? {}
    return { layers: isUnchanged ? layers : after.layers, credentials: write, aside }
  })
}

/**
 * Deletes an administrator's upstream, its routes, and discovered models without other routes or aliases. Throws
 * `upstream_not_found`, and `declared_elsewhere` for others, which would come back.
 */
export function deleteUpstream(store: ConfigStore, id: string, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'upstreams.delete', subject: id }, ({ layers, rows }, readSealed): Edit => {
    requireUpstreamRow(by, findUpstream(rows, id), readSealed())
    requireOwn(
      layers.upstreams.filter((entry) => entry.id === id),
      `The upstream ${id}`,
    )
    const leading = new Set(layers.routes.flatMap(({ upstream, model }) => (upstream === id ? model : [])))
    const elsewhere = new Set(layers.routes.flatMap(({ upstream, model }) => (upstream === id ? [] : model)))
    const named = new Set(rows.aliases.map(({ model }) => model))
    const isGone = (slug: string) => leading.has(slug) && !elsewhere.has(slug) && !named.has(slug)
    const isFound = ({ origin }: ModelEntry) => origin === 'discovered'
    const staying = new Set(layers.models.flatMap((row) => (isWhole('models', row) && !isFound(row) ? row.slug : [])))
    return {
      layers: {
        ...layers,
        upstreams: layers.upstreams.filter((entry) => entry.id !== id),
        // Manual settings, such as a price, must not apply to another model found later under the name.
        models: layers.models.filter((row) => !isGone(row.slug) || (!isFound(row) && staying.has(row.slug))),
        routes: layers.routes.filter(({ upstream }) => upstream !== id),
      },
    }
  })
}

const withChanges = (row: UpstreamRow, changes: UpstreamChanges): UpstreamRow =>
  mergeLayers({
    ...NO_LAYERS,
    upstreams: [{ ...row, origin: 'file' }, withEdit({ id: row.id, origin: 'admin' }, changes)],
  }).upstreams[0] ?? row

/** Sets the address along with a variable, which must not be sent to an address that a file sets later. */
const placeOf = ({ baseUrl, options }: UpstreamRow): UpstreamChanges => ({ baseUrl, preset: options.preset ?? null })

/** A complete entry has no layer below, so removes cleared fields. */
function withEdit(entry: UpstreamEntry, changes: UpstreamChanges): UpstreamEntry {
  const { preset, baseUrl, local, enabled, limits, deadlines } = changes
  const own = toDefined({
    dialect: typeof preset === 'string' ? toPresetDialect(preset) : undefined,
    baseUrl: baseUrl === undefined ? undefined : (baseUrl?.replace(/\/+$/, '') ?? null),
    ...{ local, enabled },
  })
  const given = { options: toDefined({ preset, ...limits }), deadlines: deadlines ?? {} }
  if (isWhole('upstreams', entry))
    return {
      ...{ ...entry, ...own },
      options: toChanged(entry.options, given.options),
      deadlines: toChanged(entry.deadlines, given.deadlines),
    }
  const options = { ...entry.options, ...given.options }
  const times = { ...entry.deadlines, ...given.deadlines }
  return {
    ...{ ...entry, ...own },
    ...(Object.keys(options).length > 0 ? { options } : {}),
    ...(Object.keys(times).length > 0 ? { deadlines: times } : {}),
  }
}

/** Before the transaction, which can't wait. `sealed`: empty = none, undefined = no change. */
async function prepare(
  { vault, lookUp }: UpstreamDeps,
  wanted: { row: UpstreamRow; changes: UpstreamChanges; before: UpstreamRow | undefined },
  by: EditBy,
) {
  const {
    row,
    before,
    changes: { apiKey },
  } = wanted
  const given = apiKey === undefined ? undefined : [apiKey ?? []].flat().map((text) => text.trim())
  requireCredentials(row, given)
  const resolved = lookUp && (await resolveHosts([row], lookUp))
  if (given === undefined || given.length === 0) return { resolved, sealed: given }
  // A rejected row must create no key file.
  requireUpstream(row, before, resolved)
  // Planning must not create an encryption key.
  const sealed = await Promise.all(given.map((text) => (by.isPlan ? CLEARED : vault.seal(text, row))))
  return { resolved, sealed }
}

function requireUpstream(row: UpstreamRow, before: UpstreamRow | undefined, resolved: Resolved | null): void {
  if (!isBuiltIn(row) && row.baseUrl === null && row.options.preset === undefined && row.options.process === undefined)
    throw invalid('base_url', 'set a URL, such as https://api.openai.com/v1.')
  requireSoundUpstream(row, toField)
  if (resolved) requireAddress(row, before, resolved, 'base_url')
}

/** Converts a file's field name to the API's. */
const toField = (path: string) =>
  (isLimit(path) ? `limits.${path}` : path.replace(/^deadlines\.\w+$/, '$&_ms')) || 'base_url'

const invalid = (field: string, rule: string) =>
  new ServiceError({ kind: 'invalid', field }, `Invalid ${field}: ${rule}`)

const meanwhile = (id: string) =>
  new ServiceError({ kind: 'catalog_changed' }, `Upstream ${id} was changed by someone else. Review it and try again.`)

/** Valid in a header without encoding (RFC 9110, section 5.5). */
const CREDENTIAL = /^[\x21-\x7e]{1,4000}$/

/** @throws `invalid`. */
function requireCredentials(upstream: UpstreamRow, given: readonly string[] = []): void {
  if (given.length > 0 && isBuiltIn(upstream)) throw invalid('api_key', 'the demo needs no credential.')
  for (const text of given) {
    if (isReference(text))
      throw invalid(
        'api_key',
        'only the catalog file and commands can reference variables and files of the server. Enter the credential itself.',
      )
    if (!CREDENTIAL.test(text))
      throw invalid('api_key', 'a credential must be 1 to 4000 printable ASCII characters without spaces.')
  }
}

/** Shown in place of a stored credential; references are shown as they are. */
export const STORED = 'stored'

export const toStoredLabel = ({ length }: readonly unknown[]) => (length === 1 ? STORED : `${length} ${STORED}`)

/** Null without a change. */
function toCredential(
  { id, apiKeyRef, origin }: UpstreamRow,
  held: readonly SealedCredential[],
  isMoving: boolean,
  sealed: readonly string[] | undefined,
) {
  const isCleared = held.some((one) => one.sealed === CLEARED)
  const had = apiKeyRef ?? (held.length === 0 ? undefined : isCleared ? 'missing' : toStoredLabel(held))
  const before = had === undefined ? {} : { api_key: had }
  const tell = (after: object, write: { id: string; sealed: readonly string[] }[]) => ({
    aside: { name: `upstreams.${id}`, origin, before, after: { ...after } },
    write,
  })
  if (sealed?.length === 0) return had === undefined ? null : tell({}, [{ id, sealed }])
  if (sealed !== undefined) {
    const told = toStoredLabel(sealed)
    return tell({ api_key: had === told ? `${told} (replaced)` : told }, [{ id, sealed }])
  }
  if (!isMoving || had === undefined) return null
  return tell({ api_key: 'missing' }, [{ id, sealed: [CLEARED] }])
}
