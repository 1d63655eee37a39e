/** Patterns of a key or team that match no usable model, which may be intended for future models. */
import { type Static, Type } from '@sinclair/typebox'
import { closest } from '../catalog/entry.ts'
import { Text } from '../documents/fields.ts'
import type { Access, Snapshot } from '../domain/snapshot.ts'
import { count, matches } from '../domain/text.ts'
import type { Serving } from './deps.ts'

/** `reason` continues a sentence that starts with the pattern. */
export const Unmatched = Type.Array(Type.Object({ pattern: Text, reason: Text }), {
  description: 'Patterns that currently match no usable model, with the reason.',
})

/** A key or a team. */
type Owner = Access & { teamId?: string | null }

/**
 * @param isOwn true for a member, who must only learn about models of their team
 * @param changed edited fields; nothing is checked unless models or scope changed
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
  // A member whose team is not in the snapshot yet sees no models.
  const slugs =
    isOwn && team === undefined ? [] : [...snapshot.models.keys()].filter((slug) => !isOwn || isOfTeam(slug))
  return patterns.flatMap((pattern) => {
    const matched = slugs.filter((slug) => matches(pattern, slug))
    const usable = matched.filter((slug) => isUsable({ scope, models: [] }, slug))
    if (usable.some(isOfTeam)) return []
    let reason = 'matches no local model, but the scope is local'
    if (matched.length === 0) reason = explain(pattern, slugs, snapshot)
    if (usable.length > 0) reason = `matches no model that the team ${team?.name ?? ''} can use`
    return { pattern, reason }
  })
}

function explain(pattern: string, slugs: string[], { aliases }: Snapshot): string {
  const { model } = aliases.get(pattern) ?? {}
  if (model !== undefined && slugs.includes(model)) return `is an alias; patterns only match model IDs, here ${model}`
  const names = pattern.endsWith('/*') ? slugs.map((slug) => `${slug.slice(0, slug.indexOf('/'))}/*`) : slugs
  return `matches none of the current ${count(slugs.length, 'model')}${closest(pattern, [...new Set(names)])}`
}
