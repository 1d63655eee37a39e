/** Keeps what an upstream says about itself that clients may read, in words that typed clients know (section 3a). Pure. */
import type { Origin, ServiceTier } from '../../../domain/answer.ts'
import { asObject } from '../../../domain/json.ts'

const TIERS = new Set<unknown>(['auto', 'default', 'flex', 'scale', 'priority', 'fast'] satisfies ServiceTier[])

/** What was found first stays: a stream says the same in every frame. */
export function toOrigin(
  found: Origin,
  { service_tier: tier, system_fingerprint: fingerprint, moderation }: Origin,
): Origin {
  return {
    ...(asObject(moderation) ? { moderation } : {}),
    ...(TIERS.has(tier) ? { service_tier: tier as ServiceTier } : {}),
    ...(typeof fingerprint === 'string' && fingerprint !== '' ? { system_fingerprint: fingerprint } : {}),
    ...found,
  }
}

/** Whether there may be something new in it: asked of every chunk, so it does not look closely. */
export const tellsMore = (found: Origin, { service_tier, system_fingerprint, moderation }: Origin): boolean =>
  Boolean(
    (service_tier && !found.service_tier) ||
      (system_fingerprint && !found.system_fingerprint) ||
      (moderation && !found.moderation),
  )
