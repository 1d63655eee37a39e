/** A model as the commands tell of it: as a row under its columns' names, as cells of a table, and at length. Pure. */
import type { CatalogModel, Snapshot, Target } from '../domain/snapshot.ts'
import type { PricingItem } from '../domain/usage.ts'
import { toReasons } from './doctor-server.ts'
import { toFactLines, toPrintable } from './io.ts'
import type { UpstreamRow } from './upstream-rows.ts'

/** One model as `models list --json` shows it. */
export interface ModelRow {
  slug: string
  name: string
  owned_by: string
  context_length: number
  max_output_length: number
  input_modalities: string[]
  output_modalities: string[]
  supported_features: string[]
  pricing: PricingItem[]
  listed: boolean
  from_wildcard: boolean
  /** Null where only a running server could tell. */
  is_ready: boolean | null
  /** Why it is not, in words. */
  reason: string | null
  /** In the order of their priority. `pricing` is what a call costs; empty = nothing. */
  routes: { upstream: string; upstream_model: string; priority: number; weight: number; pricing: PricingItem[] }[]
}

/** @param serves whether a running server says how the upstreams are. */
export function toModelRows(snapshot: Snapshot, upstreams: readonly UpstreamRow[], serves: boolean): ModelRow[] {
  const byId = new Map(upstreams.map((row) => [row.id, row]))
  return [...snapshot.models.values()]
    .map((model) => toModelRow(model, toReasons(model, byId, serves), serves))
    .sort((a, b) => (a.slug < b.slug ? -1 : 1))
}

function toModelRow(
  { facts, listed, fromWildcard, targets }: CatalogModel,
  reason: string | null,
  serves: boolean,
): ModelRow {
  return {
    slug: facts.id,
    name: facts.name,
    owned_by: facts.owned_by,
    context_length: facts.context_length,
    max_output_length: facts.max_output_length,
    input_modalities: facts.input_modalities,
    output_modalities: facts.output_modalities,
    supported_features: facts.supported_features,
    pricing: facts.pricing,
    listed,
    from_wildcard: fromWildcard,
    is_ready: reason !== null ? false : serves ? true : null,
    reason,
    routes: targets.map(toRoute),
  }
}

const toRoute = ({ upstream, upstreamModel, priority, weight, pricing }: Target) => ({
  upstream: upstream.id,
  upstream_model: upstreamModel,
  priority,
  weight,
  pricing,
})

export const MODEL_HEADINGS = ['MODEL', 'CONTEXT', '$/M IN', '$/M OUT', 'READY', 'CAN']

/** The cells of a row, under MODEL_HEADINGS. The price is that of its first route. */
export function toModelCells(row: ModelRow): string[] {
  const [base] = row.routes[0]?.pricing ?? row.pricing
  return [
    toPrintable(row.slug),
    toTokens(row.context_length),
    toPerMillion(base?.prompt ?? '0'),
    toPerMillion(base?.completion ?? '0'),
    toReady(row),
    toPrintable([...row.supported_features, ...row.input_modalities.filter((one) => one !== 'text')].join(' ')),
  ]
}

const toReady = ({ is_ready: isReady }: ModelRow) => (isReady === null ? '-' : isReady ? 'yes' : 'no')

/** Such as `131k` or `1M`. */
const toTokens = (n: number) => (n < 999_500 ? `${Math.round(n / 1_000)}k` : `${Math.round(n / 100_000) / 10}M`)

/** USD a token as USD for a million of them, exactly: `0.00000015` is `0.15`. */
export function toPerMillion(price: string): string {
  const [whole = '0', fraction = ''] = price.split('.')
  const digits = fraction.padEnd(6, '0')
  const dollars = `${whole}${digits.slice(0, 6)}`.replace(/^0+(?=\d)/, '')
  const rest = digits.slice(6).replace(/0+$/, '')
  return rest === '' ? dollars : `${dollars}.${rest.padEnd(2, '0')}`
}

/** All that is known of a model, a line each. */
export function toModelText(row: ModelRow, aliases: readonly string[]): string {
  const facts: [what: string, text: string][] = [
    ['context', `${row.context_length} tokens, at most ${row.max_output_length} of them written`],
    ['reads', row.input_modalities.join(', ')],
    ['writes', row.output_modalities.join(', ')],
    ['can', row.supported_features.join(', ') || '-'],
    ['ready', row.reason === null ? (row.is_ready ? 'yes' : 'only a running server knows') : `no: ${row.reason}`],
    ['aliases', aliases.join(', ') || '-'],
    ...row.routes.map((route): [string, string] => [
      'route',
      `${route.upstream}: ${route.upstream_model}, priority ${route.priority}, weight ${route.weight}; ${toPrices(route.pricing)}`,
    ]),
  ]
  return toFactLines(`${row.slug} (${row.name}, by ${row.owned_by})`, facts)
}

/** Such as `USD for a million tokens: prompt 1.25, completion 10; beyond 200000 prompt tokens: prompt 2.50, completion 15`. */
function toPrices(pricing: readonly PricingItem[]): string {
  if (pricing.length === 0) return 'free'
  const items = pricing.map(({ min_prompt_tokens: beyond, ...prices }) => {
    const parts = Object.entries(prices).map(([what, price]) =>
      what === 'request' || what === 'image' ? `${what} ${price} each` : `${what} ${toPerMillion(String(price))}`,
    )
    return `${beyond === undefined ? '' : `beyond ${beyond} prompt tokens: `}${parts.join(', ')}`
  })
  return `USD for a million tokens: ${items.join('; ')}`
}
