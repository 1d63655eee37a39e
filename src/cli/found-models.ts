/** The models of an upstream, as it lists them; or those that were named, where it has no list that is any use. */
import { type Discovered, matches, toDiscovered } from '../catalog/discover.ts'
import { closest } from '../catalog/entry.ts'
import type { KnownProviders } from '../catalog/known.ts'
import type { Provider } from '../catalog/providers.ts'
import type { ListedModel } from '../domain/listed-model.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { listModels } from '../server/model-lists.ts'
import { CommandError } from './command-error.ts'
import { toPrintable } from './io.ts'

export interface FindOptions {
  provider: Pick<Provider, 'known'> | null
  vendor: string
  known: KnownProviders
  patterns: readonly string[]
}

/** Throws `list_failed`, and `model_not_found` for a name or a pattern that nothing fits. */
export async function findModels(upstream: Upstream, options: FindOptions): Promise<Discovered> {
  const { patterns, provider, vendor, known } = options
  const notes: string[] = []
  const listed = await listModels(upstream).catch((error): ListedModel[] => {
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
    throw new CommandError(
      'no_models',
      `${[...found.notes, `${id} has no model that could be added`].join(' ')}. Nothing was changed.`,
    )
  return { ...found, notes: [...notes, ...found.notes] }
}

const isWithoutList = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.failure.kind === 'list_failed' && error.failure.why !== 'credential'

function requireFit(pattern: string, listed: readonly ListedModel[], vendor: string): void {
  const names = listed.flatMap(({ id }) => [id, `${vendor}/${id}`])
  if (names.some((name) => matches(pattern, name))) return
  throw new CommandError(
    'model_not_found',
    `None of the ${listed.length} models that are listed there fits '${toPrintable(pattern)}'${closest(pattern, names.slice(0, 2_000))}. Nothing was changed.`,
  )
}
