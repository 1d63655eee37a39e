/**
 * Upstreams that owners set up by hand, with credentials that they type in. Where an upstream moves, its credential does not: whoever
 * moves it has to have it. References to variables are neither set here nor kept for another address.
 */

import { type FieldChanges, toChanged, toDefined } from '../domain/changes.ts'
import type { Deadlines } from '../domain/deadlines.ts'
import { type DialectName, isBuiltIn } from '../domain/dialects.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { isSameCredentialPlace } from '../store/credential-place.ts'
import { CLEARED, type Vault } from '../store/vault.ts'
import { toPresetDialect } from './complete.ts'
import { type Decision, type EditBy, type Edited, editCatalog, NO_WRITE, requireRow, requireValid } from './edit.ts'
import { isUpstreamId } from './entry.ts'
import { findUpstream } from './find.ts'
import { requirePriced } from './priced.ts'
import { type LookUp, type Resolved, requireAddress, resolveHosts } from './remote.ts'
import { isSameRow, NO_ROWS, toRowsAfter } from './states.ts'
import { requireCredentials, toCredential, toTold } from './typed-in.ts'

export interface UpstreamDeps {
  store: ConfigStore
  vault: Pick<Vault, 'seal' | 'requireCurrent'>
  /** Null where whoever asks may name any address, and variables: the owner of the data folder. */
  lookUp: LookUp | null
}

/** What is left out stays as it is. */
export interface UpstreamChanges {
  /** null = none. It says the dialect. */
  preset?: string | null
  /** null = as its preset has it. */
  baseUrl?: string | null
  /** The credential itself, or several; null for none. */
  apiKey?: string | readonly string[] | null
  /** A variable that has it. */
  variable?: string
  local?: boolean
  enabled?: boolean
  /** null = no limit. */
  limits?: { rpm?: number | null; tpm?: number | null; concurrency?: number | null }
  /** ms; null = as by default. */
  deadlines?: FieldChanges<Deadlines>
}

/**
 * Makes an upstream. Throws `invalid` with the field, `upstream_exists`, `secret_unusable`.
 */
export async function createUpstream(
  deps: UpstreamDeps,
  { id, dialect: said, ...changes }: UpstreamChanges & { id: string; dialect?: DialectName },
  by: EditBy,
): Promise<Edited> {
  if (!isUpstreamId(id)) throw invalid('id', "use lower-case letters, digits, '-', '_' and '.', at most 64.")
  const dialect = said ?? toPresetDialect(changes.preset ?? undefined)
  if (!said && !changes.preset) throw invalid('dialect', 'it is missing: name one, or a preset that says it.')
  if (changes.preset && dialect !== toPresetDialect(changes.preset))
    throw invalid('dialect', 'its preset is of another one: leave it out.')
  const times = { createdMs: by.nowMs, updatedMs: by.nowMs }
  const bare: UpstreamRow = {
    ...{ id, dialect, baseUrl: null, apiKeyRef: null, local: false, enabled: true, deadlines: {}, options: {} },
    ...{ origin: 'admin', ...times },
  }
  const row = withChanges(bare, changes)
  const { resolved, sealed } = await prepare(deps, { row, changes, before: undefined }, by)
  return editCatalog(deps.store, by, { action: 'upstreams.create', subject: id }, (rows) => {
    if (rows.upstreams.some((other) => other.id === id))
      throw new ServiceError({ kind: 'upstream_exists', upstream: id }, `There is an upstream ${id} already.`)
    requireUpstream(row, undefined, resolved)
    const write = { ...NO_WRITE, upstreams: { ...NO_WRITE.upstreams, create: [row] } }
    if (sealed === undefined || sealed.length === 0) return { write }
    deps.vault.requireCurrent(sealed)
    const aside = { name: `upstreams.${id}`, origin: row.origin, before: {}, after: { api_key: toTold(sealed) } }
    return { write: { ...write, credentials: [{ id, sealed }] }, aside }
  })
}

/**
 * Changes an upstream, which becomes the administrator's. One that moves loses its credential, unless another one comes with it; until
 * then it is not ready. Throws `invalid`, `upstream_not_found`, `catalog_changed`, `secret_unusable`.
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
  const held = (await store.readSealed()).filter((one) => one.id === id)
  return editCatalog(store, by, { action: 'upstreams.edit', subject: id }, (rows) => {
    if (sealed !== undefined && sealed.length > 0) deps.vault.requireCurrent(sealed)
    const before = findUpstream(rows, id)
    requireRow(by, 'upstreams', before)
    const isMoving = !isSameCredentialPlace(before, expected)
    const changed = withChanges(before, changes)
    if (!isSameCredentialPlace(changed, expected)) throw meanwhile(id)
    const apiKeyRef = sealed !== undefined || isMoving ? null : before.apiKeyRef
    const own = changes.variable === undefined ? apiKeyRef : `\${${changes.variable}}`
    const row: UpstreamRow = { ...changed, apiKeyRef: own, origin: 'admin', updatedMs: by.nowMs }
    requireUpstream(row, before, resolved)
    const credential = changes.variable === undefined ? toCredential(before, held, isMoving, sealed) : null
    const isSame = isSameRow({ ...before, origin: 'admin' }, row)
    if (isSame && credential === null) return { write: NO_WRITE }
    const update = isSame && before.origin === 'admin' ? [] : [row]
    const write = { ...NO_WRITE, upstreams: { ...NO_WRITE.upstreams, update } }
    if (before.local && !row.local) requirePriced(toRowsAfter(rows, write), ({ upstream }) => upstream === id, 'local')
    return { write: { ...write, credentials: credential?.write ?? [] }, aside: credential?.aside ?? null }
  })
}

/**
 * Deletes an upstream that an administrator has made, with the routes that lead to it, and the models that were found there and lead
 * nowhere else, unless an alias stands for one. Throws `upstream_not_found`, and
 * `declared_elsewhere` for one that is not an administrator's: it would come back.
 */
export function deleteUpstream(store: ConfigStore, id: string, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'upstreams.delete', subject: id }, (rows): Decision => {
    const row = findUpstream(rows, id)
    requireRow(by, 'upstreams', row)
    requireOwn(row, `The upstream ${id}`)
    const routes = rows.routes.filter(({ upstream }) => upstream === id)
    const models = rows.models.filter(
      ({ slug, origin }) =>
        origin === 'discovered' &&
        routes.some(({ model }) => model === slug) &&
        !rows.routes.some(({ model, upstream }) => model === slug && upstream !== id) &&
        !rows.aliases.some(({ model }) => model === slug),
    )
    return {
      write: {
        ...NO_WRITE,
        models: { ...NO_WRITE.models, delete: models },
        upstreams: { ...NO_WRITE.upstreams, delete: [row] },
        routes: { ...NO_WRITE.routes, delete: routes },
      },
    }
  })
}

/** Throws `declared_elsewhere` where a row would come back that is deleted. */
export function requireOwn({ origin }: Pick<UpstreamRow, 'origin'>, what: string): void {
  if (origin === 'admin') return
  throw new ServiceError(
    { kind: 'declared_elsewhere', origin },
    `${what} is declared elsewhere (${origin}), and would come back: disable it instead.`,
  )
}

function withChanges(row: UpstreamRow, changes: UpstreamChanges): UpstreamRow {
  const { preset, baseUrl, local, enabled, limits, deadlines } = changes
  return {
    ...row,
    dialect: typeof preset === 'string' ? toPresetDialect(preset) : row.dialect,
    baseUrl: baseUrl === undefined ? row.baseUrl : (baseUrl?.replace(/\/+$/, '') ?? null),
    local: local ?? row.local,
    enabled: enabled ?? row.enabled,
    options: toChanged(row.options, toDefined({ preset, ...limits })),
    deadlines: toChanged(row.deadlines, deadlines ?? {}),
  }
}

/** What cannot be done within a transaction. `sealed`: none for none, undefined where nothing is said of credentials. */
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
  // Before anything is sealed: a row that is refused makes no file.
  requireUpstream(row, before, resolved)
  // A plan writes nothing.
  const sealed = await Promise.all(given.map((text) => (by.isPlan ? CLEARED : vault.seal(text, row))))
  return { resolved, sealed }
}

function requireUpstream(row: UpstreamRow, before: UpstreamRow | undefined, resolved: Resolved | null): void {
  if (!isBuiltIn(row) && row.baseUrl === null && row.options.preset === undefined && row.options.process === undefined)
    throw invalid('base_url', 'it is missing: such as https://api.openai.com/v1.')
  requireValid({ ...NO_ROWS, upstreams: [row] }, ['upstreams', row.id], toField)
  if (resolved) requireAddress(row, before, resolved, 'base_url')
}

/** A file has limits side by side with the rest, and times as words. */
const toField = (path: string) =>
  path.replace(/^(rpm|tpm|concurrency)$/, 'limits.$1').replace(/^deadlines\.\w+$/, '$&_ms') || 'base_url'

const invalid = (field: string, rule: string) =>
  new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${rule}`)

const meanwhile = (id: string) =>
  new ServiceError({ kind: 'catalog_changed' }, `The upstream ${id} was changed meanwhile. Look at it, and try again.`)
