/**
 * The public Model object of `GET /v1/models` from a model of the snapshot. Called by `http/models.ts`. Pure; it never
 * shows routes or upstreams.
 */
import type { Model } from '../domain/models.ts'
import type { CatalogModel, Target } from '../domain/snapshot.ts'

/**
 * A model as clients read it, whichever format they speak: what other vendors' client libraries look for stands beside our own
 * names, which it never collides with (https://platform.claude.com/docs/en/api/models-list).
 */
export interface PublicModel extends Model {
  type: 'model'
  display_name: string
  /** When it was made, by RFC 3339. */
  created_at: string
  /** As `context_length`. */
  max_input_tokens: number
  /** As `max_output_length`. */
  max_tokens: number
  /** What is listed can be called. The rest of this API's fields, which its client libraries require, say that nothing is known. */
  lifecycle: 'active'
  deprecated_at: null
  retires_at: null
  line: null
  capabilities: null
  allowed_fallback_models: null
}

const UNKNOWN = {
  lifecycle: 'active',
  deprecated_at: null,
  retires_at: null,
  line: null,
  capabilities: null,
  allowed_fallback_models: null,
} as const

/** All of it but what changes from moment to moment. */
type PublicFacts = Omit<PublicModel, 'is_ready' | 'state' | 'tokens_per_second'>

/**
 * Converts a model, but for what changes from moment to moment.
 * @param id the name that it is asked for or listed by: its slug or an alias
 */
export function toPublicFacts({ facts }: CatalogModel, id: string = facts.id): PublicFacts {
  return {
    ...facts,
    id,
    // A missing cache price costs as the prompt does, and clients rely on all three.
    pricing: facts.pricing.map((item) => ({ ...item, input_cache_read: item.input_cache_read ?? item.prompt })),
    ...(id === facts.id ? {} : { alias_of: facts.id }),
    type: 'model',
    display_name: facts.name,
    created_at: new Date(facts.created * 1_000).toISOString(),
    max_input_tokens: facts.context_length,
    max_tokens: facts.max_output_length,
    ...UNKNOWN,
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
