/** Traces and metrics of a whole server, as a collector and an upstream see them. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway } from '../support/gateway.ts'
import { type Several, startSeveral } from '../support/several-upstreams.ts'
import { until } from '../support/until.ts'
import { errorAnswer } from '../support/upstream-answers.ts'

interface Attribute {
  key: string
  value: Record<string, unknown>
}
interface Span {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: Attribute[]
  status?: { code: number }
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const SECRET = 'a question that no collector may see'

let spans: Span[] = []
let documents: { path: string; text: string }[] = []
const collector = Bun.serve({
  port: 0,
  async fetch(request) {
    const text = await request.text()
    documents.push({ path: new URL(request.url).pathname, text })
    const { resourceSpans = [] } = JSON.parse(text)
    for (const { scopeSpans } of resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans)
    return new Response('{}')
  },
})

let several: Several
beforeAll(async () => {
  const otlp = collector.url.origin
  several = await startSeveral({ config: { otlp, otlpSample: 1, otlpMetricsMs: 60_000 } })
})
afterAll(() => collector.stop(true))

const take = async (count: number): Promise<Span[]> => {
  await until('spans', () => spans.length >= count)
  const taken = spans
  spans = []
  documents = []
  return taken
}
const attributesOf = ({ attributes }: Span) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

test('a request is a span, each call a child of it, and the upstream gets the child’s ID', async () => {
  several.first.script(errorAnswer(500))
  const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'congo=1' }
  const messages = [{ role: 'user', content: SECRET }]
  expect((await several.chat({ messages, user: 'user-123' }, { headers })).status).toBe(200)
  await until('spans', () => spans.length >= 3)
  expect(JSON.stringify(documents)).not.toMatch(/question|user-123|this is second/)
  const [request, failed, ok] = await take(3)
  several.calm()
  if (!request || !failed || !ok) throw new Error('spans are missing')
  expect(request).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, name: 'POST /v1/chat/completions', kind: 2 })
  expect(request.status).toBeUndefined()
  expect(attributesOf(request)).toMatchObject({ 'http.response.status_code': '200', 'tollgate.attempts': '2' })
  // Or each request would count as a generation.
  expect(Object.keys(attributesOf(request)).filter((name) => name.startsWith('gen_ai'))).toEqual([])
  for (const call of [failed, ok]) {
    expect(call).toMatchObject({ traceId: TRACE, parentSpanId: request.spanId, kind: 3 })
    expect(BigInt(call.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(request.startTimeUnixNano))
    expect(BigInt(call.endTimeUnixNano)).toBeLessThanOrEqual(BigInt(request.endTimeUnixNano))
  }
  expect(failed.status).toEqual({ code: 2 })
  expect(attributesOf(failed)).toMatchObject({ 'error.type': '500', 'tollgate.upstream': 'first' })
  expect(ok.name).toBe('chat two')
  expect(attributesOf(ok)).toMatchObject({
    ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'openai', 'gen_ai.request.model': 'two' },
    ...{ 'gen_ai.usage.input_tokens': '10', 'gen_ai.usage.output_tokens': '3', 'tollgate.reason': 'fallback' },
  })
  expect(several.first.requests.at(-1)?.headers.traceparent).toBe(`00-${TRACE}-${failed.spanId}-01`)
  expect(several.second.requests.at(-1)?.headers).toMatchObject({
    traceparent: `00-${TRACE}-${ok.spanId}-01`,
    tracestate: 'congo=1',
  })
})

/** Fields of opentelemetry-proto 1.x by message, as its JSON names them; collectors ignore others silently. */
const FIELDS = {
  resourceSpans: ['resource', 'scopeSpans'],
  resourceMetrics: ['resource', 'scopeMetrics'],
  resource: ['attributes'],
  scopeSpans: ['scope', 'spans'],
  scopeMetrics: ['scope', 'metrics'],
  scope: ['name'],
  spans: 'traceId spanId parentSpanId traceState name kind startTimeUnixNano endTimeUnixNano attributes status'.split(
    ' ',
  ),
  status: ['code'],
  attributes: ['key', 'value'],
  value: ['stringValue', 'intValue', 'doubleValue', 'boolValue'],
  metrics: ['name', 'description', 'unit', 'sum', 'gauge', 'histogram'],
  sum: ['dataPoints', 'aggregationTemporality', 'isMonotonic'],
  gauge: ['dataPoints'],
  histogram: ['dataPoints', 'aggregationTemporality'],
  dataPoints: 'startTimeUnixNano timeUnixNano attributes asDouble count sum bucketCounts explicitBounds'.split(' '),
} satisfies Record<string, string[]>

function findUnknown(value: unknown, message: string): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => findUnknown(each, message))
  if (typeof value !== 'object' || value === null) return []
  const known: readonly string[] | undefined = FIELDS[message as keyof typeof FIELDS]
  return Object.entries(value).flatMap(([name, inner]) =>
    known?.includes(name) ? findUnknown(inner, name) : [`${message}.${name}`],
  )
}

test('a rejected request of a known key is a span, one of an unknown key is none', async () => {
  expect((await several.chat({}, { key: 'sk-tg-unknown' })).status).toBe(401)
  expect((await several.chat({ model: 'acme/none' })).status).toBe(404)
  const [span, ...others] = await take(1)
  expect(others).toEqual([])
  expect(span && attributesOf(span)).toMatchObject({
    'http.response.status_code': '404',
    'error.type': 'model_not_found',
  })
})

test('what the client does not want sampled goes on without a span', async () => {
  const headers = { traceparent: `00-${TRACE}-${PARENT}-00` }
  expect((await several.chat({ model: 'acme/only' }, { headers })).status).toBe(200)
  expect(several.first.requests.at(-1)?.headers.traceparent).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  expect((await several.chat({ model: 'acme/only' })).status).toBe(200)
  const taken = await take(2)
  expect(taken.map(({ traceId }) => traceId)).not.toContain(TRACE)
})

test('a stop sends what waits: spans, and metrics with sums that only grow', async () => {
  expect((await several.chat({ model: 'acme/only' })).status).toBe(200)
  await several.stop()
  expect(spans).toHaveLength(2)
  for (const { text } of documents)
    for (const [name, all] of Object.entries(JSON.parse(text))) expect(findUnknown(all, name)).toEqual([])
  const metrics = JSON.parse(documents.find(({ path }) => path === '/v1/metrics')?.text ?? '{}')
  const [{ resource, scopeMetrics }] = metrics.resourceMetrics
  expect(resource.attributes).toContainEqual({ key: 'service.name', value: { stringValue: 'tollgate' } })
  const named = (name: string) => scopeMetrics[0].metrics.find((one: { name: string }) => one.name === name)
  expect(named('tollgate_requests_total').sum).toMatchObject({ aggregationTemporality: 2, isMonotonic: true })
  const [point] = named('tollgate_request_duration_seconds').histogram.dataPoints
  expect(point.bucketCounts).toHaveLength(point.explicitBounds.length + 1)
  expect(point.bucketCounts.reduce((sum: number, count: string) => sum + Number(count), 0)).toBe(Number(point.count))
  expect(named('process_resident_memory_bytes').gauge.dataPoints[0].asDouble).toBeGreaterThan(0)
})

test('without a collector, a client’s trace ends here', async () => {
  const gateway = await startGateway()
  const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'congo=1' }
  expect((await gateway.chat({}, { headers })).status).toBe(200)
  expect(Object.keys(gateway.upstream.requests[0]?.headers ?? {}).filter((name) => name.startsWith('trace'))).toEqual(
    [],
  )
  await gateway.stop()
})
