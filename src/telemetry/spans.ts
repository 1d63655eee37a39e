/**
 * Spans of a request in OTLP's JSON (https://opentelemetry.io/docs/specs/otlp/ and opentelemetry-proto 1.x, read in
 * November 2026): one for the request, and one for each call. Never contains content of a request or response.
 */
import type { Call } from '../accounting/call.ts'
import type { Finished } from '../accounting/settle.ts'
import { type GatewayError, UpstreamError } from '../domain/error.ts'
import { toRequestId } from '../domain/id.ts'
import { CLIENT_CLOSED } from '../domain/report-filters.ts'
import { RECORDED_PATHS, type RecordedEndpoint } from '../domain/task.ts'
import type { Trace } from '../domain/trace.ts'
import { NANO_PER_USD } from '../domain/usage.ts'
import { NAMES, OPERATIONS, PROVIDERS } from './gen-ai.ts'

/** Amounts are doubles even if they are whole, since collectors expect one type per name. */
type Value = string | number | boolean | { doubleValue: number } | null | undefined

const SERVER = 2
const CLIENT = 3
const FAILED = { code: 2 }

interface Span {
  name: string
  kind: typeof SERVER | typeof CLIENT
  spanId: string
  parentId: string | null
  fromMs: number
  untilMs: number
  isFailed: boolean
  attributes: Readonly<Record<string, Value>>
}

/** Converts times of the monotonic clock to wall time; `wallMs` is `trace.startedMs`. */
export interface TraceClock {
  wallMs: number
  nowMs: number
}

/** As text, so that the request itself doesn't stay in memory. */
export function toRequestSpans(trace: Trace, { row, calls }: Finished, clock: TraceClock): string[] {
  const { status, httpStatus, errorCode, endpoint, costNanoUsd } = row
  const isLeft = errorCode === CLIENT_CLOSED
  const request = toServerSpan(trace, RECORDED_PATHS[endpoint], clock, {
    isFailed: status !== 'ok' && !isLeft && (status === 'cut' || httpStatus === null || httpStatus >= 500),
    attributes: {
      [NAMES.status]: httpStatus,
      [NAMES.errorType]: status === 'ok' ? null : (errorCode ?? status),
      ...{ 'tollgate.request_id': toRequestId(row.id), 'tollgate.key_id': row.keyId, 'tollgate.team_id': row.teamId },
      ...{ 'tollgate.model': row.model, 'tollgate.stream': row.stream === 1, 'tollgate.attempts': row.attempts },
      'tollgate.cost_usd': { doubleValue: costNanoUsd / NANO_PER_USD },
    },
  })
  return [request, ...calls.map((call) => toCallSpan(trace, endpoint, call, clock))]
}

export const toRejectedSpan = (trace: Trace, route: string, error: GatewayError, clock: TraceClock): string =>
  toServerSpan(trace, route, clock, {
    isFailed: error.status >= 500,
    attributes: {
      [NAMES.status]: error.status,
      [NAMES.errorType]: error.kind,
      'tollgate.request_id': error.requestId,
    },
  })

function toServerSpan(
  trace: Trace,
  route: string,
  { nowMs, wallMs }: TraceClock,
  { isFailed, attributes }: Pick<Span, 'isFailed' | 'attributes'>,
): string {
  return toText(trace, {
    ...{ name: `POST ${route}`, kind: SERVER, spanId: trace.spanId, parentId: trace.parentId, isFailed },
    ...{ fromMs: wallMs, untilMs: wallMs + nowMs - trace.startedMs },
    attributes: { [NAMES.method]: 'POST', [NAMES.route]: route, ...attributes },
  })
}

function toCallSpan(trace: Trace, endpoint: RecordedEndpoint, call: Call, { nowMs, wallMs }: TraceClock): string {
  const { target, meter, spanId, number } = call
  const { upstream, upstreamModel } = target
  const { outcome, usage, error, firstTokenMs } = meter
  const url = upstream.baseUrl === null ? null : URL.parse(upstream.baseUrl)
  const operation = OPERATIONS[endpoint]
  const toWallMs = (ms: number) => wallMs + ms - trace.startedMs
  return toText(trace, {
    ...{ name: `${operation} ${upstreamModel}`, kind: CLIENT, spanId: spanId ?? '', parentId: trace.spanId },
    ...{ fromMs: toWallMs(meter.startedMs), untilMs: toWallMs(meter.endedMs ?? nowMs) },
    isFailed: outcome === 'failed',
    attributes: {
      ...{ [NAMES.operation]: operation, [NAMES.provider]: PROVIDERS[upstream.dialect] },
      [NAMES.requestModel]: upstreamModel,
      ...{ [NAMES.inputTokens]: usage?.prompt, [NAMES.outputTokens]: usage?.completion },
      ...{ [NAMES.serverAddress]: url?.hostname, [NAMES.serverPort]: toPort(url) },
      [NAMES.errorType]: outcome === 'ok' ? null : toErrorType(error, outcome),
      ...{ 'tollgate.upstream': upstream.id, 'tollgate.call': number, 'tollgate.reason': call.row?.reason ?? 'first' },
      'tollgate.upstream_request_id': meter.upstreamRequestId,
      'tollgate.time_to_first_token': firstTokenMs === null ? null : { doubleValue: firstTokenMs / 1_000 },
    },
  })
}

const toPort = (url: URL | null): number | null =>
  url === null ? null : Number(url.port) || (url.protocol === 'https:' ? 443 : 80)

/** A status or a kind: never the upstream's own words. */
const toErrorType = (error: unknown, outcome: string | null): string =>
  error instanceof UpstreamError ? String(error.status ?? error.kind) : (outcome ?? 'aborted')

const toText = ({ traceId, state }: Trace, { isFailed, parentId, attributes, ...span }: Span): string =>
  JSON.stringify({
    ...{ traceId, spanId: span.spanId, name: span.name, kind: span.kind },
    ...(parentId === null ? {} : { parentSpanId: parentId }),
    ...(state === null ? {} : { traceState: state }),
    ...{ startTimeUnixNano: toNanos(span.fromMs), endTimeUnixNano: toNanos(span.untilMs) },
    attributes: toAttributes(attributes),
    ...(isFailed ? { status: FAILED } : {}),
  })

/** Null and undefined are left out. */
export const toAttributes = (all: Readonly<Record<string, Value>>) =>
  Object.entries(all).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : [{ key, value: toValue(value) }],
  )

function toValue(value: NonNullable<Value>) {
  if (typeof value === 'string') return { stringValue: value.slice(0, 256) }
  if (typeof value === 'boolean') return { boolValue: value }
  return typeof value === 'number' ? { intValue: String(value) } : value
}

/** Beyond 2^53, so as text. */
export function toNanos(ms: number): string {
  const whole = Math.floor(ms)
  return `${whole}${String(Math.floor((ms - whole) * 1_000_000)).padStart(6, '0')}`
}
