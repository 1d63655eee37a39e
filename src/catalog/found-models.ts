/** The models of an upstream, as it lists them; or those that were named, where it has no list that is any use. */
import type { ListedModel } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { quote } from '../validation/explain.ts'
import { type Discovered, toDiscovered } from './discover.ts'
import { closest } from './entry.ts'
import { findAt, type KnownProviders, loadKnown } from './known.ts'
import { findByAddress, findProvider, type Provider } from './providers.ts'
import { fits, toSlug, toWish, type Wish } from './wishes.ts'

/** Asks the upstream for its list. Throws `list_failed`. */
export type AskModels = () => Promise<ListedModel[]>

export interface FindOptions {
  provider: Pick<Provider, 'name' | 'known' | 'modelList'> | null
  vendor: string
  known: KnownProviders
  /** Names or patterns, or `NAME=SLUG`; none = all that chat. */
  patterns: readonly string[]
  ask: AskModels
}

type Asked = Pick<UpstreamRow, 'id' | 'dialect' | 'local'>

/** Finds the models of an upstream that there is. Throws as `findModels` does. */
export async function findMore(
  row: Asked & Pick<UpstreamRow, 'baseUrl' | 'options'>,
  options: Pick<FindOptions, 'patterns' | 'ask'>,
): Promise<Discovered> {
  const known = await loadKnown()
  const { preset } = row.options
  const provider = preset === undefined ? findByAddress(known, row.baseUrl ?? '') : findProvider(known, preset)
  return findModels(row, { ...options, provider, vendor: provider?.vendor ?? row.id, known })
}

/** Throws `list_failed`, and `invalid` for a name or a pattern that nothing fits, or where only the operator knows the names. */
export async function findModels(upstream: Asked, options: FindOptions): Promise<Discovered> {
  const { ask, provider, vendor, known } = options
  const wishes = options.patterns.map(toWish)
  const isNamed = wishes.length > 0 && wishes.every(({ pattern }) => !pattern.includes('*'))
  const modelList = provider?.modelList ?? null
  if (modelList === 'not_deployed' && !isNamed) throw notDeployed(provider?.name ?? upstream.id)
  const notes: string[] = []
  const read = await ask().catch((error): null => {
    if (!isNamed || !isWithoutList(error)) throw error
    notes.push(`It has no list of models that could be read, so they are taken as they were named. ${error.message}`)
    return null
  })
  const isRead = read !== null && modelList !== 'not_deployed'
  const listed = isRead ? read : wishes.map((wish) => ({ id: toOwnName(wish, options) }))
  for (const wish of wishes) requireFit(wish, isRead ? listed : null, vendor)
  const { id, dialect, local } = upstream
  const found = toDiscovered(listed, {
    upstream: id,
    dialect,
    vendor,
    provider: provider?.known ?? null,
    ...{ modelList, local, known },
    wishes,
  })
  if (found.models.length === 0)
    throw new ServiceError(
      { kind: 'list_failed', why: 'none' },
      `${[...found.notes, `${id} has no model that could be added`].join(' ')}. Nothing was changed.`,
    )
  return { ...found, notes: [...notes, ...found.notes] }
}

const notDeployed = (name: string) =>
  new ServiceError(
    { kind: 'invalid', field: 'models' },
    `${name} lists what may be deployed, and not what is: name each deployment, and the model that it is of, as --models NAME=SLUG, such as --models chat=openai/gpt-4o. Nothing was changed.`,
  )

const isWithoutList = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.failure.kind === 'list_failed' && error.failure.why !== 'credential'

/** What the provider calls a model that was named, perhaps by its slug. */
function toOwnName({ pattern, slug }: Wish, { provider, vendor, known }: FindOptions): string {
  if (slug !== null || provider === null || !pattern.startsWith(`${vendor}/`)) return pattern
  const rest = pattern.slice(vendor.length + 1)
  const isKnown = (name: string) => findAt(known, provider.known, name) !== undefined
  return isKnown(rest) && !isKnown(pattern) ? rest : pattern
}

/** @param listed null where there is no list. */
function requireFit(wish: Wish, listed: readonly ListedModel[] | null, vendor: string): void {
  const { pattern } = wish
  const at = wish.slug === null && !listed?.some(({ id }) => id === pattern) ? pattern.lastIndexOf('=') : -1
  if (at >= 0)
    throw new ServiceError(
      { kind: 'invalid', field: 'models' },
      `In ${quote(pattern)}, ${quote(pattern.slice(at + 1))} is no name of a model here, which is such as openai/gpt-4o. Nothing was changed.`,
    )
  if (listed === null) return
  const all = listed.map(({ id }) => ({ id, slug: toSlug(id, vendor) }))
  if (all.some(({ id, slug }) => fits(wish, id, slug))) return
  const names = all.slice(0, 1_000).flatMap(({ id, slug }) => (slug === null ? [id] : [id, slug]))
  throw new ServiceError(
    { kind: 'invalid', field: 'models' },
    `None of the ${listed.length} models that are listed there fits ${quote(pattern)}${closest(pattern, names)}. Nothing was changed.`,
  )
}
