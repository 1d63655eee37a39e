/** That nobody uses a paid upstream for nothing, or by the price of a server of one's own, by a slip of the hand. Pure. */

import { isBuiltIn } from '../domain/dialects.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isTimed } from '../domain/tariff.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, RouteRow } from '../store/catalog-rows.ts'

/** Why a provider's calls are not charged by the second. */
export const NO_SECONDS =
  'second is the price of the time of a server of your own, and this upstream is not local: give the route a price without it, or make the upstream local.'

/**
 * Throws `invalid` where a route to an upstream that costs money has no price of its own, and its model's is that of one which costs
 * nothing, or where it is charged by the second. Who means the first says so on the route.
 *
 * @param isMeant which routes were changed.
 */
export function requirePriced(rows: CatalogRows, isMeant: (route: RouteRow) => boolean, field: string): void {
  const models = new Map(rows.models.map((row) => [row.slug, row]))
  const paid = new Set(rows.upstreams.flatMap((row) => (row.local || isBuiltIn(row) ? [] : row.id)))
  const meant = rows.routes.filter((route) => isMeant(route) && paid.has(route.upstream))
  const timed = meant.find((route) => isTimed(route.pricing ?? models.get(route.model)?.pricing ?? []))
  if (timed)
    throw new ServiceError(
      { kind: 'invalid', field },
      `The field ${field} is invalid: of the route of ${timed.model} to ${timed.upstream}, ${NO_SECONDS}`,
    )
  const free = meant.find((route) => route.pricing === null && isFree(models.get(route.model)?.pricing))
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
