/** Traces and metrics for a collector; loaded only with `--otlp`. */
import type { Finished } from '../accounting/settle.ts'
import type { GatewayError } from '../domain/error.ts'
import { keysOf } from '../domain/json.ts'
import type { Environment } from '../domain/snapshot.ts'
import { beginTrace, type Trace } from '../domain/trace.ts'
import type { Log } from '../log.ts'
import { COUNTED, type Counted, READ } from './definitions.ts'
import { Exporter } from './exporter.ts'
import type { Readings } from './exposition.ts'
import type { Registry, Series } from './registry.ts'
import { toAttributes, toNanos, toRejectedSpan, toRequestSpans } from './spans.ts'

export interface TelemetryOptions {
  url: string
  /** Of new traces, from 0 to 1. */
  share: number
  /** ms; 0 = no metrics. */
  metricsMs: number
  environment: Environment
  version: string
  instance: string
  startedMs: number
  registry: Registry
  readings(): Promise<Readings>
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
}

const SCOPE = { name: 'tollgate' }

export function createTelemetry(options: TelemetryOptions) {
  const { url, share, metricsMs, environment, registry, now, monotonicMs, log } = options
  const resource = JSON.stringify({ attributes: toAttributes(toResource(options)) })
  const scope = JSON.stringify(SCOPE)
  const toTraces = (spans: readonly string[]) =>
    `{"resourceSpans":[{"resource":${resource},"scopeSpans":[{"scope":${scope},"spans":[${spans.join(',')}]}]}]}`
  const exporter = new Exporter(
    {
      ...{ url, log, headers: toPairs(environment.OTEL_EXPORTER_OTLP_HEADERS) },
      onDone: (signal, outcome, count) => registry.otlp.add(count, '', signal, outcome),
    },
    toTraces,
  )
  let isWriting = false
  const sendMetrics = async () => {
    if (isWriting) return
    isWriting = true
    try {
      const metrics = await writeMetrics(registry, await options.readings(), options.startedMs, now())
      exporter.setMetrics(
        `{"resourceMetrics":[{"resource":${resource},"scopeMetrics":[{"scope":${scope},"metrics":[${metrics}]}]}]}`,
      )
    } catch (error) {
      log.warn('telemetry_failed', 'cannot read metrics for the collector', { reason: String(error) })
    } finally {
      isWriting = false
    }
  }
  const timer = metricsMs > 0 ? setInterval(sendMetrics, metricsMs).unref() : null

  return {
    begin: (headers: Readonly<Record<string, string | undefined>>): Trace | null =>
      beginTrace(headers, () => Math.random() < share, monotonicMs()),
    finished(finished: Finished): void {
      const { trace, row } = finished
      if (trace?.isSampled)
        exporter.addSpans(toRequestSpans(trace, finished, { wallMs: row.createdMs, nowMs: monotonicMs() }))
    },
    rejected(trace: Trace, createdMs: number, route: string, error: GatewayError): void {
      if (trace.isSampled)
        exporter.addSpans([toRejectedSpan(trace, route, error, { wallMs: createdMs, nowMs: monotonicMs() })])
    },
    async close(): Promise<void> {
      if (timer) {
        clearInterval(timer)
        await sendMetrics()
      }
      await exporter.close()
    },
  }
}

/** Variables of OpenTelemetry add to what is known or replace it. */
const toResource = ({ environment, version, instance }: TelemetryOptions) => ({
  ...{ 'service.name': 'tollgate', 'service.version': version, 'service.instance.id': instance },
  ...toPairs(environment.OTEL_RESOURCE_ATTRIBUTES),
  ...(environment.OTEL_SERVICE_NAME ? { 'service.name': environment.OTEL_SERVICE_NAME } : {}),
})

/** `name=value` pairs with commas; values are URL-encoded (W3C Baggage). Invalid ones are left out. */
export function toPairs(text = ''): Record<string, string> {
  const pairs = text.split(',').flatMap((item): [string, string][] => {
    const [, name, value] = /^\s*([\w.-]+)\s*=\s*(.*?)\s*$/.exec(item) ?? []
    if (name === undefined || value === undefined) return []
    try {
      return [[name, decodeURIComponent(value)]]
    } catch {
      return []
    }
  })
  return Object.fromEntries(pairs)
}

const CUMULATIVE = 2
const SLICE_MS = 2

/** Metrics in JSON, joined with commas; gives way to other work between them. */
async function writeMetrics(registry: Registry, readings: Readings, fromMs: number, nowMs: number): Promise<string> {
  const times = { startTimeUnixNano: toNanos(fromMs), timeUnixNano: toNanos(nowMs) }
  const written: string[] = []
  let sinceMs = performance.now()
  const giveWay = async () => {
    if (performance.now() - sinceMs < SLICE_MS) return
    await new Promise(setImmediate)
    sinceMs = performance.now()
  }
  for (const name of keysOf(COUNTED)) {
    const definition: Counted = COUNTED[name]
    const points: object[] = []
    for (const point of toPoints(definition, registry[name], readings)) {
      points.push({ ...times, ...point })
      await giveWay()
    }
    if (points.length > 0) written.push(JSON.stringify(toMetric(definition, definition.type, points)))
    await giveWay()
  }
  for (const name of keysOf(READ)) {
    const { labels, ...definition } = READ[name]
    const points = [...readings.read[name]()].map((point) => ({
      ...times,
      attributes: toAttributes(Object.fromEntries(labels.map((label, at) => [label, point.labels[at]]))),
      asDouble: point.value,
    }))
    if (points.length > 0) written.push(JSON.stringify(toMetric(definition, definition.type, points)))
    await giveWay()
  }
  return written.join(',')
}

function toMetric(
  { name, help }: Pick<Counted, 'name' | 'help'>,
  type: 'counter' | 'gauge' | 'histogram',
  dataPoints: object[],
) {
  const unit = /_(seconds|bytes|usd)(?:_total)?$/.exec(name)?.[1]
  const units = { seconds: 's', bytes: 'By', usd: '{USD}' }
  const about = { name, description: help, ...(unit === undefined ? {} : { unit: units[unit as keyof typeof units] }) }
  if (type === 'gauge') return { ...about, gauge: { dataPoints } }
  if (type === 'histogram') return { ...about, histogram: { dataPoints, aggregationTemporality: CUMULATIVE } }
  return { ...about, sum: { dataPoints, aggregationTemporality: CUMULATIVE, isMonotonic: true } }
}

function* toPoints({ owner, labels, type, bounds, perUnit }: Counted, series: Series, readings: Readings) {
  const { owners, sets, width } = series
  for (const [id, cells] of owners) {
    for (const [at, values] of sets.entries()) {
      const own = owner === null ? {} : { [owner]: readings.nameOf(owner, id) }
      const more = Object.fromEntries(Object.keys(labels).map((label, each) => [label, values[each]]))
      const attributes = toAttributes({ ...own, ...more })
      const from = at * width
      if (type === 'counter') {
        if (cells[from] !== 0) yield { attributes, asDouble: (cells[from] ?? 0) / perUnit }
        continue
      }
      const counts = [...cells.subarray(from, from + bounds.length + 1)]
      const count = counts.reduce((sum, each) => sum + each, 0)
      const sum = cells[from + bounds.length + 1] ?? 0
      yield { attributes, count: String(count), sum, bucketCounts: counts.map(String), explicitBounds: bounds }
    }
  }
}
