/**
 * From rows of `models` and `routes` to models with their targets. Called by `snapshot.ts`. Pure.
 *
 * A model's facts are what a client is promised. A route may be weaker and never stronger: whatever it says is cut to
 * what its model has, so that the promise holds even where the two rows come from different hands.
 */
import type { CatalogModel, Target, Upstream } from '../domain/snapshot.ts'
import type { ModelRow, RouteRow } from './config-store.ts'

/** Converts the enabled models, by slug; a route counts where it and its upstream are enabled. */
export function toModels(
  modelRows: ModelRow[],
  routeRows: RouteRow[],
  upstreams: ReadonlyMap<string, Upstream>,
): Map<string, CatalogModel> {
  const rows = new Map(modelRows.filter((row) => row.enabled).map((row) => [row.slug, row]))
  const bySlug = new Map([...rows].map(([slug, row]) => [slug, toModel(row)]))
  for (const route of routeRows) {
    const row = rows.get(route.model)
    const upstream = upstreams.get(route.upstream)
    if (route.enabled && row && upstream) bySlug.get(row.slug)?.targets.push(toTarget(route, row, upstream))
  }
  // A stable sort: routes of one priority stay in the order of their rows.
  for (const model of bySlug.values()) model.targets.sort((a, b) => a.priority - b.priority)
  return bySlug
}

function toModel(row: ModelRow): CatalogModel {
  return {
    listed: row.listed,
    facts: {
      id: row.slug,
      object: 'model',
      owned_by: row.ownedBy,
      created: Math.floor(row.createdMs / 1000),
      name: row.name,
      context_length: row.contextLength,
      max_output_length: row.maxOutputLength,
      input_modalities: row.inputModalities,
      output_modalities: row.outputModalities,
      supported_features: row.supportedFeatures,
      pricing: row.pricing,
    },
    targets: [],
  }
}

function toTarget(route: RouteRow, model: ModelRow, upstream: Upstream): Target {
  const modelPays = !route.pricing && !upstream.local
  const contextLength = Math.min(route.contextLength ?? model.contextLength, model.contextLength)
  const { supportedFeatures } = route
  return {
    model: route.model,
    upstream,
    upstreamModel: route.upstreamModel,
    priority: route.priority,
    weight: route.weight,
    pricing: route.pricing ?? (modelPays ? model.pricing : []),
    priceId: route.pricing ? route.priceId : modelPays ? model.priceId : null,
    // What is written stands in the context, too.
    maxOutputLength: Math.min(route.maxOutputLength ?? model.maxOutputLength, model.maxOutputLength, contextLength),
    contextLength,
    features: supportedFeatures
      ? model.supportedFeatures.filter((feature) => supportedFeatures.includes(feature))
      : model.supportedFeatures,
  }
}
