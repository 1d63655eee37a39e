/** What models other than the one that was called have used within a call, such as an advisor: each at its own price. */
import { costNanoUsd, findUnpriced } from '../domain/price.ts'
import type { ModelPrice, Target } from '../domain/snapshot.ts'
import { addUsage, type ModelUsage, type Usage } from '../domain/usage.ts'
import type { Bill } from './bill.ts'

/** What one of them comes to. It ends as the call does, and stands on record as a call of its own. */
export interface WithinBill extends Omit<Bill, 'status' | 'within'> {
  upstreamModel: string
  priceId: string | null
}

/** Bills each of them. One that has no price here is charged as the model that was called, and marked. */
export function toWithin(target: Target, others: readonly ModelUsage[], mode: string | null): WithinBill[] {
  return others.map(({ model, usage }) => {
    const price = findPrice(target, model)
    const { pricing, priceId } = price ?? target
    return {
      ...{ upstreamModel: model.slice(0, MAX_NAME), priceId, usage, mode, estimated: false, reportedNanoUsd: null },
      costNanoUsd: costNanoUsd(pricing, usage, mode),
      isUnpriced: price === null ? pricing.length > 0 : findUnpriced(pricing, usage, mode).length > 0,
    }
  })
}

/** A row of the ledger is of bounded length. */
const MAX_NAME = 200

/** The price of a model that its upstream names: also where one name has a date behind it and the other has none. */
function findPrice({ upstream }: Target, model: string): ModelPrice | null {
  const known = upstream.prices.get(model)
  if (known) return known
  const undated = toUndated(model)
  for (const [name, price] of upstream.prices) if (toUndated(name) === undated) return price
  return null
}

const toUndated = (model: string) => model.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2})$/, '')

/** All that was used, of whatever model, for a charge that is of the call as a whole. */
export function joinUsage(usage: Usage, others: readonly ModelUsage[]): Usage {
  if (others.length === 0) return usage
  const sum = { ...usage }
  for (const other of others) addUsage(sum, other.usage)
  return sum
}
