/**
 * The calls of one request. A call is on record before it is made: the first one stands inline in the row that the walk
 * has opened, a further one gets a row of `calls` here. What each of them used is read off its meter when the request
 * is settled.
 */
import { UpstreamError } from '../error.ts'
import { type Estimate, estimate } from '../limits/estimate.ts'
import type { Target } from '../store/snapshot.ts'
import type { Ledger } from '../usage/ledger.ts'
import { costNanoUsd } from '../usage/price.ts'
import type { OpenCall, OpenRow } from '../usage/rows.ts'
import type { ChatRequest } from '../wire/request.ts'
import { NO_USAGE } from '../wire/usage.ts'
import { createMeter, type Meter, skip } from './meter.ts'

export interface Call {
  /** From 1 on. */
  number: number
  target: Target
  body: ChatRequest
  /** Its row in `calls`; null for the first call. */
  row: OpenCall | null
  meter: Meter
}

export interface Tally {
  /** Gives the call once it is on record. Throws `ledger_unavailable`, or `aborted` where nobody waits any more. */
  begin(
    ask: Pick<Call, 'target' | 'body'> & { reason: OpenCall['reason'] | 'first'; signal: AbortSignal },
  ): Call | Promise<Call>
  /** How many calls were begun. */
  count(): number
  /** Id of the upstream that was tried last. */
  upstream(): string
  /** Lets no further call begin and returns all that were, once those on their way to the record are there. */
  close(): readonly Call[] | Promise<readonly Call[]>
}

export interface TallyDeps {
  ledger: Pick<Ledger, 'openCall'>
  row: OpenRow
  /** Wall clock, ms. */
  now(): number
}

/** What a call may at most use and cost, as its row says it. */
export function toReserve({ pricing }: Target, { promptTokens, completionTokens }: Estimate) {
  return {
    reservedPromptTokens: promptTokens,
    reservedCompletionTokens: completionTokens,
    reservedNanoUsd: costNanoUsd(pricing, { ...NO_USAGE, prompt: promptTokens, completion: completionTokens }),
  }
}

export function createTally({ ledger, row, now }: TallyDeps): Tally {
  const calls: Call[] = []
  let numbers = 0
  let closed = false
  const recording: Promise<void>[] = []

  const record = async (call: Call, opened: OpenCall) => {
    await ledger.openCall(opened)
    calls.push(call)
  }

  return {
    count: () => numbers,
    upstream: () => calls.at(-1)?.target.upstream.id ?? row.upstream,
    begin({ target, body, reason, signal }) {
      if (closed || signal.aborted) throw noLongerWanted()
      const call: Call = { number: ++numbers, target, body, row: null, meter: createMeter() }
      if (call.number === 1 || reason === 'first') {
        calls.push(call)
        return call
      }
      call.row = {
        requestId: row.id,
        number: call.number,
        instance: row.instance,
        reason,
        upstream: target.upstream.id,
        upstreamModel: target.upstreamModel,
        createdMs: now(),
        priceId: target.priceId,
        ...toReserve(target, estimate(body, target.maxOutputLength)),
      }
      const recorded = record(call, call.row)
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

const noLongerWanted = () => new UpstreamError('aborted', 'nobody waits for the answer any more', { retryable: false })
