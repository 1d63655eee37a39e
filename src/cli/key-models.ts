/** Which patterns of a new key allow nothing, and what is said of them. A pattern may be right all the same: for a model to come. */

import { closest } from '../catalog/entry.ts'
import { matches } from '../domain/pattern.ts'
import type { Key, Snapshot } from '../domain/snapshot.ts'
import { count } from '../domain/words.ts'
import { toPrintable } from './io.ts'

/** A pattern that matches no model which a key of this scope may use, and one sentence about it. */
export interface Unmatched {
  pattern: string
  message: string
}

/** Finds the patterns of a key that match no model of the catalogue that is in force. */
export function findUnmatched(
  { models: patterns, scope }: Pick<Key, 'models' | 'scope'>,
  snapshot: Snapshot,
): Unmatched[] {
  const isUsable = (slug: string) =>
    scope === 'all' || snapshot.models.get(slug)?.targets.some(({ upstream }) => upstream.local) === true
  const slugs = [...snapshot.models.keys()]
  return patterns
    .map((pattern) => ({ pattern, matched: slugs.filter((slug) => matches(pattern, slug)) }))
    .filter(({ matched }) => !matched.some(isUsable))
    .map(({ pattern, matched }) => {
      const why =
        matched.length > 0
          ? 'matches no model with a local upstream, and its scope is local'
          : explain(pattern, slugs, snapshot)
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
