/**
 * What a route says of itself, held against its model: the model's facts are what a client is promised, so a route may be
 * narrower and never wider. Called by `complete.ts`, which knows the facts that the file leaves out. Pure.
 */
import { FEATURES } from '../domain/model.ts'
import type { Facts, Issue } from './catalog.ts'
import { type Entry, toEntry, toItems } from './entry.ts'

/** Names what routes claim beyond their model; `known` has the facts that the entry does not say. */
export function checkRouteFacts(slug: string, entry: Entry, known: Partial<Facts>): Issue[] {
  const context = toNumber(entry.context_length) ?? known.contextLength ?? Infinity
  const output = Math.min(toNumber(entry.max_output_length) ?? known.maxOutputLength ?? Infinity, context)
  const features = Array.isArray(entry.supported_features) ? entry.supported_features : known.supportedFeatures
  return toItems(entry.routes).flatMap((item, index) => {
    const route = toEntry(item)
    const at = ['models', slug, 'routes', index]
    const extra = FEATURES.filter(
      (feature) => features?.includes(feature) === false && toItems(route.supported_features).includes(feature),
    )
    return [
      ...explainLength('context_length', route.context_length, context),
      ...explainLength('max_output_length', route.max_output_length, output),
      ...extra.map((feature) => ({
        field: 'supported_features',
        message: `the model has no '${feature}': a route may leave features out, and add none.`,
      })),
    ].map(({ field, message }) => ({ segments: [...at, field], message }))
  })
}

function explainLength(field: string, value: unknown, most: number): { field: string; message: string }[] {
  if ((toNumber(value) ?? 0) <= most) return []
  return [
    { field, message: `${value} is more than its model's, which is ${most}: a route may be narrower, never wider.` },
  ]
}

const toNumber = (value: unknown): number | null => (typeof value === 'number' ? value : null)
