/**
 * Ends a request exactly once: prices it, settles its ledger row and writes its one log line. The relay calls it before
 * the tail of the answer leaves; whatever it learns later about the same request changes nothing.
 */
import type { Log } from '../log.ts'
import type { Ledger } from '../usage/ledger.ts'
import { costNanoUsd } from '../usage/price.ts'
import { type OpenRow, type Outcome, type SettledRow, toWithheld } from '../usage/rows.ts'
import type { PricingItem, Usage } from '../wire/usage.ts'

export interface End {
  status: Outcome['status']
  /** What the client saw: a stream that failed later has said 200. */
  httpStatus: number
  errorCode: string | null
  usage: Usage
  /** Some count of `usage` is ours and not the upstream's. */
  estimated: boolean
  attempts: number
  upstreamRequestId?: string | undefined
  /** A mistake of our own that ended it: the log has it, since no response can tell of it any more. */
  mistake?: unknown
}

export interface Settlement {
  /** Notes that the first token is about to reach the client. */
  firstToken(): void
  /** Resolves to the cost in nano-dollars once the row is durable. Throws `ledger_unavailable`. Later calls repeat the first. */
  settle(end: End): Promise<number>
}

export interface SettlementDeps {
  ledger: Ledger
  log: Log
  row: OpenRow
  pricing: readonly PricingItem[]
}

export function createSettlement({ ledger, log, row, pricing }: SettlementDeps): Settlement {
  const startedAt = performance.now()
  const elapsedMs = () => Math.round(performance.now() - startedAt)
  let firstTokenMs: number | null = null
  let settled: Promise<number> | null = null

  const settle = async (end: End): Promise<number> => {
    const { usage } = end
    const cost = end.status === 'failed' ? 0 : costNanoUsd(pricing, usage)
    const outcome: Outcome = {
      status: end.status,
      httpStatus: end.httpStatus,
      errorCode: end.errorCode,
      durationMs: elapsedMs(),
      firstTokenMs,
      promptTokens: usage.prompt,
      cachedTokens: usage.cacheRead,
      cacheWriteTokens: usage.cacheWrite + usage.cacheWrite1h,
      completionTokens: usage.completion,
      reasoningTokens: usage.reasoning,
      estimated: end.estimated ? 1 : 0,
      costNanoUsd: cost,
      upstreamRequestId: end.upstreamRequestId ?? null,
      attempts: end.attempts,
    }
    const { mistake } = end
    if (mistake !== undefined) {
      const error = mistake instanceof Error ? (mistake.stack ?? mistake.message) : String(mistake)
      log.error('an answer was cut for a reason of our own', { id: row.id, error })
    }
    const settledRow: SettledRow = { ...row, ...outcome }
    try {
      await ledger.settle(settledRow)
    } catch (error) {
      logRequest(log, toWithheld(settledRow))
      throw error
    }
    logRequest(log, settledRow)
    return cost
  }

  return {
    firstToken() {
      firstTokenMs ??= elapsedMs()
    },
    settle(end) {
      settled ??= settle(end)
      return settled
    },
  }
}

function logRequest(log: Log, row: SettledRow): void {
  log.info('request', {
    id: row.id,
    key: row.keyId,
    model: row.model,
    upstream: row.upstream,
    stream: row.stream === 1,
    status: row.status,
    http: row.httpStatus,
    code: row.errorCode,
    ms: row.durationMs,
    first_token_ms: row.firstTokenMs,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    estimated: row.estimated === 1,
    cost_nano_usd: row.costNanoUsd,
  })
}
