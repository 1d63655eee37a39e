/**
 * What a wrong model name was meant to be: the same name of another vendor or of none, in other letters or with other marks
 * between them, or one slip of the hand away. Only names that the key has in its list, so that a model that it may not use
 * is passed over like one that does not exist. Clients repeat their mistakes a thousand times a second: a name is looked up
 * in an index that is made once for each snapshot, and compared with few. Pure.
 */
import type { Key, Snapshot, Team } from '../domain/snapshot.ts'
import { type ListedName, listedNames, listedTargets, teamOf } from './access.ts'

/** No model or alias has a longer name. */
const LONGEST = 200
/** Shorter names are all alike: `o1` is no slip for `o3`. */
const SHORTEST_NEAR = 5
const MOST_COMPARED = 1_000
const MOST_SUGGESTED = 3

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
  return found.sort((a, b) => Number(toPlain(b) === whole) - Number(toPlain(a) === whole)).slice(0, MOST_SUGGESTED)
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
      if (++compared > MOST_COMPARED || found.length >= MOST_SUGGESTED) return found
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
