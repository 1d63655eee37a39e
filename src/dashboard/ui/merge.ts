/** Merges the values of a form with those that someone else saved meanwhile. */

type Values = Readonly<Record<string, string>>

/** Names of values that users see as one, such as a budget and its period. */
export type Group = readonly string[]

export interface Difference {
  names: Group
  mine: Values
  theirs: Values
}

export interface Merged {
  values: Record<string, string>
  /** Changed by both, to different values; `values` has mine. */
  both: Difference[]
  /** Changed by the others only. */
  theirs: Group[]
}

/** @param before the common base. @param groups values outside of these form their own groups. */
export function mergeValues(before: Values, mine: Values, now: Values, groups: readonly Group[] = []): Merged {
  const names = [...new Set([...Object.keys(mine), ...Object.keys(now)])]
  const single = names.filter((name) => !groups.some((group) => group.includes(name))).map((name) => [name])
  const merged: Merged = { values: { ...mine }, both: [], theirs: [] }
  for (const group of [...groups, ...single]) {
    const isSame = (one: Values, other: Values) => group.every((name) => one[name] === other[name])
    if (isSame(before, now) || isSame(mine, now)) continue
    const theirs = pick(now, group)
    if (isSame(before, mine)) {
      Object.assign(merged.values, theirs)
      merged.theirs.push(group)
    } else merged.both.push({ names: group, mine: pick(mine, group), theirs })
  }
  return merged
}

const pick = (values: Values, names: Group): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])))
