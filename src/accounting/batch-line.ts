/** Requests in an upstream's own batch: billed at its batch price, recorded and settled in one record. */
import type { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Key, Target } from '../domain/snapshot.ts'
import { BATCH_MODE, toBatchPricing } from '../domain/tariff.ts'
import type { Lane } from '../domain/task.ts'
import { NO_USAGE, type Receipt, toMode } from '../domain/usage.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { OpenRow, Reserve } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { addBills, type Bill, charge, toBill } from './bill.ts'
import { Call, DisconnectedCalls } from './call.ts'
import { toMostNanoUsd, toReserve } from './cost.ts'
import { type Finished, isAlone, toSettledCalls, toSettledRow } from './settle.ts'

/** Maximum cost of a line, at the batch price. */
export const toBatchReserve = (
  target: Target,
  promptTokens: number,
  completionTokens: number,
  body: AnyRequest,
): Reserve => toReserve(toBatchTarget(target), { promptTokens, completionTokens }, body)

/** Bounds its input by its bytes, as budgets do. */
export const toMostBatchNanoUsd = (target: Target, prompt: number, completion: number, body: AnyRequest): number =>
  toMostNanoUsd(toBatchTarget(target), prompt, completion, body)

const toBatchTarget = (target: Target): Target => ({ ...target, pricing: toBatchPricing(target.pricing) })

export interface LineSettlementDeps {
  ledger: Pick<Ledger, 'settle'>
  counter: Counter
  onFinished(finished: Finished): void
  monotonicMs(): number
}

export interface AnsweredLine {
  key: Pick<Key, 'quotaId' | 'limits'>
  row: OpenRow
  target: Target
  body: AnyRequest
  lane: Lane
  credential: number | null
  upstreamRequestId: string | null
}

/** How the line ended. `lost`: it may have been charged, but its result can't be read, so it costs its reservation. */
export type LineEnd =
  | { kind: 'answer'; events: readonly AnswerEvent[] }
  | { kind: 'failed'; error: UpstreamError; httpStatus: number; errorCode: string }
  | { kind: 'lost' }

/** Throws `ledger_unavailable`. */
export async function settleLine(deps: LineSettlementDeps, line: AnsweredLine, end: LineEnd): Promise<Receipt> {
  const { ledger, counter, onFinished, monotonicMs } = deps
  const { key, row, target, body, lane } = line
  // No client waits for the line, so these are never used.
  const idle = { key, reservation: { releaseSlot() {} }, disconnectedCalls: NOT_READ_ON, monotonicMs }
  const call = new Call(idle, 1, target, body, lane, null)
  const { meter } = call
  meter.upstreamRequestId = line.upstreamRequestId
  meter.credential = line.credential
  if (end.kind === 'answer') meter.take(end.events)
  else if (end.kind === 'failed') meter.fail(end.error)
  else meter.end('cut')
  meter.mode = toMode(...(meter.mode?.split('+') ?? []), BATCH_MODE)
  const bill = end.kind === 'lost' ? toLostBill(call, row) : await toBill(call, 'ok', counter, key.quotaId)
  // The duration says nothing about the upstream's speed.
  meter.durationMs = null
  meter.firstTokenMs = null
  const bills = [bill]
  const sum = isAlone(bills) ? bill : addBills(bills)
  const settled = toSettledRow(row, sum, call, {
    status: bill.status,
    httpStatus: end.kind === 'answer' ? 200 : end.kind === 'failed' ? end.httpStatus : null,
    errorCode: end.kind === 'answer' ? null : end.kind === 'failed' ? end.errorCode : 'lost',
    ...{ durationMs: null, firstTokenMs: null, attempts: 1 },
  })
  await ledger.settle(settled, isAlone(bills) ? undefined : toSettledCalls(row, [call], bills))
  onFinished({ row: settled, reason: null, mistake: undefined, calls: [], before: 0, after: 0, trace: null })
  return { usage: sum.usage, costNanoUsd: sum.costNanoUsd, durationMs: 0 }
}

function toLostBill(call: Call, { reservedPromptTokens: prompt, reservedCompletionTokens: completion }: Reserve): Bill {
  return charge(call, 'cut', { ...NO_USAGE, prompt, completion }, true)
}

const NOT_READ_ON = new DisconnectedCalls({ disconnectGraceMs: 0 })
