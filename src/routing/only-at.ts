/** What is in force, as if there were one upstream alone: for a call that is to find out how that one does. Pure. */
import type { Snapshot } from '../domain/snapshot.ts'

/** Models that no route of theirs leads there are not in it, and every other one is listed. */
export function onlyAt(snapshot: Snapshot, upstream: string): Snapshot {
  const models = [...snapshot.models].flatMap(([slug, model]) => {
    const targets = model.targets.filter((target) => target.upstream.id === upstream)
    return targets.length === 0 ? [] : [[slug, { ...model, listed: true, fromWildcard: false, targets }] as const]
  })
  return { ...snapshot, models: new Map(models), aliases: new Map() }
}
