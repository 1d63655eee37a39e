/**
 * Cost of a call, by its upstream's report, or by our own count, which is marked as estimated. Unseen output of an
 * interrupted call is charged by time, so that disconnecting early is no discount.
 */
import { joinTerms, toCounts } from '../domain/call-counts.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { asObject, keysOf } from '../domain/json.ts'
import { costNanoUsd, findUnpriced } from '../domain/price.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { ModelPrice, Target, Upstream } from '../domain/snapshot.ts'
import { isChargedInstead, pricesAny, toPricedMode } from '../domain/tariff.ts'
import { UNIT_NAMES, UNITS, type UnitCounts, withUnits } from '../domain/units.ts'
import { addUsage, type ModelUsage, NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Outcome } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { toMostOutput } from '../tokens/estimate.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import type { Call } from './call.ts'

export interface Bill {
  status: Outcome['status']
  usage: Usage
  /** True if Tollgate made a count in `usage`. */
  estimated: boolean
  costNanoUsd: number
  /** Service mode; null for the default. */
  mode: string | null
  /** The upstream's own charge; null if the price list applies. */
  reportedNanoUsd: number | null
  /** True if some usage has no price, so the actual cost may differ. */
  isUnpriced: boolean
  /** Usage of other models within the call; not included in the rest. */
  nested: readonly NestedBill[]
}

/**
 * A call that failed before the first token costs nothing. An interrupted call costs its usage so far. Counting missing
 * figures makes it asynchronous.
 * @param requestStatus applies to a call that never ended.
 */
export function toBill(
  call: BilledCall,
  requestStatus: Outcome['status'],
  counter: Counter,
  quotaId: string,
): Bill | Promise<Bill> {
  const { body, meter } = call
  const status = meter.outcome ?? (requestStatus === 'ok' ? 'ok' : 'cut')
  const reported = toReportedBill(call, status)
  if (reported) return reported
  const heard = toHeard(call, status)?.usage
  return counter.usage(quotaId, body, meter.captured()).then((seen) => {
    // If several models wrote, only the report tells which.
    const isTold = meter.isReported && meter.others.length > 0
    const isWhole = status === 'ok' && meter.isReported
    // A complete report that reaches this point lacks only the prompt.
    const lacking = isWhole ? { ...seen, completion: 0, reasoning: 0, audioCompletion: 0 } : seen
    const known = heard ? (isTold ? heard : toLarger(heard, lacking)) : withSearch(call, seen)
    // A report before the first token covers only the input.
    const isHeard = status === 'ok' || (meter.isReported && meter.firstTokenMs !== null)
    return charge(call, status, isHeard ? known : withUnseen(call, known), true)
  })
}

type BilledCall = Pick<Call, 'target' | 'body' | 'meter' | 'lane'> & Partial<Pick<Call, 'hold'>>

/** Null if tokens must be counted: the call is neither unpaid nor fully reported. */
export function toReportedBill(call: BilledCall, status: Outcome['status']): Bill | null {
  if (call.meter.isUnpaid) return { ...NOTHING, status }
  const heard = status === 'ok' && call.meter.isReported ? toHeard(call, status) : null
  if (heard && lacksPrompt(call)) return null
  return heard && charge(call, status, heard.usage, heard.estimated)
}

/**
 * True if a report has output but no input, as when Anthropic's first event was lost; or only units, although tokens
 * have a price. Seconds of audio with a price are charged in place of tokens.
 */
function lacksPrompt({ target, body, meter: { usage, chargedNanoUsd } }: Pick<Call, 'target' | 'body' | 'meter'>) {
  if (chargedNanoUsd !== null || usage === null || usage.prompt > 0) return false
  if (!(body instanceof EndpointRequest)) return usage.completion > 0
  if (usage.completion > 0) return true
  const isBySecond = usage.audioMs && target.pricing.some(({ audio_second: price }) => price !== undefined)
  return !isBySecond && body.inputs.length > 0 && target.pricing.some(({ prompt }) => /[1-9]/.test(prompt))
}

/** True in `estimated` if we guessed the lifetime of cache writes, or a web search. */
function toHeard(call: BilledCall, status: Outcome['status']): { usage: Usage; estimated: boolean } | null {
  const { usage, chargedNanoUsd } = call.meter
  if (usage === null) return null
  const isByPrice = status !== 'ok' || chargedNanoUsd === null
  if (!isByPrice) return { usage, estimated: false }
  const all = withSearch(call, isKeptForHour(call, usage) ? toKeptForHour(usage) : usage)
  return { usage: all, estimated: all !== usage }
}

/**
 * OpenAI's chat search models search once per response, for a fee, and show it only by their citations
 * (https://platform.openai.com/docs/guides/tools-web-search?api-mode=chat). The passed-through Responses API reports
 * each search.
 */
function withSearch({ target, body, meter, lane }: BilledCall, usage: Usage): Usage {
  const isPriced = lane === 'translated' && dialectOf(target.upstream).searches === 'cited' && target.pricing.length > 0
  const isUncounted = isPriced && usage.webSearches === 0
  const hasSearched = meter.hasCited || asObject(body.web_search_options) !== null
  return isUncounted && hasSearched ? { ...usage, webSearches: 1 } : usage
}

/**
 * Adds unseen output (of a whole response, or hidden reasoning): as much as an upstream writes in that time,
 * up to its cap.
 */
function withUnseen({ target, body, meter, hold }: BilledCall, known: Usage): Usage {
  const thinks = target.features.includes('reasoning') && !meter.hasReasoned
  if (body.stream && !thinks && !meter.isTooLong) return known
  const perSecond = target.upstream.options.max_tokens_per_second * (body.n ?? 1)
  // Under a budget the hold grew with time, so never charge more than the hold.
  const held = hold?.isBudgeted ? hold.tokens : toMostOutput(body, target.maxOutputLength)
  const most = Math.min(held, Math.ceil((meter.elapsedMs / 1_000) * perSecond))
  const unseen = Math.max(0, most - known.completion)
  return {
    ...known,
    completion: known.completion + unseen,
    reasoning: known.reasoning + (thinks ? unseen : 0),
  }
}

/** Has unescaped quotes, so it can't occur within a JSON string. */
const FOR_AN_HOUR = '"ttl":"1h"'

/**
 * True if cache writes are charged at the one-hour price: the client asked for an hour, and the upstream doesn't report
 * lifetimes (Anthropic's own API does).
 */
const isKeptForHour = ({ target, body }: Pick<Call, 'target' | 'body'>, { cacheWrite, cacheWrite1h }: Usage): boolean =>
  cacheWrite > 0 &&
  cacheWrite1h === 0 &&
  !dialectOf(target.upstream).tellsCacheLifetime &&
  target.pricing.length > 0 &&
  JSON.stringify(body).includes(FOR_AN_HOUR)

const toKeptForHour = (usage: Usage): Usage => ({ ...usage, cacheWrite: 0, cacheWrite1h: usage.cacheWrite })

const NOTHING: Omit<Bill, 'status'> = {
  ...{ usage: NO_USAGE, estimated: false, costNanoUsd: 0, mode: null, reportedNanoUsd: null, isUnpriced: false },
  nested: [],
}

/** By the upstream's own charge for a complete response, else by the price list. */
export function charge(
  call: Pick<Call, 'target' | 'body' | 'meter'>,
  status: Outcome['status'],
  said: Usage,
  isEstimated: boolean,
): Bill {
  const { target, body, meter } = call
  const { pricing } = target
  const own = body instanceof EndpointRequest ? withCounted(body, target, said) : null
  const counted = own?.usage ?? said
  const estimated = isEstimated || own?.isEstimated === true
  const usage = meter.workedMs > 0 ? { ...counted, computeMs: toComputeMs(call) } : counted
  const { variant, others } = meter
  const mode = variant === null ? meter.mode : toPricedMode(pricing, meter.mode, variant)
  const reportedNanoUsd = status === 'ok' ? meter.chargedNanoUsd : null
  if (reportedNanoUsd !== null) {
    const all = joinUsage(usage, others)
    return { ...NOTHING, status, usage: all, estimated, costNanoUsd: reportedNanoUsd, mode, reportedNanoUsd }
  }
  return {
    status,
    usage,
    estimated,
    costNanoUsd: costNanoUsd(pricing, usage, mode),
    mode,
    reportedNanoUsd,
    isUnpriced: findUnpriced(pricing, usage, mode).length > 0,
    nested: others.length > 0 ? toNested(target, others, mode) : NOTHING.nested,
  }
}

/**
 * Adds our own count of units that have a price and that the upstream reported neither directly nor as another measure
 * with a price. If nothing has a price, the count shows that a price is missing.
 */
function withCounted(
  { counted: { isExact = false, countedBy = null, ...units } }: EndpointRequest,
  { pricing }: Pick<Target, 'pricing'>,
  usage: Usage,
): { usage: Usage; isEstimated: boolean } {
  const lacking: UnitCounts = {}
  for (const name of UNIT_NAMES)
    if (
      units[name] &&
      !usage[name] &&
      pricing.some((item) => item[UNITS[name].price] !== undefined && !isChargedInstead(item, usage, name))
    )
      lacking[name] = units[name]
  const own = UNIT_NAMES.findLast((name) => units[name])
  const isUnknown = keysOf(lacking).length === 0 && pricing.length > 0 && !pricesAny(pricing)
  if (own && isUnknown && !usage[own]) lacking[own] = units[own] ?? 0
  if (keysOf(lacking).length === 0) return { usage, isEstimated: false }
  return { usage: withUnits({ ...usage }, { ...lacking, countedBy }), isEstimated: !isExact }
}

export const toBilled = ({
  usage,
  estimated,
  costNanoUsd,
  mode,
  reportedNanoUsd,
  isUnpriced,
}: Omit<Bill, 'status' | 'nested'>) => ({
  ...toCounts(usage),
  estimated: estimated ? 1 : 0,
  costNanoUsd,
  mode,
  reportedNanoUsd,
  unpriced: isUnpriced ? 1 : 0,
})

/** Some upstreams report early and then no more, so the larger figure counts. */
function toLarger(reported: Usage, counted: Usage): Usage {
  const { prompt, audioPrompt, imagePrompt } = reported.prompt > 0 ? reported : counted
  return {
    ...reported,
    ...{ prompt, audioPrompt, imagePrompt },
    completion: Math.max(reported.completion, counted.completion),
    reasoning: Math.max(reported.reasoning, counted.reasoning),
    audioCompletion: Math.max(reported.audioCompletion, counted.audioCompletion),
  }
}

export interface NestedBill extends Omit<Bill, 'status' | 'nested'> {
  upstreamModel: string
  priceId: string | null
}

/** A model without a price here is charged as the model that was called, and marked. */
function toNested(target: Target, others: readonly ModelUsage[], mode: string | null): NestedBill[] {
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

const MAX_NAME = 200

/** Ignores a date suffix that only one of the names has. */
function findPrice({ upstream }: Target, model: string): ModelPrice | null {
  const known = upstream.prices.get(model)
  if (known) return known
  const undated = toUndated(model)
  for (const [name, price] of upstream.prices) if (toUndated(name) === undated) return price
  return null
}

const toUndated = (model: string) => model.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2})$/, '')

function joinUsage(usage: Usage, others: readonly ModelUsage[]): Usage {
  if (others.length === 0) return usage
  const sum = { ...usage }
  for (const other of others) addUsage(sum, other.usage)
  return sum
}

/**
 * Upper bound of billable time: the deadline. A stream with an enforced schema is sent as a whole request, so the
 * longer deadline applies.
 */
export const toMostComputeMs = (
  { deadlines: { total, totalWhole } }: Pick<Upstream, 'deadlines'>,
  { stream }: Pick<AnyRequest, 'stream'>,
): number => (stream ? Math.max(total, totalWhole) : totalWhole)

/**
 * Ms from sending the request (again, if resent over another connection) until the response was read, disconnected, or
 * aborted; at most the reserved time. Excludes Tollgate's queues and model loading. Includes a slow client, which keeps
 * the server's slot, and queues of unmanaged local servers.
 */
export const toComputeMs = ({ target, body, meter }: Pick<Call, 'target' | 'body' | 'meter'>): number =>
  Math.min(meter.workedMs, toMostComputeMs(target.upstream, body))

/** Sums the calls of a request and the models within them, each rounded separately. */
export function addBills(bills: readonly Bill[]): Omit<Bill, 'status' | 'nested'> {
  const sum = { usage: { ...NO_USAGE }, estimated: false, costNanoUsd: 0 }
  for (const { usage, estimated, costNanoUsd } of bills.flatMap((bill) => [bill, ...bill.nested])) {
    addUsage(sum.usage, usage)
    sum.estimated ||= estimated
    sum.costNanoUsd += costNanoUsd
  }
  const { unpriced, ...terms } = joinTerms(bills.flatMap((bill) => [...bill.nested, bill].map(toBilled)))
  return { ...sum, ...terms, isUnpriced: unpriced > 0 }
}

export function toEndedBill(call: Call): Bill | null {
  const { outcome } = call.meter
  return outcome && toReportedBill(call, outcome)
}
