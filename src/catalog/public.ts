/**
 * The public Model object of `GET /v1/models` from a model of the snapshot. Called by `http/models.ts`. Pure; it never
 * shows routes or upstreams.
 */

import type { Model } from '../domain/settings.ts'
import type { CatalogModel, Target } from '../domain/snapshot.ts'

/**
 * Converts a model.
 * @param targets those that the asker may use, by default all of them
 * @param isOut whether a target is known to be down
 */
export function toPublicModel(
  model: CatalogModel,
  targets: readonly Target[] = model.targets,
  isOut: (target: Target) => boolean = () => false,
): Model {
  return {
    ...model.facts,
    // A missing cache price costs as the prompt does, and clients rely on all three.
    pricing: model.facts.pricing.map((item) => ({ ...item, input_cache_read: item.input_cache_read ?? item.prompt })),
    is_ready: isReady(targets, isOut),
  }
}

/** Whether some target can be called: its upstream has its credential and is not known to be down. */
export function isReady(targets: readonly Target[], isOut: (target: Target) => boolean = () => false): boolean {
  return targets.some((target) => target.upstream.notReady === null && !isOut(target))
}
