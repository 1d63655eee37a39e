/** The public models of `GET /v1/models`, without routes or upstreams. */
import type { Model } from '../domain/models.ts'
import type { CatalogModel, Target } from '../domain/snapshot.ts'

/**
 * Tollgate's fields and those of Anthropic's models API, whose names don't collide
 * (https://platform.claude.com/docs/en/api/models-list).
 */
export interface PublicModel extends Model {
  type: 'model'
  display_name: string
  /** RFC 3339. */
  created_at: string
  /** Same as `context_length`. */
  max_input_tokens: number
  /** Same as `max_output_length`. */
  max_tokens: number
  /** Client libraries require the fields below; null = unknown. */
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

type PublicFacts = Omit<PublicModel, 'is_ready' | 'state' | 'tokens_per_second'>

/** Facts without live state. @param id its model ID or an alias, as the listed name */
export function toPublicFacts({ facts }: CatalogModel, id: string = facts.id): PublicFacts {
  return {
    ...facts,
    id,
    // Clients rely on all three prices; without a cache price, the prompt price applies.
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

/** True if a target is configured and not known to be unavailable. @param targets those that the caller may use */
export function isReady(targets: readonly Target[], isOut: (target: Target) => boolean = () => false): boolean {
  return targets.some((target) => target.upstream.notReady === null && !isOut(target))
}
