/** The models of an upstream, as it lists them; or those that were named, where it has no list that is any use. */
import type { ListedModel } from '../domain/listed-model.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { quote } from '../validation/explain-words.ts'
import { type Discovered, matches, toDiscovered } from './discover.ts'
import { closest } from './entry.ts'
import { type KnownProviders, loadKnown } from './known.ts'
import { findByAddress, findProvider, type Provider } from './providers.ts'

/** Asks the upstream for its list. Throws `list_failed`. */
export type AskModels = () => Promise<ListedModel[]>

export interface FindOptions {
  provider: Pick<Provider, 'known'> | null
  vendor: string
  known: KnownProviders
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

/** Throws `list_failed`, and `invalid` for a name or a pattern that nothing fits. */
export async function findModels(upstream: Asked, options: FindOptions): Promise<Discovered> {
  const { ask, patterns, provider, vendor, known } = options
  const notes: string[] = []
  const listed = await ask().catch((error): ListedModel[] => {
    const isNamed = patterns.length > 0 && patterns.every((pattern) => !pattern.includes('*'))
    if (!isNamed || !isWithoutList(error)) throw error
    notes.push(`It has no list of models that could be read, so they are taken as they were named. ${error.message}`)
    return patterns.map((id) => ({ id }))
  })
  const { id, dialect, local } = upstream
  const found = toDiscovered(listed, {
    upstream: id,
    dialect,
    vendor,
    provider: provider?.known ?? null,
    local,
    known,
    patterns,
  })
  for (const pattern of patterns) requireFit(pattern, listed, vendor)
  if (found.models.length === 0)
    throw new ServiceError(
      { kind: 'list_failed', why: 'none' },
      `${[...found.notes, `${id} has no model that could be added`].join(' ')}. Nothing was changed.`,
    )
  return { ...found, notes: [...notes, ...found.notes] }
}

const isWithoutList = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.failure.kind === 'list_failed' && error.failure.why !== 'credential'

function requireFit(pattern: string, listed: readonly ListedModel[], vendor: string): void {
  const names = listed.flatMap(({ id }) => [id, `${vendor}/${id}`])
  if (names.some((name) => matches(pattern, name))) return
  throw new ServiceError(
    { kind: 'invalid', field: 'models' },
    `None of the ${listed.length} models that are listed there fits ${quote(pattern)}${closest(pattern, names.slice(0, 2_000))}. Nothing was changed.`,
  )
}
