/** Counts settled and rejected requests. Runs once per request, so it only adds numbers. */
import type { Call } from '../accounting/call.ts'
import type { Finished } from '../accounting/settle.ts'
import { ERROR_KINDS, type ErrorKind, toErrorRow, UpstreamError } from '../domain/error.ts'
import { UNIT_COLUMNS, UNIT_NAMES } from '../domain/units.ts'
import type { SettledRow } from '../store/ledger-rows.ts'
import type { CALL_OUTCOMES, STATUSES } from './definitions.ts'
import { OTHER } from './definitions.ts'
import type { Registry } from './registry.ts'

const KINDS: ReadonlyMap<string, ErrorKind> = new Map(ERROR_KINDS.map((kind) => [toErrorRow(kind).code ?? kind, kind]))

/** Shorter streams are too short to measure speed. */
const MIN_TOKENS = 16
const MIN_MS = 100

export function countFinished(registry: Registry, { row, calls, before, after, trace }: Finished): void {
  const traceId = trace?.isSampled ? trace.traceId : null
  const { model, endpoint, teamId, upstream, errorCode, durationMs, firstTokenMs, costNanoUsd } = row
  const status = toStatus(row)
  registry.requests.add(1, model, endpoint, status)
  registry.cost.add(costNanoUsd, model)
  registry.upstreamCost.add(costNanoUsd, upstream)
  if (errorCode !== null) registry.errors.add(1, '', toReason(row, errorCode))
  countTokens(registry.tokens, row, model)
  for (const [at, unit] of UNIT_NAMES.entries()) registry.units.add(row[unit] ?? 0, model, UNIT_COLUMNS[at])
  if (teamId !== null) {
    registry.teamRequests.add(1, teamId, status)
    registry.teamCost.add(costNanoUsd, teamId)
    countTokens(registry.teamTokens, row, teamId)
  }
  if (durationMs !== null && row.status === 'ok') registry.duration.observe(durationMs / 1_000, model, '', traceId)
  if (row.stream === 1 && firstTokenMs !== null) {
    registry.firstToken.observe(firstTokenMs / 1_000, model, '', traceId)
    const ms = (durationMs ?? 0) - firstTokenMs
    if (row.status === 'ok' && row.completionTokens >= MIN_TOKENS && ms >= MIN_MS)
      registry.speed.observe(((row.completionTokens - 1) / ms) * 1_000, model)
  }
  // Null for responses from an upstream's own batch.
  if (durationMs !== null) {
    registry.overhead.observe(Math.max(0, before) / 1_000, '', 'before')
    registry.overhead.observe(Math.max(0, after) / 1_000, '', 'after')
  }
  for (const call of calls) countCall(registry, call)
}

export const countRejected = ({ rejected }: Registry, kind: ErrorKind): void => rejected.add(1, '', kind)

function countTokens(series: Registry['tokens'], row: SettledRow, owner: string): void {
  const written = row.cacheWriteTokens + row.cacheWrite1hTokens
  // Cache reads and writes may overlap.
  series.add(Math.max(0, row.promptTokens - row.cachedTokens - written), owner, 'input')
  series.add(row.cachedTokens, owner, 'cache_read')
  series.add(written, owner, 'cache_write')
  series.add(Math.max(0, row.completionTokens - row.reasoningTokens), owner, 'output')
  series.add(row.reasoningTokens, owner, 'reasoning')
}

function countCall({ calls, callDuration }: Registry, { row, target: { upstream }, meter }: Call): void {
  calls.add(1, upstream.id, row?.reason ?? 'first', toOutcome(meter))
  if (meter.durationMs !== null) callDuration.observe(meter.durationMs / 1_000, upstream.id)
}

function toStatus({ status, httpStatus }: SettledRow): (typeof STATUSES)[number] {
  if (status === 'ok') return '2xx'
  if (status === 'cut') return 'cut'
  return httpStatus !== null && httpStatus < 500 ? '4xx' : '5xx'
}

/** Providers can send any code, so these count by their meaning in Tollgate. */
function toReason({ status, httpStatus }: SettledRow, code: string): string {
  const isRejected = status === 'failed' && httpStatus !== null && httpStatus < 500
  return KINDS.get(code) ?? (isRejected ? 'upstream_rejected' : OTHER)
}

function toOutcome({ outcome, error }: Call['meter']): (typeof CALL_OUTCOMES)[number] {
  if (outcome === 'ok' || outcome === 'cut') return outcome
  if (!(error instanceof UpstreamError)) return 'aborted'
  if (error.kind !== 'status') return error.kind
  if (error.status === 429) return '429'
  return error.status !== null && error.status < 500 ? '4xx' : '5xx'
}
