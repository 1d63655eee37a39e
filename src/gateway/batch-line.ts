/**
 * A line of a batch that its upstream runs in its own batch. Written like a normal request to the model's first target, and settled once
 * its result arrives. No other upstream is tried.
 */
import {
  type AnsweredLine,
  type LineEnd,
  settleLine,
  toBatchReserve,
  toMostBatchNanoUsd,
} from '../accounting/batch-line.ts'
import { toHeldOutput } from '../accounting/cost.ts'
import { BATCH_PATHS, type BatchRequests } from '../domain/dialects.ts'
import { type Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import { toRequestId } from '../domain/id.ts'
import { keysOf } from '../domain/json.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Key, Snapshot, Target } from '../domain/snapshot.ts'
import { toBatchPricing } from '../domain/tariff.ts'
import type { PassthroughRequest, Task } from '../domain/task.ts'
import type { Receipt } from '../domain/usage.ts'
import type { Format } from '../formats/format.ts'
import { type Capabilities, resolve as resolveModel } from '../routing/route.ts'
import type { OpenRow, Reserve } from '../store/ledger-rows.ts'
import { bytesOfExtras } from '../tokens/estimate.ts'
import type { LineOutcome } from '../upstreams/batches/protocol.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { type CallFormat, loadCallFormat } from '../upstreams/http-call.ts'
import { toGatewayError } from './delivery.ts'
import { type ResolveDeps, resolve, toAble, toPassthrough } from './eligibility.ts'
import { isSplit } from './fan-out.ts'
import type { HandleDeps } from './handle.ts'
import { toBatches } from './input-batches.ts'
import { isEnforced } from './structured-plan.ts'

/**
 * The model's first target, if the upstream takes batches and the target has a batch price; else null.
 * @param asked ID or alias.
 */
export function findBatchTarget(snapshot: Snapshot, key: Key, asked: string): Target | null {
  const found = resolveModel(snapshot, key, asked)
  const target = found instanceof GatewayError ? undefined : found.targets[0]
  return target && mayBatch(target) ? target : null
}

function mayBatch({ upstream, pricing }: Target): boolean {
  const hasBatches = (upstream.options.batches?.length ?? 0) > 0 && upstream.baseUrl !== null
  return hasBatches && toBatchPricing(pricing).length > 0 && dialectOf(upstream).authority(upstream) === null
}

/** A line as sent to its upstream, and how to read the response. */
export interface UpstreamLine {
  task: Task
  target: Target
  body: AnyRequest
  passthrough: PassthroughRequest | null
  wire: { path: string; body: string }
  reader: CallFormat['reader']
  reserve: Reserve
  /** Maximum cost, for budgets: one input token per byte. */
  mostNanoUsd: number
}

export interface AskedLine {
  format: Format
  /** JSON. */
  body: string
  facts: Capabilities
  target: Target
}

/** Checks that the key may send the line and the target can take it. Null if it needs several calls, or retries to meet a schema. */
export async function prepareLine(
  deps: ResolveDeps,
  { snapshot, key, ...asked }: AskedLine & { snapshot: Snapshot; key: Key },
): Promise<Decision<UpstreamLine | null>> {
  const { target } = asked
  const line = await readLine(asked)
  if (line === null || line instanceof GatewayError) return line
  const resolved = await resolve(deps, { snapshot, key, task: line.task })
  if (resolved instanceof GatewayError) return resolved
  return resolved.eligible.includes(target) ? line : null
}

/** Returns the same each time. Null as above. */
export async function readLine({
  format,
  body: text,
  facts,
  target,
}: AskedLine): Promise<Decision<UpstreamLine | null>> {
  const asked = format.toTask(JSON.parse(text), { text, headers: {} })
  if (asked instanceof GatewayError) return asked
  const task = toAble(asked, facts, [target])
  const body: AnyRequest = task.body
  const { load } = dialectOf(target.upstream)
  if (load === null || isSplit(body, target) || isEnforced(body, target) || toBatches(body, target).length > 1)
    return null
  const passthrough = toPassthrough(task).of(target)
  let written: CallFormat
  try {
    written = await loadCallFormat(await load(), { body, passthrough, target })
  } catch (error) {
    return toGatewayError(error, target.upstream.id)
  }
  const { wire, reader } = written
  const pieces = [wire.body, ...(wire.rest ?? [])]
  if (!takes(target, wire.path) || !pieces.every((piece) => typeof piece === 'string')) return null
  const completion = toHeldOutput(body, target.maxOutputLength, false) * (body.n ?? 1)
  return {
    ...{ task, target, body, passthrough, reader },
    wire: { path: toBatchPath(wire.path), body: pieces.join('') },
    reserve: toBatchReserve(target, task.promptTokens, completion, body),
    mostNanoUsd: toMostBatchNanoUsd(target, task.maxPromptTokens + bytesOfExtras(body), completion, body),
  }
}

/** Drops the version, which Anthropic's base URL may lack, and the query. */
const toBatchPath = (path: string) => path.replace(/\?.*/, '').replace(/^\/v1\//, '/')

function takes({ upstream: { options } }: Target, path: string): boolean {
  const name: BatchRequests | undefined = keysOf(BATCH_PATHS).find((one) => BATCH_PATHS[one] === toBatchPath(path))
  return name !== undefined && (options.batches?.includes(name) ?? false)
}

export interface LineSettlement {
  format: Format
  line: UpstreamLine
  key: Pick<Key, 'quotaId' | 'limits'>
  row: Pick<OpenRow, 'id' | 'instance' | 'keyId' | 'teamId' | 'createdMs'>
  /** Model ID in the catalog. */
  model: string
  credential: number | null
  outcome: Exclude<LineOutcome, { kind: 'unanswered' }> | { kind: 'lost' }
  /** True if an earlier server settled the row: then only the response is written. */
  isSettled: boolean
}

export interface SettledLine {
  status: number
  /** JSON; null if the result is lost. */
  body: string | null
  receipt: Receipt
}

type SettleDeps = Pick<HandleDeps, 'ledger' | 'counter' | 'onFinished' | 'monotonicMs'>

/** Throws `ledger_unavailable`. */
export async function settleBatchLine(deps: SettleDeps, settlement: LineSettlement): Promise<SettledLine> {
  const { format, line, key, model, outcome, isSettled } = settlement
  const { id, createdMs } = settlement.row
  const { task, target, body, passthrough } = line
  const answered: AnsweredLine = {
    ...{ key, target, body, credential: settlement.credential },
    row: toRow(settlement),
    lane: passthrough ? 'native' : 'translated',
    upstreamRequestId: outcome.kind === 'lost' ? null : outcome.requestId,
  }
  const settle = (end: LineEnd): Promise<Receipt> =>
    isSettled ? settleLine({ ...deps, ...NOWHERE }, answered, end) : settleLine(deps, answered, end)
  if (outcome.kind === 'lost') return { status: 502, body: null, receipt: await settle({ kind: 'lost' }) }
  const events = outcome.kind === 'answer' ? readAnswer(settlement, outcome) : outcome.error
  if (events instanceof UpstreamError) {
    events.upstream ??= target.upstream.id
    const error = toGatewayError(events)
    error.requestId = toRequestId(id)
    const errorCode = error.code ?? error.kind
    const receipt = await settle({ kind: 'failed', error: events, httpStatus: error.status, errorCode })
    const status = format.status?.(error) ?? error.status
    return { status, body: JSON.stringify(format.error(error)), receipt }
  }
  const receipt = await settle({ kind: 'answer', events })
  const identity = { id, created: Math.floor(createdMs / 1_000), model }
  const text =
    passthrough && format.passthrough
      ? format.passthrough.whole(identity, events)
      : format.whole(task, identity, events, receipt)
  return { status: 200, body: typeof text === 'string' ? text : [...text].join(''), receipt }
}

const NOWHERE: Pick<SettleDeps, 'onFinished'> & { ledger: Pick<HandleDeps['ledger'], 'settle'> } = {
  ledger: { settle: async () => {} },
  onFinished() {},
}

function readAnswer(
  { line: { reader, target, body }, row: { id } }: LineSettlement,
  { json, text }: Extract<LineOutcome, { kind: 'answer' }>,
): readonly AnswerEvent[] | UpstreamError {
  const expected = { target, choices: body.n ?? 1, logprobs: body.logprobs === true, callId: `${id}-1`, body }
  try {
    const events = reader.whole(json, expected, text)
    const last = events.at(-1)
    return last?.kind === 'failure' ? last.error : events
  } catch (error) {
    if (error instanceof UpstreamError) return error
    throw error
  }
}

const toRow = ({ line, row, model }: LineSettlement): OpenRow => ({
  ...row,
  ...{ model, endpoint: line.task.endpoint, lane: line.passthrough ? 'native' : 'translated' },
  ...{ upstream: line.target.upstream.id, upstreamModel: line.target.upstreamModel, priceId: line.target.priceId },
  ...{ stream: 0, user: line.task.user, ...line.reserve },
})
