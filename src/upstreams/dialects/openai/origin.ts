/** Keeps what an upstream says about itself that clients may read, in words that typed clients know. Pure. */
import type { Origin } from '../../../domain/events.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'

const TIERS = new Set<unknown>([
  'auto',
  'default',
  'flex',
  'scale',
  'priority',
  'fast',
] satisfies Origin['service_tier'][])

/** Adds what an answer or a chunk says to what was found: what was found first stays. The same object where nothing is new. */
export function addOrigin(found: Origin, { service_tier, system_fingerprint, moderation }: JsonObject): Origin {
  // Nearly every chunk says nothing, or the same again.
  if (!service_tier && !system_fingerprint && !moderation) return found
  const isNew =
    (!found.moderation && asObject(moderation)) ||
    (!found.service_tier && TIERS.has(service_tier)) ||
    (!found.system_fingerprint && typeof system_fingerprint === 'string' && system_fingerprint !== '')
  if (!isNew) return found
  return {
    ...(asObject(moderation) ? { moderation: moderation as object } : {}),
    ...(TIERS.has(service_tier) ? { service_tier: service_tier as NonNullable<Origin['service_tier']> } : {}),
    ...(typeof system_fingerprint === 'string' && system_fingerprint !== '' ? { system_fingerprint } : {}),
    ...found,
  }
}
