/** Which patterns of a key or a team allow no model, and why. A pattern may be right anyway: for a model to come. */
import { type Static, Type } from '@sinclair/typebox'
import { closest } from '../catalog/entry.ts'
import { Text } from '../documents/fields.ts'
import type { Access, Snapshot } from '../domain/snapshot.ts'
import { count, matches } from '../domain/text.ts'
import type { Serving } from './deps.ts'

/** `reason` goes on a sentence that names the pattern. */
export const Unmatched = Type.Array(Type.Object({ pattern: Text, reason: Text }), {
  description: 'Patterns that allow no model as the catalog is now, and why.',
})

/** A key, or a team, which is in none. */
type Owner = Access & { teamId?: string | null }

/**
 * @param isOwn for a member, who is told of the models of their team alone.
 * @param changed fields: others than these say nothing of models.
 */
export async function findUnmatched(
  { models: patterns, scope, teamId }: Owner,
  { readSnapshot }: Pick<Serving, 'readSnapshot'>,
  isOwn = false,
  changed: readonly string[] = ['models'],
): Promise<Static<typeof Unmatched>> {
  if (patterns.length === 0 || !(changed.includes('models') || changed.includes('scope'))) return []
  const snapshot = await readSnapshot()
  const team = snapshot.teams.get(teamId ?? '')
  const isLocal = (slug: string) => snapshot.models.get(slug)?.targets.some(({ upstream }) => upstream.local) === true
  const isUsable = ({ scope: of, models }: Access, slug: string) =>
    (of === 'all' || isLocal(slug)) && (models.length === 0 || models.some((pattern) => matches(pattern, slug)))
  const isOfTeam = (slug: string) => team === undefined || isUsable(team, slug)
  // A member whose team the snapshot does not have yet is told of no model.
  const slugs =
    isOwn && team === undefined ? [] : [...snapshot.models.keys()].filter((slug) => !isOwn || isOfTeam(slug))
  return patterns.flatMap((pattern) => {
    const matched = slugs.filter((slug) => matches(pattern, slug))
    const usable = matched.filter((slug) => isUsable({ scope, models: [] }, slug))
    if (usable.some(isOfTeam)) return []
    let reason = 'matches no model with a local upstream, and its scope is local'
    if (matched.length === 0) reason = explain(pattern, slugs, snapshot)
    if (usable.length > 0) reason = `matches no model that its team ${team?.name ?? ''} may use`
    return { pattern, reason }
  })
}

function explain(pattern: string, slugs: string[], { aliases }: Snapshot): string {
  const { model } = aliases.get(pattern) ?? {}
  if (model !== undefined && slugs.includes(model))
    return `matches no model: it is an alias, and patterns are compared with the name of its model, ${model}`
  const names = pattern.endsWith('/*') ? slugs.map((slug) => `${slug.slice(0, slug.indexOf('/'))}/*`) : slugs
  return `matches none of the ${count(slugs.length, 'model')} that there are now${closest(pattern, [...new Set(names)])}`
}
