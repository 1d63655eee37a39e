/**
 * Works out again what a request was charged, call by call, from what is on record alone: tokens, ms of compute, and the version of the
 * price that each call was charged by. It calculates as the charge was calculated, by the same code, and says where the two differ.
 */
import { toUsage } from '../domain/call-counts.ts'
import { type Charge, toCharge } from '../domain/price.ts'
import type { PriceRow } from '../store/catalog-rows.ts'
import type { StoredCall, StoredRequest } from '../store/ledger-rows.ts'
import type { RequestReader } from '../store/report-store.ts'

/**
 * By what a call is charged: `tokens`, with what else is counted, and their price; `reported`: what its upstream charged by its own word; `free`: where it went nothing has a price; `nothing`: it failed before its
 * first word, or was never made; `reserve`: the server was gone before it ended, and what it had reserved is what it costs;
 * `open`: it is under way; `unknown`: the price that its row names is not on record.
 */
export type Basis = 'tokens' | 'reported' | 'free' | 'nothing' | 'reserve' | 'open' | 'unknown'

/** A call under its columns. */
export interface ChargedCall extends Omit<StoredCall, 'requestId' | 'instance'> {
  basis: Basis
  /** The version of the price; null where it is charged by none. */
  price: PriceRow | null
  /** Line by line; null where it is not charged by tokens. Of what was reported: what it would be by the price. */
  charge: Charge | null
  /** What it comes to; null where that cannot be said, or not yet. */
  recalculatedNanoUsd: number | null
}

export interface RequestCharge {
  request: StoredRequest
  calls: ChargedCall[]
  /** The sum over the calls; null where one of them cannot be worked out. */
  recalculatedNanoUsd: number | null
  /** Whether that is what the ledger says, of the whole and of each call; null while the request is under way. */
  matchesLedger: boolean | null
}

/** Works out the charge of a request. */
export async function readCharge(
  reader: Pick<RequestReader, 'calls' | 'price'>,
  request: StoredRequest,
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

/** Whether what an upstream charged is more than a hundredth off what it would be by the price. */
export function isFar({
  basis,
  charge,
  reportedNanoUsd,
}: Pick<ChargedCall, 'basis' | 'reportedNanoUsd'> & { charge: Pick<Charge, 'nanoUsd'> | null }): boolean {
  if (basis !== 'reported' || charge === null || reportedNanoUsd === null) return false
  return Math.abs(charge.nanoUsd - reportedNanoUsd) * 100 > Math.max(charge.nanoUsd, reportedNanoUsd)
}
