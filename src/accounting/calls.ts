/**
 * The calls of one request. A call is on record before it is made: the first one stands inline in the row that the walk
 * has opened, a further one gets a row of `calls` here, and room in the budget. What each of them used is read off its
 * meter when the request is settled.
 */
import { UpstreamError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { OpenCall, OpenRow } from '../ledger/rows.ts'
import type { Amount, Reservation } from '../limits/limiter.ts'
import { type Estimate, estimate } from '../tokens/estimate.ts'
import { createMeter, type Meter, skip } from './meter.ts'
import { costNanoUsd } from './price.ts'

export interface Call {
  /** From 1 on. */
  number: number
  target: Target
  body: CanonicalRequest
  /** Its row in `calls`; null for the first call. */
  row: OpenCall | null
  meter: Meter
}

export interface Tally {
  /**
   * Gives the call once it is on record. Throws `ledger_unavailable`; `insufficient_quota` where a budget has no room for
   * one more; `aborted` where nobody waits any more.
   */
  begin(
    ask: Pick<Call, 'target' | 'body'> & { reason: OpenCall['reason'] | 'first'; signal: AbortSignal },
    reserve: Reserve,
  ): Call | Promise<Call>
  /** What a call may at most use and cost, if it is begun next. */
  reserveOf(ask: Pick<Call, 'target' | 'body'>): Reserve
  /** How many calls were begun; a first target that was passed over counts as one. */
  count(): number
  /** Id of the upstream that was tried last. */
  upstream(): string
  /** Lets no further call begin and returns all that were, once those on their way to the record are there. */
  close(): readonly Call[] | Promise<readonly Call[]>
}

export interface TallyDeps {
  ledger: Pick<Ledger, 'openCall'>
  row: OpenRow
  /** The target that `row` was opened for. */
  first: Target
  hold: Pick<Reservation, 'raise'>
  /** Wall clock, ms. */
  now(): number
}

/** What a call may at most use and cost, as its row says it. */
export function toReserve({ pricing }: Target, { promptTokens, completionTokens }: Estimate) {
  return {
    reservedPromptTokens: promptTokens,
    reservedCompletionTokens: completionTokens,
    reservedNanoUsd: toMostNanoUsd(pricing, promptTokens, completionTokens),
  }
}

/** Where they have prices of their own, all of a prompt may be written to a cache, and all of an answer be reasoning. */
function toMostNanoUsd(pricing: Target['pricing'], prompt: number, completion: number): number {
  const costOf = (special: Partial<Usage>) => costNanoUsd(pricing, { ...NO_USAGE, prompt, completion, ...special })
  let most = costOf({})
  if (pricing.every(({ input_cache_write, internal_reasoning }) => !input_cache_write && !internal_reasoning))
    return most
  for (const cacheWrite of [0, prompt]) {
    for (const reasoning of [0, completion]) most = Math.max(most, costOf({ cacheWrite, reasoning }))
  }
  return most
}

export type Reserve = ReturnType<typeof toReserve>

export function createTally({ ledger, row, first, hold, now }: TallyDeps): Tally {
  const calls: Call[] = []
  const { reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd } = row
  const own: Reserve = { reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd }
  let numbers = 0
  let closed = false
  const recording: Promise<void>[] = []
  /** Reserves of the calls on their way to the record: several may set out before the first of them is there. */
  const pending = new Set<OpenCall>()

  const record = async (call: Call, opened: OpenCall) => {
    pending.add(opened)
    try {
      await ledger.openCall(opened)
      calls.push(call)
    } finally {
      pending.delete(opened)
    }
  }

  /** Makes room for what all calls have come to or may, and for this one. */
  const raise = (next: OpenCall) => {
    const amount = toAmount(next)
    for (const { tokens, nanoUsd } of [...calls.map(amountOf), ...[...pending].map(toAmount)]) {
      amount.tokens += tokens
      amount.nanoUsd += nanoUsd
    }
    const refusal = hold.raise(amount)
    if (refusal) throw refusal
  }

  /** What a call has come to, or may. Of one that failed nothing is paid. */
  const amountOf = ({ row: further, target, meter: { end, usage } }: Call): Amount => {
    if (end === 'failed') return { tokens: 0, nanoUsd: 0 }
    if (end !== 'ok' || usage === null) return toAmount(further ?? row)
    return { tokens: usage.prompt + usage.completion, nanoUsd: costNanoUsd(target.pricing, usage) }
  }

  /** The row names a target that was not called after all: its provider's limit was reached, or its breaker opened. */
  const passOver = (body: CanonicalRequest) => {
    const call: Call = { number: ++numbers, target: first, body, row: null, meter: createMeter() }
    skip(call.meter, noLongerWanted())
    calls.push(call)
  }

  return {
    reserveOf({ target, body }) {
      // What was worked out already: nearly every request has one call.
      if (numbers === 0 && target === first) return own
      return toReserve(target, estimate(body, target.maxOutputLength))
    },
    count: () => numbers,
    upstream: () => calls.at(-1)?.target.upstream.id ?? row.upstream,
    begin({ target, body, reason, signal }, reserve) {
      if (closed || signal.aborted) throw noLongerWanted()
      const isPassedOver = numbers === 0 && target !== first
      if (isPassedOver) passOver(body)
      if (numbers === 0) {
        const call: Call = { number: ++numbers, target, body, row: null, meter: createMeter() }
        calls.push(call)
        return call
      }
      const opened: OpenCall = {
        requestId: row.id,
        number: numbers + 1,
        instance: row.instance,
        // Nothing was asked of the first target: a crash must not charge it.
        reason: isPassedOver || reason === 'first' ? 'fallback' : reason,
        upstream: target.upstream.id,
        upstreamModel: target.upstreamModel,
        createdMs: now(),
        priceId: target.priceId,
        ...reserve,
      }
      raise(opened)
      const call: Call = { number: ++numbers, target, body, row: opened, meter: createMeter() }
      const recorded = record(call, opened)
      recording.push(recorded)
      return recorded.then(() => {
        if (!closed && !signal.aborted) return call
        const error = noLongerWanted()
        skip(call.meter, error)
        throw error
      })
    },
    close() {
      closed = true
      return recording.length === 0 ? calls : Promise.allSettled(recording).then(() => calls)
    },
  }
}

export const toAmount = (reserve: Reserve): Amount => ({
  tokens: reserve.reservedPromptTokens + reserve.reservedCompletionTokens,
  nanoUsd: reserve.reservedNanoUsd,
})

const noLongerWanted = () => new UpstreamError('aborted', 'nobody waits for the answer any more', { retryable: false })
