/**
 * Rows of the catalogue in the words of `catalog.yaml`: what `plan.ts` compares field by field, and what `file.ts` exports.
 * Every field is there, null where a row says nothing of it. Pure.
 */
import type { Fields } from '../domain/changes.ts'
import type { Deadlines } from '../domain/deadlines.ts'
import { toSpan } from '../domain/time.ts'
import type { AliasRow, CatalogRows, ModelRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import { DEADLINE_FIELDS, FACT_FIELDS } from './complete.ts'

/** How the rows of a table are told of. */
export interface Kind<Row> {
  /** As messages have it: `upstreams.openai`, `models.v/m`, `models.v/m: route u (m)`, `aliases.fast`. */
  nameOf(row: Row): string
  /** Under the names that they have in the file. */
  fieldsOf(row: Row): Fields
}

/** An upstream under the names that its fields have in the file; each deadline under a name of its own. */
export function toUpstreamFields(row: UpstreamRow) {
  return {
    dialect: row.dialect,
    base_url: row.baseUrl,
    api_key: row.apiKeyRef,
    local: row.local,
    enabled: row.enabled,
    ...Object.fromEntries(DEADLINE_FIELDS.map(([name, field]) => [`deadlines.${field}`, spanOf(row.deadlines[name])])),
    ...row.options,
  }
}

const spanOf = (ms: Deadlines[keyof Deadlines] | undefined) => (ms === undefined ? null : toSpan(ms))

/** A model, without its routes. */
export function toModelFields(row: ModelRow) {
  return {
    owned_by: row.ownedBy,
    ...Object.fromEntries(FACT_FIELDS.map(([fact, field]) => [field, row[fact]])),
    /** Left out where nobody knows them. */
    pricing: row.pricing.length === 0 ? null : row.pricing,
    /** Unix seconds, as clients read it. */
    created: Math.floor(row.createdMs / 1_000),
    enabled: row.enabled,
    listed: row.listed,
    from_wildcard: row.fromWildcard,
  }
}

export function toRouteFields(row: RouteRow) {
  return {
    upstream: row.upstream,
    model: row.upstreamModel,
    priority: row.priority,
    weight: row.weight,
    pricing: row.pricing,
    context_length: row.contextLength,
    max_output_length: row.maxOutputLength,
    supported_features: row.supportedFeatures,
    enabled: row.enabled,
    ...row.options,
  }
}

export const toAliasFields = ({ model, listed }: AliasRow) => ({ model, listed })

export const toRouteName = (row: Pick<RouteRow, 'model' | 'upstream' | 'upstreamModel'>) =>
  `models.${row.model}: route ${row.upstream} (${row.upstreamModel})`

export const KINDS: { [Table in keyof CatalogRows]: Kind<CatalogRows[Table][number]> } = {
  upstreams: { nameOf: ({ id }) => `upstreams.${id}`, fieldsOf: toUpstreamFields },
  models: { nameOf: ({ slug }) => `models.${slug}`, fieldsOf: toModelFields },
  routes: { nameOf: toRouteName, fieldsOf: toRouteFields },
  aliases: { nameOf: ({ alias }) => `aliases.${alias}`, fieldsOf: toAliasFields },
}
