/**
 * Which models a key may use and by which targets, by its own allow-list and scope and by those of its team, and which of
 * them lists show: each model and each alias that the catalogue does not hide. Of the models that a wildcard stands for, which nobody chose one by one,
 * only those with an upstream that has what a call needs. What is asked for and what is listed go by the same rules. Pure.
 */

import type { Access, CatalogModel, Key, Snapshot, Target, Team } from '../domain/snapshot.ts'
import { matches } from '../domain/text.ts'

/** The team of a key, as the snapshot has it; null where it has none. */
export const teamOf = (snapshot: Snapshot, { teamId }: Pick<Key, 'teamId'>): Team | null =>
  teamId === null ? null : (snapshot.teams.get(teamId) ?? null)

/** The model behind a slug or alias with the targets that this key may use; null where there is none for it. */
export function visibleModel(
  snapshot: Snapshot,
  key: Key,
  asked: string,
): { model: CatalogModel; targets: Target[] } | null {
  const model = snapshot.models.get(snapshot.aliases.get(asked)?.model ?? asked)
  const targets = model ? usableTargets(key, teamOf(snapshot, key), model) : null
  return model && targets ? { model, targets } : null
}

/** The targets of a model that this key of this team may use; null where either may not use the model. */
function usableTargets(key: Access, team: Team | null, model: CatalogModel): Target[] | null {
  const { id } = model.facts
  if (!mayUse(key, id) || (team !== null && !mayUse(team, id))) return null
  if (key.scope !== 'local' && team?.scope !== 'local') return model.targets
  const local = model.targets.filter((target) => target.upstream.local)
  return local.length === 0 ? null : local
}

/** Tells whether the allow-list covers a slug; an empty one covers all. */
export function mayUse({ models }: Pick<Access, 'models'>, slug: string): boolean {
  return models.length === 0 || models.some((pattern) => matches(pattern, slug))
}

/** A name by which a model is listed. It lives as long as its snapshot. */
export interface ListedName {
  id: string
  model: CatalogModel
  /** Whether it is another name than the model's own. */
  isAlias: boolean
}

/** What is the same for all keys, worked out when it is first asked for. */
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

/** The targets by which a key of this team may use a listed model; null where it is not listed for this key. */
export function listedTargets(key: Access, team: Team | null, { model, isAlias }: ListedName): Target[] | null {
  const targets = usableTargets(key, team, model)
  if (targets === null || isAlias || !model.fromWildcard) return targets
  return targets.some(({ upstream }) => upstream.notReady === null) ? targets : null
}
