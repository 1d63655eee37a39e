/** Traces and metrics for a collector; loaded only with `--otlp`. */
import type { Finished } from '../accounting/settle.ts'
import type { GatewayError } from '../domain/error.ts'
import { keysOf } from '../domain/json.ts'
import type { Environment } from '../domain/snapshot.ts'
import { beginTrace, type Trace } from '../domain/trace.ts'
import type { Log } from '../log.ts'
import { Turns } from '../threads/turns.ts'
import { COUNTED, type Counted, READ, type Read, TURN_MS, type Unit, unitOf } from './definitions.ts'
import { Exporter } from './exporter.ts'
import type { Point, Readings } from './exposition.ts'
import type { Registry, Series } from './registry.ts'
import { toAttributes, toNanos, toRejectedSpan, toRequestSpans } from './spans.ts'

export interface TelemetryOptions {
  url: string
  /** Share of new traces, from 0 to 1. */
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

/** OpenTelemetry's variables add to these attributes or override them. */
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

/** Metrics in JSON, joined with commas; yields to other work between them. */
async function writeMetrics(registry: Registry, readings: Readings, fromMs: number, nowMs: number): Promise<string> {
  const times = { startTimeUnixNano: toNanos(fromMs), timeUnixNano: toNanos(nowMs) }
  const written: string[] = []
  const turns = new Turns(TURN_MS)
  const write = async (definition: Counted | Read, points: Iterable<object>) => {
    const texts: string[] = []
    for (const point of points) {
      texts.push(JSON.stringify({ ...times, ...point }))
      if (turns.isOver) await turns.next()
    }
    if (texts.length > 0) written.push(toMetric(definition, texts))
  }
  for (const name of keysOf(COUNTED)) await write(COUNTED[name], toPoints(COUNTED[name], registry[name], readings))
  for (const name of keysOf(READ)) await write(READ[name], toReadPoints(READ[name], readings.read[name]()))
  return written.join(',')
}

/** @param points in JSON: stringifying thousands at once would delay requests. */
function toMetric({ name, help, type }: Pick<Counted | Read, 'name' | 'help' | 'type'>, points: readonly string[]) {
  const unit = unitOf(name)
  const about = { name, description: help, ...(unit === null ? {} : { unit: UNITS[unit] }) }
  const [kind, more] = KINDS[type]
  return `${JSON.stringify(about).slice(0, -1)},"${kind}":{${more}"dataPoints":[${points.join(',')}]}}`
}

/** As OTLP writes them (UCUM). */
const UNITS: Readonly<Record<Unit, string>> = { seconds: 's', bytes: 'By', usd: '{USD}' }

/** Names and fields of OTLP. */
const KINDS = {
  gauge: ['gauge', ''],
  histogram: ['histogram', `"aggregationTemporality":${CUMULATIVE},`],
  counter: ['sum', `"aggregationTemporality":${CUMULATIVE},"isMonotonic":true,`],
} as const

function* toReadPoints({ labels }: Read, points: Iterable<Point>) {
  for (const { labels: values, value } of points) {
    const attributes = toAttributes(Object.fromEntries(labels.map((label, at) => [label, values[at]])))
    yield { attributes, asDouble: value }
  }
}

function* toPoints({ owner, labels, type, bounds, perUnit }: Counted, series: Series, readings: Readings) {
  const { owners, sets, width } = series
  for (const [id, cells] of owners) {
    for (const [at, values] of sets.entries()) {
      const from = at * width
      if (type === 'counter' && cells[from] === 0) continue
      const own = owner === null ? {} : { [owner]: readings.nameOf(owner, id) }
      const more = Object.fromEntries(Object.keys(labels).map((label, each) => [label, values[each]]))
      const attributes = toAttributes({ ...own, ...more })
      if (type === 'counter') {
        yield { attributes, asDouble: (cells[from] ?? 0) / perUnit }
        continue
      }
      const counts = [...cells.subarray(from, from + bounds.length + 1)]
      const count = counts.reduce((sum, each) => sum + each, 0)
      const sum = cells[from + bounds.length + 1] ?? 0
      yield { attributes, count: String(count), sum, bucketCounts: counts.map(String), explicitBounds: bounds }
    }
  }
}
