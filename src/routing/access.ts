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

/** Models that no route of theirs leads there are not in it, and every other one is listed. */
export function onlyAt(snapshot: Snapshot, upstream: string): Snapshot {
  const models = [...snapshot.models].flatMap(([slug, model]) => {
    const targets = model.targets.filter((target) => target.upstream.id === upstream)
    return targets.length === 0 ? [] : [[slug, { ...model, listed: true, fromWildcard: false, targets }] as const]
  })
  return { ...snapshot, models: new Map(models), aliases: new Map() }
}

/** No model or alias has a longer name. */
const LONGEST = 200
/** Shorter names are all alike: `o1` is no slip for `o3`. */
const SHORTEST_NEAR = 5
const MAX_COMPARED = 1_000
const MAX_SUGGESTED = 3

/** Names by what they are without vendor, case and marks. */
interface Index {
  names: ReadonlyMap<string, readonly ListedName[]>
  /** The keys of `names`, by their length. */
  byLength: ReadonlyMap<number, readonly string[]>
}

const indexes = new WeakMap<Snapshot, Index>()

/** Returns at most three ids, the likeliest first; none where nothing is near. */
export function suggestModels(snapshot: Snapshot, key: Key, asked: string): string[] {
  if (asked.length > LONGEST) return []
  const plain = toPlain(toBase(asked))
  if (plain === '') return []
  const index = indexes.getOrInsertComputed(snapshot, toIndex)
  const team = teamOf(snapshot, key)
  const same = idsFor(key, team, index.names.get(plain) ?? [])
  const found = same.length > 0 ? same : nearIds(key, team, index, plain)
  const whole = toPlain(asked)
  // The vendor that was asked for comes first.
  return found.sort((a, b) => Number(toPlain(b) === whole) - Number(toPlain(a) === whole)).slice(0, MAX_SUGGESTED)
}

function toIndex(snapshot: Snapshot): Index {
  const names = Map.groupBy(listedNames(snapshot), ({ id }) => toPlain(toBase(id)))
  return { names, byLength: Map.groupBy(names.keys(), ({ length }) => length) }
}

const idsFor = (key: Key, team: Team | null, names: readonly ListedName[]): string[] =>
  names.filter((name) => listedTargets(key, team, name) !== null).map(({ id }) => id)

function nearIds(key: Key, team: Team | null, { names, byLength }: Index, plain: string): string[] {
  const found: string[] = []
  if (plain.length < SHORTEST_NEAR) return found
  let compared = 0
  for (const length of [plain.length, plain.length + 1, plain.length - 1]) {
    for (const other of byLength.get(length) ?? []) {
      if (++compared > MAX_COMPARED || found.length >= MAX_SUGGESTED) return found
      if (isOneSlip(plain, other)) found.push(...idsFor(key, team, names.get(other) ?? []))
    }
  }
  return found
}

/** What follows the vendor. */
const toBase = (id: string) => /[^/]*(?=\/*$)/.exec(id)?.[0] ?? ''
const toPlain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Whether one text becomes the other by one letter more, less or other, or by two that change places. */
function isOneSlip(one: string, other: string): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one]
  let at = 0
  while (at < short.length && short.charCodeAt(at) === long.charCodeAt(at)) at++
  if (short.length < long.length) return short.endsWith(long.slice(at + 1))
  if (short.endsWith(long.slice(at + 1))) return true
  return short[at] === long[at + 1] && short[at + 1] === long[at] && short.endsWith(long.slice(at + 2))
}
