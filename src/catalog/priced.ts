/** That nobody uses a paid upstream for nothing by a slip of the hand. Pure. */
import { ServiceError } from '../domain/service-error.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, RouteRow } from '../store/catalog-rows.ts'

/**
 * Throws `invalid` where a route to an upstream that costs money has no price of its own, and its model's is that of one which costs
 * nothing. Who means that says so on the route.
 *
 * @param isMeant which routes were changed.
 */
export function requirePriced(rows: CatalogRows, isMeant: (route: RouteRow) => boolean, field: string): void {
  const models = new Map(rows.models.map((row) => [row.slug, row]))
  const paid = new Set(rows.upstreams.flatMap(({ id, local, dialect }) => (local || dialect === 'demo' ? [] : id)))
  const free = rows.routes.find(
    (route) =>
      isMeant(route) && paid.has(route.upstream) && route.pricing === null && isFree(models.get(route.model)?.pricing),
  )
  if (!free) return
  throw new ServiceError(
    { kind: 'invalid', field },
    `The field ${field} is invalid: ${free.model} costs nothing, and its route to ${free.upstream} has no price of its own: give the route one, be it of 0.`,
  )
}

export const isFree = (pricing: readonly PricingItem[] = []) =>
  pricing.every((item) =>
    Object.entries(item).every(
      ([name, value]) => name === 'min_prompt_tokens' || name === 'mode' || !/[1-9]/.test(String(value)),
    ),
  )
