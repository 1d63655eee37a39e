/** Metrics stay small and give way, whatever the size of a catalog and the number of keys. */
import { expect, test } from 'bun:test'
import { keysOf } from '../../src/domain/json.ts'
import { READ, type ReadName, STATUSES, TOKEN_TYPES } from '../../src/telemetry/definitions.ts'
import { type Readings, writeMetrics } from '../../src/telemetry/exposition.ts'
import { createRegistry } from '../../src/telemetry/registry.ts'

/** As many points as budgets are shown. */
const BUDGETS = Array.from({ length: 200 }, (_, key) => ({
  labels: [`service ${key}`, `01a2257${key}`],
  value: 12.345,
}))
const pointsOf = (name: ReadName) => (READ[name].labels.length === 0 ? [{ labels: [], value: 1 }] : BUDGETS)
const READINGS: Readings = {
  nameOf: (_, id) => id,
  read: Object.fromEntries(keysOf(READ).map((name) => [name, () => pointsOf(name)])) as unknown as Readings['read'],
}

function fill(models: number) {
  const registry = createRegistry()
  for (let at = 0; at < models; at++) {
    const model = `provider-${at % 20}/some-model-${at}-2026`
    for (const status of STATUSES) registry.requests.add(9, model, 'chat', status)
    for (const type of TOKEN_TYPES) registry.tokens.add(12_345, model, type)
    registry.cost.add(123_456_789, model)
    for (const series of [registry.duration, registry.firstToken, registry.speed]) series.observe(1.5, model)
  }
  return registry
}

test('500 models in use take less than 1 MB, and other work gets turns', async () => {
  let turns = 0
  const count = () => {
    turns++
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  const text = await writeMetrics(fill(500), READINGS, 'text')
  clearImmediate(next)
  expect(text.length).toBeLessThan(1_000_000)
  expect(turns).toBeGreaterThan(0)
})

test('owners beyond the limit count together, so that memory is bounded and sums stay right', async () => {
  const text = (await writeMetrics(fill(5_000), READINGS, 'text')).toString()
  const counts = [...text.matchAll(/^tollgate_requests_total\{model="([^"]+)",.*,status="2xx"\} (\d+)$/gm)]
  expect(counts).toHaveLength(1_001)
  expect(counts.reduce((sum, [, , count]) => sum + Number(count), 0)).toBe(5_000 * 9)
  expect(counts.find(([, model]) => model === 'other')?.[2]).toBe(String(4_000 * 9))
})

test('buckets are cumulative, and values of unknown labels are dropped', async () => {
  const registry = createRegistry()
  for (const seconds of [0.1, 0.11, 7_000]) registry.duration.observe(seconds, 'm')
  registry.requests.add(1, 'm', 'made-up', '2xx')
  const lines = (await writeMetrics(registry, READINGS, 'text')).toString().split('\n')
  const own = lines.filter((line) => line.includes('"m"'))
  expect(own[0]).toBe('tollgate_request_duration_seconds_bucket{model="m",le="0.1"} 1')
  expect(own.at(-4)).toBe('tollgate_request_duration_seconds_bucket{model="m",le="600"} 2')
  expect(own.slice(-3)).toEqual([
    'tollgate_request_duration_seconds_bucket{model="m",le="+Inf"} 3',
    'tollgate_request_duration_seconds_sum{model="m"} 7000.21',
    'tollgate_request_duration_seconds_count{model="m"} 3',
  ])
})
