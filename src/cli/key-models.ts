/**
 * Which patterns of a key or a team allow nothing, and what is said of them. A pattern may be right all the same: for a model to
 * come.
 */
import { closest } from '../catalog/entry.ts'
import type { Access, Snapshot } from '../domain/snapshot.ts'
import { count, matches } from '../domain/text.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { toSnapshot } from '../store/snapshot.ts'
import { type Context, toPrintable } from './io.ts'

/** A pattern that matches no model which may be used by it, and one sentence about it. */
export interface Unmatched {
  pattern: string
  message: string
}

/** A key, or a team, which is in none. */
type Owner = Access & { teamId?: string | null }

/** Finds them by the catalogue that is in force now. */
export const findUnmatchedNow = async (owner: Owner, store: ConfigStore, io: Context): Promise<Unmatched[]> =>
  owner.models.length === 0 ? [] : findUnmatched(owner, toSnapshot(await store.read(), io.environment))

/** The same after an edit, which may have left a pattern without a model where it changed one of these fields. */
export const findUnmatchedAfter = async (
  changed: readonly string[],
  owner: Owner,
  store: ConfigStore,
  io: Context,
): Promise<Unmatched[]> =>
  changed.includes('models') || changed.includes('scope') ? findUnmatchedNow(owner, store, io) : []

/** As a field of a JSON document. */
export const toPatterns = (unmatched: readonly Unmatched[]) => ({ unmatched: unmatched.map(({ pattern }) => pattern) })

export function warnOf(unmatched: readonly Unmatched[], io: Context): void {
  for (const { message } of unmatched) io.stderr(`warning: ${message}\n`)
}

function findUnmatched({ models: patterns, scope, teamId }: Owner, snapshot: Snapshot): Unmatched[] {
  const team = snapshot.teams.get(teamId ?? '')
  const slugs = [...snapshot.models.keys()]
  const isLocal = (slug: string) => snapshot.models.get(slug)?.targets.some(({ upstream }) => upstream.local) === true
  const isUsable = ({ scope: of, models }: Access, slug: string) =>
    (of === 'all' || isLocal(slug)) && (models.length === 0 || models.some((pattern) => matches(pattern, slug)))
  return patterns.flatMap((pattern) => {
    const matched = slugs.filter((slug) => matches(pattern, slug))
    const usable = matched.filter((slug) => isUsable({ scope, models: [] }, slug))
    if (usable.some((slug) => team === undefined || isUsable(team, slug))) return []
    let why = 'matches no model with a local upstream, and its scope is local'
    if (matched.length === 0) why = explain(pattern, slugs, snapshot)
    if (usable.length > 0) why = `matches no model that its team ${toPrintable(team?.name ?? '')} may use`
    return { pattern, message: `--model '${toPrintable(pattern)}' ${why}.` }
  })
}

function explain(pattern: string, slugs: string[], { aliases }: Snapshot): string {
  const alias = aliases.get(pattern)
  if (alias)
    return `matches no model: it is an alias, and patterns are compared with the name of its model, ${alias.model}`
  const names = pattern.endsWith('/*') ? slugs.map((slug) => `${slug.slice(0, slug.indexOf('/'))}/*`) : slugs
  return `matches none of the ${count(slugs.length, 'model')} that there are now${closest(pattern, [...new Set(names)])}`
}
