/**
 * Ends a request exactly once: bills its calls, frees what it had reserved, settles its ledger row and writes its one
 * log line. The relay calls it before the tail of the answer leaves; whatever it learns later about the same request
 * changes nothing.
 */

import type { Usage } from '../domain/usage.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { type OpenRow, type Outcome, type SettledRow, toWithheld } from '../ledger/rows.ts'
import type { Reservation } from '../limits/limiter.ts'
import { type Log, traceOf } from '../log.ts'
import type { Counter } from '../tokens/count.ts'
import { addBills, type Bill, toBill, toSettledCall } from './bill.ts'
import type { Tally } from './calls.ts'

interface End {
  status: Outcome['status']
  /** What the client saw: a stream that failed later has said 200. */
  httpStatus: number
  errorCode: string | null
  /** Why the upstream failed, for the log. */
  reason?: string | null
  /** A mistake of our own that ended it: the log has it, since no response can tell of it any more. */
  mistake?: unknown
}

/** What the client is told about its request: the sums over its calls. */
interface Receipt {
  usage: Usage
  costNanoUsd: number
}

export interface Settlement {
  /** Notes that the first token is about to reach the client. */
  firstToken(): void
  /** Resolves once the row is durable. Throws `ledger_unavailable`. Later calls repeat the first. */
  settle(end: End): Promise<Receipt>
  /** How many calls were made so far. */
  attempts(): number
  /** Id of the upstream that was tried last. */
  upstream(): string
}

export interface SettlementDeps {
  ledger: Ledger
  counter: Counter
  log: Log
  row: OpenRow
  tally: Tally
  /** What was reserved for the request on its key and team. */
  hold: Pick<Reservation, 'releaseSlot' | 'settle'>
}

export function createSettlement({ ledger, counter, log, row, tally, hold }: SettlementDeps): Settlement {
  const startedAt = performance.now()
  const elapsedMs = () => Math.round(performance.now() - startedAt)
  let firstTokenMs: number | null = null
  let settled: Promise<Receipt> | null = null

  const settle = async (end: End): Promise<Receipt> => {
    const durationMs = elapsedMs()
    // A count may take its time, and nothing is under way any more.
    hold.releaseSlot()
    const closing = tally.close()
    const calls = closing instanceof Promise ? await closing : closing
    const bills: Bill[] = []
    for (const call of calls) {
      const bill = toBill(call, end.status, counter)
      bills.push(bill instanceof Promise ? await bill : bill)
    }
    const { usage, estimated, costNanoUsd } = addBills(bills)
    hold.settle({ tokens: usage.prompt + usage.completion, nanoUsd: costNanoUsd })
    const last = calls.at(-1)
    const outcome: Outcome = {
      status: end.status,
      httpStatus: end.httpStatus,
      errorCode: end.errorCode,
      durationMs,
      firstTokenMs,
      promptTokens: usage.prompt,
      cachedTokens: usage.cacheRead,
      cacheWriteTokens: usage.cacheWrite + usage.cacheWrite1h,
      completionTokens: usage.completion,
      reasoningTokens: usage.reasoning,
      estimated: estimated ? 1 : 0,
      costNanoUsd,
      upstreamRequestId: last?.meter.upstreamRequestId ?? null,
      attempts: Math.max(1, calls.length),
    }
    if (end.mistake !== undefined) logMistake(log, row.id, end.mistake)
    const settledRow: SettledRow = { ...row, ...outcome }
    if (last) {
      settledRow.upstream = last.target.upstream.id
      settledRow.upstreamModel = last.target.upstreamModel
      settledRow.priceId = last.target.priceId
    }
    const further = calls.length > 1 ? calls.flatMap((call, i) => toSettledCall(call, bills[i])) : undefined
    try {
      await ledger.settle(settledRow, further)
    } catch (error) {
      logRequest(log, toWithheld(settledRow), end.reason)
      throw error
    }
    logRequest(log, settledRow, end.reason)
    return { usage, costNanoUsd }
  }

  return {
    firstToken() {
      firstTokenMs ??= elapsedMs()
    },
    settle(end) {
      settled ??= settle(end)
      return settled
    },
    attempts: tally.count,
    upstream: tally.upstream,
  }
}

function logMistake(log: Log, id: string, mistake: unknown): void {
  log.error('an answer was cut for a reason of our own', { id, error: traceOf(mistake) })
}

function logRequest(log: Log, row: SettledRow, reason: string | null | undefined): void {
  log.info('request', {
    id: row.id,
    key: row.keyId,
    model: row.model,
    upstream: row.upstream,
    stream: row.stream === 1,
    status: row.status,
    http: row.httpStatus,
    code: row.errorCode,
    ...(reason ? { reason } : {}),
    attempts: row.attempts,
    ms: row.durationMs,
    first_token_ms: row.firstTokenMs,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    estimated: row.estimated === 1,
    cost_nano_usd: row.costNanoUsd,
  })
}
