/**
 * Which models a key may use, through which targets, and which of them lists show. Models that a wildcard covers are
 * listed only if an upstream of theirs is ready, since no one added them one by one.
 */

import {
  type Access,
  type CatalogModel,
  type Key,
  mayUse,
  type Snapshot,
  type Target,
  type Team,
} from '../domain/snapshot.ts'

export const teamOf = (snapshot: Snapshot, { teamId }: Pick<Key, 'teamId'>): Team | null =>
  teamId === null ? null : (snapshot.teams.get(teamId) ?? null)

/** Resolves a model ID or alias; null if this key has no target for it. */
export function visibleModel(
  snapshot: Snapshot,
  key: Key,
  asked: string,
): { model: CatalogModel; targets: Target[] } | null {
  const model = snapshot.models.get(snapshot.aliases.get(asked)?.model ?? asked)
  const targets = model ? usableTargets(key, teamOf(snapshot, key), model) : null
  return model && targets ? { model, targets } : null
}

function usableTargets(key: Access, team: Team | null, model: CatalogModel): Target[] | null {
  const { id } = model.facts
  if (!mayUse(key, id) || (team !== null && !mayUse(team, id))) return null
  if (key.scope !== 'local' && team?.scope !== 'local') return model.targets
  const local = model.targets.filter((target) => target.upstream.local)
  return local.length === 0 ? null : local
}

export interface ListedName {
  id: string
  model: CatalogModel
  isAlias: boolean
}

/** The same for all keys, computed lazily per snapshot. */
const listings = new WeakMap<Snapshot, readonly ListedName[]>()

export const listedNames = (snapshot: Snapshot): readonly ListedName[] =>
  listings.getOrInsertComputed(snapshot, toListedNames)

function toListedNames({ models, aliases }: Snapshot): readonly ListedName[] {
  const names: ListedName[] = []
  for (const [id, model] of models) {
    // If a model and an alias share a name, the alias wins.
    if (model.listed && !aliases.has(id)) names.push({ id, model, isAlias: false })
  }
  for (const [id, alias] of aliases) {
    const model = models.get(alias.model)
    if (model && alias.listed) names.push({ id, model, isAlias: true })
  }
  return names.sort((a, b) => (a.id < b.id ? -1 : 1))
}

export function listedTargets(key: Access, team: Team | null, { model, isAlias }: ListedName): Target[] | null {
  const targets = usableTargets(key, team, model)
  if (targets === null || isAlias || !model.fromWildcard) return targets
  return targets.some(({ upstream }) => upstream.notReady === null) ? targets : null
}

/** The models with a route to one upstream, all of them listed. */
export function onlyAt(snapshot: Snapshot, upstream: string): Snapshot {
  const models = [...snapshot.models].flatMap(([slug, model]) => {
    const targets = model.targets.filter((target) => target.upstream.id === upstream)
    return targets.length === 0 ? [] : [[slug, { ...model, listed: true, fromWildcard: false, targets }] as const]
  })
  return { ...snapshot, models: new Map(models), aliases: new Map() }
}

const LONGEST = 200
/** Shorter names are too similar: `o1` is no typo of `o3`. */
const SHORTEST_NEAR = 5
const MAX_COMPARED = 1_000
const MAX_SUGGESTED = 3

/** Names without vendor, case, and punctuation. */
interface Index {
  names: ReadonlyMap<string, readonly ListedName[]>
  byLength: ReadonlyMap<number, readonly string[]>
}

const indexes = new WeakMap<Snapshot, Index>()

/** At most three IDs, the likeliest first. */
export function suggestModels(snapshot: Snapshot, key: Key, asked: string): string[] {
  if (asked.length > LONGEST) return []
  const plain = toPlain(toBase(asked))
  if (plain === '') return []
  const index = indexes.getOrInsertComputed(snapshot, toIndex)
  const team = teamOf(snapshot, key)
  const same = idsFor(key, team, index.names.get(plain) ?? [])
  const found = same.length > 0 ? same : nearIds(key, team, index, plain)
  const whole = toPlain(asked)
  // Prefer the vendor that was named.
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

const toBase = (id: string) => /[^/]*(?=\/*$)/.exec(id)?.[0] ?? ''
const toPlain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Whether the texts differ by one letter inserted, deleted, or replaced, or by two swapped ones. */
function isOneSlip(one: string, other: string): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one]
  let at = 0
  while (at < short.length && short.charCodeAt(at) === long.charCodeAt(at)) at++
  if (short.length < long.length) return short.endsWith(long.slice(at + 1))
  if (short.endsWith(long.slice(at + 1))) return true
  return short[at] === long[at + 1] && short[at + 1] === long[at] && short.endsWith(long.slice(at + 2))
}
