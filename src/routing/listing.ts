/**
 * What lists of models show a key: each model and each alias that the catalogue does not hide and the key may use. Of the
 * models that a wildcard stands for, which nobody chose one by one, only those with an upstream that has what a call needs.
 * What is the same for all keys is worked out once for each snapshot, when it is first asked for. Pure.
 */
import type { CatalogModel, Key, Snapshot, Target } from '../domain/snapshot.ts'
import { usableTargets } from './access.ts'

/** A name by which a model is listed. It lives as long as its snapshot. */
export interface ListedName {
  id: string
  model: CatalogModel
  /** Whether it is another name than the model's own. */
  isAlias: boolean
}

const listings = new WeakMap<Snapshot, readonly ListedName[]>()

/** All names that are listed for some key, in order. */
export const listedNames = (snapshot: Snapshot): readonly ListedName[] =>
  listings.getOrInsertComputed(snapshot, toListedNames)

function toListedNames({ models, aliases }: Snapshot): readonly ListedName[] {
  const names: ListedName[] = []
  for (const [id, model] of models) {
    // Where both have the name, the alias is what is found by it.
    if (model.listed && !aliases.has(id)) names.push({ id, model, isAlias: false })
  }
  for (const [id, alias] of aliases) {
    const model = models.get(alias.model)
    if (model && alias.listed) names.push({ id, model, isAlias: true })
  }
  return names.sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** The targets by which a key may use a listed model; null where it is not listed for this key. */
export function listedTargets(key: Key, { model, isAlias }: ListedName): Target[] | null {
  const targets = usableTargets(key, model)
  if (targets === null || isAlias || !model.fromWildcard) return targets
  return targets.some(({ upstream }) => upstream.notReady === null) ? targets : null
}
