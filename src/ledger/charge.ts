/** Recalculates a request's charge from recorded counts and price versions, with the same code as the original charge. */
import { toUsage } from '../domain/call-counts.ts'
import { type Charge, toCharge } from '../domain/price.ts'
import type { PriceRow } from '../store/catalog-rows.ts'
import type { StoredCall } from '../store/ledger-rows.ts'
import type { FoundRequest, RequestReader } from '../store/report-store.ts'

/**
 * Basis of a call's charge.
 * - `tokens`: counts and their prices
 * - `reported`: the cost reported by the upstream
 * - `free`: the upstream has no prices
 * - `nothing`: failed before the first token, or never started
 * - `reserve`: the server stopped before it ended, so its reservation is charged
 * - `open`: in flight
 * - `unknown`: the price named in its row is missing
 */
export type Basis = 'tokens' | 'reported' | 'free' | 'nothing' | 'reserve' | 'open' | 'unknown'

export interface ChargedCall extends Omit<StoredCall, 'requestId' | 'instance'> {
  basis: Basis
  /** Price version; null if none was used. */
  price: PriceRow | null
  /** Line by line; null if not based on counts. For reported costs: the charge by the price list. */
  charge: Charge | null
  /** Null if it can't be calculated, or not yet. */
  recalculatedNanoUsd: number | null
}

export interface RequestCharge {
  request: FoundRequest
  calls: ChargedCall[]
  recalculatedNanoUsd: number | null
  /** True if the total and every call match the ledger; null while in flight. */
  matchesLedger: boolean | null
}

export async function readCharge(
  reader: Pick<RequestReader, 'calls' | 'price'>,
  request: FoundRequest,
): Promise<RequestCharge> {
  const calls: ChargedCall[] = []
  for (const { requestId: _, instance: __, ...call } of await reader.calls(request)) {
    const price = call.priceId === null ? null : await reader.price(call.priceId)
    const basis = toBasis(call, price)
    const isCounted = basis === 'tokens' || (basis === 'reported' && price !== null)
    const charge = isCounted ? toCharge(price?.pricing ?? [], toUsage(call), call.mode) : null
    const recalculatedNanoUsd = basis === 'tokens' ? (charge?.nanoUsd ?? null) : toFixed(call, basis)
    calls.push({ ...call, basis, price, charge, recalculatedNanoUsd })
  }
  const sum = calls.reduce<number | null>(
    (before, { recalculatedNanoUsd: next }) => (before === null || next === null ? null : before + next),
    0,
  )
  const isRight = calls.every((call) => call.recalculatedNanoUsd === call.costNanoUsd) && sum === request.costNanoUsd
  return { request, calls, recalculatedNanoUsd: sum, matchesLedger: request.status === 'open' ? null : isRight }
}

type Call = Omit<ChargedCall, 'basis' | 'price' | 'charge' | 'recalculatedNanoUsd'>

function toBasis(call: Call, price: PriceRow | null): Basis {
  if (call.status === 'open') return 'open'
  const isNothing = call.costNanoUsd === 0 && call.promptTokens === 0 && call.completionTokens === 0
  if (isNothing && (call.status === 'failed' || call.status === 'abandoned')) return 'nothing'
  if (call.status === 'abandoned') return 'reserve'
  if (call.reportedNanoUsd !== null) return 'reported'
  if (call.priceId === null) return 'free'
  return price === null ? 'unknown' : 'tokens'
}

function toFixed(call: Call, basis: Basis): number | null {
  if (basis === 'reserve') return call.reservedNanoUsd
  if (basis === 'reported') return call.reportedNanoUsd
  return basis === 'free' || basis === 'nothing' ? 0 : null
}

/** True if the reported cost differs by more than 1% from the price list. */
export function isFar({
  basis,
  charge,
  reportedNanoUsd,
}: Pick<ChargedCall, 'basis' | 'reportedNanoUsd'> & { charge: Pick<Charge, 'nanoUsd'> | null }): boolean {
  if (basis !== 'reported' || charge === null || reportedNanoUsd === null) return false
  return Math.abs(charge.nanoUsd - reportedNanoUsd) * 100 > Math.max(charge.nanoUsd, reportedNanoUsd)
}
