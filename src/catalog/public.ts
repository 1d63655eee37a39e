/**
 * The public Model object of `GET /v1/models` from a model of the snapshot. Called by `http/models.ts`. Pure; it never
 * shows routes or upstreams.
 */
import type { Model } from '../domain/settings.ts'
import type { CatalogModel, Target } from '../domain/snapshot.ts'

/**
 * Converts a model, but for what changes from moment to moment.
 * @param id the name that it is asked for or listed by: its slug or an alias
 */
export function toPublicFacts({ facts }: CatalogModel, id: string = facts.id): Omit<Model, 'is_ready'> {
  return {
    ...facts,
    id,
    // A missing cache price costs as the prompt does, and clients rely on all three.
    pricing: facts.pricing.map((item) => ({ ...item, input_cache_read: item.input_cache_read ?? item.prompt })),
    ...(id === facts.id ? {} : { alias_of: facts.id }),
  }
}

/**
 * Whether some target can be called: its upstream has its credential and is not known to be down.
 * @param targets those that the asker may use
 * @param isOut whether a target is known to be down
 */
export function isReady(targets: readonly Target[], isOut: (target: Target) => boolean = () => false): boolean {
  return targets.some((target) => target.upstream.notReady === null && !isOut(target))
}
