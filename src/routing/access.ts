/**
 * Which models a key may use, by which targets: its allow-list and its scope. What is asked for and what is listed go by
 * these same functions, so that every listed name can be asked for. Pure.
 */
import { matches } from '../domain/pattern.ts'
import type { CatalogModel, Key, Snapshot, Target } from '../domain/snapshot.ts'

/** The model behind a slug or alias with the targets that this key may use; null where there is none for it. */
export function visibleModel(
  snapshot: Snapshot,
  key: Key,
  asked: string,
): { model: CatalogModel; targets: Target[] } | null {
  const model = snapshot.models.get(snapshot.aliases.get(asked)?.model ?? asked)
  const targets = model ? usableTargets(key, model) : null
  return model && targets ? { model, targets } : null
}

/** The targets of a model that this key may use; null where it may not use the model. */
export function usableTargets(key: Key, model: CatalogModel): Target[] | null {
  if (!mayUse(key, model.facts.id)) return null
  if (key.scope !== 'local') return model.targets
  const local = model.targets.filter((target) => target.upstream.local)
  return local.length === 0 ? null : local
}

/** Tells whether the allow-list covers a slug; an empty one covers all. */
export function mayUse(key: Key, slug: string): boolean {
  return key.models.length === 0 || key.models.some((pattern) => matches(pattern, slug))
}
