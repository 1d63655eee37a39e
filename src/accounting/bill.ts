/**
 * What a call costs: by what its upstream reported, or else by a count of what it sent, marked as ours. Where a call was
 * broken off before it was reported, what nobody saw is charged by the time that it took: hanging up early is no discount.
 */
import { joinTerms, toCounts } from '../domain/call-counts.ts'
import { asObject } from '../domain/json.ts'
import { costNanoUsd, findUnpriced } from '../domain/price.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { ModelPrice, Target, Upstream } from '../domain/snapshot.ts'
import { addUsage, type ModelUsage, NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Outcome } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { toMostOutput } from '../tokens/estimate.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import type { Call } from './call.ts'
import type { Meter } from './meter.ts'

/** What one call used and costs, rounded once. */
export interface Bill {
  status: Outcome['status']
  usage: Usage
  /** Some count of `usage` is ours and not the upstream's. */
  estimated: boolean
  costNanoUsd: number
  /** How it was served; null for as most are. */
  mode: string | null
  /** What the upstream charged by its own word; null where the price sheet counts. */
  reportedNanoUsd: number | null
  /** Whether something of it has no price: it may not be what it cost. */
  isUnpriced: boolean
  /** What other models come to within the call: not contained in the rest. */
  within: readonly WithinBill[]
}

/**
 * Bills one call. A call that its upstream failed at before the first word costs nothing; one that was broken off costs what
 * it had come to; a figure that is missing is counted. Only what must be counted makes it wait.
 * @param requestStatus how its request ends: that of a call that nobody has ended.
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
    // Who has written what was seen, where several models have, their report alone tells.
    const isTold = meter.isReported && meter.others.length > 0
    const isWhole = status === 'ok' && meter.isReported
    // A whole report that came here lacks the prompt alone.
    const lacking = isWhole ? { ...seen, completion: 0, reasoning: 0, audioCompletion: 0 } : seen
    const known = heard ? (isTold ? heard : toLarger(heard, lacking)) : withSearch(call, seen)
    // What is reported before the first word is what was read, and not what is being thought.
    const isHeard = status === 'ok' || (meter.isReported && meter.firstTokenMs !== null)
    return charge(call, status, isHeard ? known : withUnseen(call, known), true)
  })
}

type BilledCall = Pick<Call, 'target' | 'body' | 'meter' | 'lane'> & Partial<Pick<Call, 'hold'>>

/** Bills a call that needs no count of ours: it is unpaid, or its upstream has reported all of it. Null for any other. */
export function toReportedBill(call: BilledCall, status: Outcome['status']): Bill | null {
  if (call.meter.isUnpaid) return { ...NOTHING, status }
  const heard = status === 'ok' && call.meter.isReported ? toHeard(call, status) : null
  if (heard && lacksPrompt(call.meter)) return null
  return heard && charge(call, status, heard.usage, heard.estimated)
}

/** Whether a report counts what was written and not what was read, as one does that has lost Anthropic's first event. */
const lacksPrompt = ({ usage, chargedNanoUsd }: Pick<Meter, 'usage' | 'chargedNanoUsd'>): boolean =>
  chargedNanoUsd === null && usage !== null && usage.prompt === 0 && usage.completion > 0

/**
 * What the upstream has reported, and whether some of it is a guess of ours: for how long a cache keeps what was written to it, and
 * that it has searched.
 */
function toHeard(call: BilledCall, status: Outcome['status']): { usage: Usage; estimated: boolean } | null {
  const { usage, chargedNanoUsd } = call.meter
  if (usage === null) return null
  const isByPrice = status !== 'ok' || chargedNanoUsd === null
  if (!isByPrice) return { usage, estimated: false }
  const all = withSearch(call, isKeptForHour(call, usage) ? toKeptForHour(usage) : usage)
  return { usage: all, estimated: all !== usage }
}

/**
 * Adds the search that a call has made and its upstream does not count: OpenAI's models that search the web do so once before they
 * answer (https://platform.openai.com/docs/guides/tools-web-search?api-mode=chat), have a fee for it, and say it by what they cite alone.
 * Its Responses API, which passes as it came, tells each one.
 */
function withSearch({ target, body, meter, lane }: BilledCall, usage: Usage): Usage {
  const isPriced = lane === 'translated' && dialectOf(target.upstream).searches === 'cited' && target.pricing.length > 0
  const isUncounted = isPriced && usage.webSearches === 0
  const hasSearched = meter.hasCited || asObject(body.web_search_options) !== null
  return isUncounted && hasSearched ? { ...usage, webSearches: 1 } : usage
}

/**
 * Adds what the call may have written and nobody saw, of a whole answer and of a model that thinks in silence: as much as
 * an upstream writes in that time, within the cap that it was sent.
 */
function withUnseen({ target, body, meter, hold }: BilledCall, known: Usage): Usage {
  const thinks = target.features.includes('reasoning') && !meter.hasReasoned
  if (body.stream && !thinks && !meter.isTooLong) return known
  const perSecond = target.upstream.options.max_tokens_per_second * (body.n ?? 1)
  // Under a budget its hold has grown with the time: no more is charged than was held.
  const held = hold?.isBudgeted ? hold.tokens : toMostOutput(body, target.maxOutputLength)
  const most = Math.min(held, Math.ceil((meter.elapsedMs / 1_000) * perSecond))
  const unseen = Math.max(0, most - known.completion)
  return {
    ...known,
    completion: known.completion + unseen,
    reasoning: known.reasoning + (thinks ? unseen : 0),
  }
}

/** As JSON has it in an object: within a text its quotes would be escaped. */
const FOR_AN_HOUR = '"ttl":"1h"'

/**
 * Whether what a call wrote to a cache costs as kept for an hour: its upstream does not say how long it keeps it (Anthropic's own API
 * does), and its client has asked for an hour. Few calls write, so that few are looked at.
 */
const isKeptForHour = ({ target, body }: Pick<Call, 'target' | 'body'>, { cacheWrite, cacheWrite1h }: Usage): boolean =>
  cacheWrite > 0 &&
  cacheWrite1h === 0 &&
  !dialectOf(target.upstream).tellsCacheLifetime &&
  target.pricing.length > 0 &&
  JSON.stringify(body).includes(FOR_AN_HOUR)

const toKeptForHour = (usage: Usage): Usage => ({ ...usage, cacheWrite: 0, cacheWrite1h: usage.cacheWrite })

/** What costs nothing: it was never answered. */
const NOTHING: Omit<Bill, 'status'> = {
  ...{ usage: NO_USAGE, estimated: false, costNanoUsd: 0, mode: null, reportedNanoUsd: null, isUnpriced: false },
  within: [],
}

/** By what the upstream charged for a whole answer, where it has said so and its word counts; else by the price sheet. */
export function charge(
  call: Pick<Call, 'target' | 'body' | 'meter'>,
  status: Outcome['status'],
  counted: Usage,
  estimated: boolean,
): Bill {
  const { target, meter } = call
  const { pricing } = target
  const usage = meter.workedMs > 0 ? { ...counted, computeMs: toComputeMs(call) } : counted
  const { mode, others } = meter
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
    within: others.length > 0 ? toWithin(target, others, mode) : NOTHING.within,
  }
}

/** What a row of the ledger says of a bill. */
export const toBilled = ({
  usage,
  estimated,
  costNanoUsd,
  mode,
  reportedNanoUsd,
  isUnpriced,
}: Omit<Bill, 'status' | 'within'>) => ({
  ...toCounts(usage),
  estimated: estimated ? 1 : 0,
  costNanoUsd,
  mode,
  reportedNanoUsd,
  unpriced: isUnpriced ? 1 : 0,
})

/** The larger figure counts: some upstreams report while nearly nothing is written, and no more. */
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

/** What one of them comes to. It ends as the call does, and is recorded as a call of its own. */
export interface WithinBill extends Omit<Bill, 'status' | 'within'> {
  upstreamModel: string
  priceId: string | null
}

/** Bills each of them. One that has no price here is charged as the model that was called, and marked. */
function toWithin(target: Target, others: readonly ModelUsage[], mode: string | null): WithinBill[] {
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
function joinUsage(usage: Usage, others: readonly ModelUsage[]): Usage {
  if (others.length === 0) return usage
  const sum = { ...usage }
  for (const other of others) addUsage(sum, other.usage)
  return sum
}

/**
 * The most that a call may be charged for: its deadline. A schema that is enforced here has a stream asked for as a whole answer, so
 * that the later of the two counts for a stream.
 */
export const toMostComputeMs = (
  { deadlines: { total, totalWhole } }: Pick<Upstream, 'deadlines'>,
  { stream }: Pick<AnyRequest, 'stream'>,
): number => (stream ? Math.max(total, totalWhole) : totalWhole)

/**
 * How much compute a call is charged for, to its end or so far, where its price sheet has a price of a second: the time that its upstream
 * was at work on it, and no more than was held for it, though a deadline be noticed late. It begins when the request goes out to the
 * server, so that waiting for a slot or for a model to load is none of it, and again where it is sent once more over another connection.
 * It ends with the answer, as it was read: a client that reads slowly keeps the server's slot, and pays for that. A call that is left,
 * aborted or given up ends then, or once it is read no more. Every other call of a request has time of its own. A local
 * server that Tollgate does not start may queue requests, which Tollgate cannot see: that time counts.
 */
export const toComputeMs = ({ target, body, meter }: Pick<Call, 'target' | 'body' | 'meter'>): number =>
  Math.min(meter.workedMs, toMostComputeMs(target.upstream, body))

/** The sums over the calls of a request, and over what other models come to within them: each is rounded separately. */
export function addBills(bills: readonly Bill[]): Omit<Bill, 'status' | 'within'> {
  const sum = { usage: { ...NO_USAGE }, estimated: false, costNanoUsd: 0 }
  for (const { usage, estimated, costNanoUsd } of bills.flatMap((bill) => [bill, ...bill.within])) {
    addUsage(sum.usage, usage)
    sum.estimated ||= estimated
    sum.costNanoUsd += costNanoUsd
  }
  const { unpriced, ...terms } = joinTerms(bills.flatMap((bill) => [...bill.within, bill].map(toBilled)))
  return { ...sum, ...terms, isUnpriced: unpriced > 0 }
}

/** What a call that has ended is charged; null where it is under way, or where what it came to must first be counted. */
export function toEndedBill(call: Call): Bill | null {
  const { outcome } = call.meter
  return outcome && toReportedBill(call, outcome)
}
