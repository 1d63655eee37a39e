/**
 * Metrics as text: Prometheus 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/) or, if the scraper asks
 * for it, OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/), read in November 2026.
 */
import { keysOf } from '../domain/json.ts'
import { Turns } from '../threads/turns.ts'
import { COUNTED, type Counted, READ, type Read, type ReadName, TURN_MS, unitOf } from './definitions.ts'
import type { Exemplar, Registry, Series } from './registry.ts'

/** A value by its labels, in the order of the definition. */
export interface Point {
  labels: readonly string[]
  value: number
}

/** Values at a scrape. `nameOf`: an owner's display name. */
export interface Readings {
  read: Readonly<Record<ReadName, () => Iterable<Point>>>
  nameOf(owner: Counted['owner'], id: string): string
}

type Dialect = 'text' | 'openmetrics'

export const CONTENT_TYPES: Readonly<Record<Dialect, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

export const toDialect = (accept: string | null): Dialect =>
  accept?.includes('application/openmetrics-text') ? 'openmetrics' : 'text'

/** Yields to other work between slices. */
export async function writeMetrics(registry: Registry, readings: Readings, dialect: Dialect): Promise<Buffer> {
  const slices: Buffer[] = []
  let text = ''
  const turns = new Turns(TURN_MS)
  for (const lines of toLines(registry, readings, dialect)) {
    text += lines
    if (!turns.isOver) continue
    slices.push(Buffer.from(text))
    text = ''
    await turns.next()
  }
  if (dialect === 'openmetrics') text += '# EOF\n'
  slices.push(Buffer.from(text))
  return Buffer.concat(slices)
}

function* toLines(registry: Registry, readings: Readings, dialect: Dialect): Iterable<string> {
  for (const name of keysOf(COUNTED)) {
    const definition: Counted = COUNTED[name]
    const { owner, labels } = definition
    const { owners, sets, width, exemplars } = registry[name]
    const write =
      definition.type === 'histogram' ? toHistogramWriter(definition, dialect, exemplars) : toCounterWriter(definition)
    const pairs = sets.map((values) => toPairs(Object.keys(labels), values))
    yield toHead(definition, dialect)
    for (const [id, cells] of owners) {
      const own = owner === null ? '' : toPairs([owner], [readings.nameOf(owner, id)])
      let lines = ''
      for (const [at, more] of pairs.entries()) lines += write(join(own, more), cells, at * width)
      yield lines
    }
  }
  for (const name of keysOf(READ)) {
    const definition: Read = READ[name]
    yield toHead(definition, dialect)
    for (const { labels, value } of readings.read[name]())
      yield toLine(definition.name, toPairs(definition.labels, labels), toNumber(value))
  }
}

/** In OpenMetrics, a counter's `_total` belongs to its samples. */
function toHead({ name, type, help }: Counted | Read, dialect: Dialect): string {
  const family = dialect === 'openmetrics' && type === 'counter' ? name.replace(/_total$/, '') : name
  const text = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  const unit = unitOf(name)
  const units = dialect === 'openmetrics' && unit !== null ? `# UNIT ${family} ${unit}\n` : ''
  return `# TYPE ${family} ${type}\n${units}# HELP ${family} ${text}\n`
}

type Writer = (pairs: string, cells: Float64Array, from: number) => string

/** Leaves out zeros of owners: each owner would add one per label combination. */
const toCounterWriter =
  ({ name, owner, perUnit }: Counted): Writer =>
  (pairs, cells, from) => {
    const count = cells[from] ?? 0
    return count === 0 && owner !== null ? '' : toLine(name, pairs, toNumber(count / perUnit))
  }

function toHistogramWriter({ name, bounds }: Counted, dialect: Dialect, exemplars: Series['exemplars']): Writer {
  const buckets = [...bounds, null].map((bound) => `le="${toBound(bound, dialect)}"`)
  return (pairs, cells, from) => {
    let lines = ''
    let count = 0
    const examples = dialect === 'openmetrics' ? exemplars.get(cells) : undefined
    for (const [at, bound] of buckets.entries()) {
      count += cells[from + at] ?? 0
      lines += toLine(`${name}_bucket`, join(pairs, bound), String(count) + toExample(examples?.get(from + at)))
    }
    const sum = toNumber(cells[from + buckets.length] ?? 0)
    return lines + toLine(`${name}_sum`, pairs, sum) + toLine(`${name}_count`, pairs, String(count))
  }
}

const toExample = (one: Exemplar | undefined) =>
  one ? ` # {trace_id="${one.traceId}"} ${one.value} ${one.atMs / 1_000}` : ''

const join = (pairs: string, more: string) => (pairs === '' || more === '' ? pairs + more : `${pairs},${more}`)

/** OpenMetrics requires a decimal point. */
const toBound = (bound: number | null, dialect: Dialect): string =>
  bound === null ? '+Inf' : dialect === 'openmetrics' && Number.isInteger(bound) ? `${bound}.0` : String(bound)

const toLine = (name: string, pairs: string, value: string) =>
  pairs === '' ? `${name} ${value}\n` : `${name}{${pairs}} ${value}\n`

const toPairs = (names: readonly string[], values: readonly string[]): string =>
  names.map((name, at) => `${name}="${escapeValue(values[at] ?? '')}"`).join(',')

const escapeValue = (text: string) =>
  /[\\"\n]/.test(text) ? text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n') : text

const toNumber = (value: number) => (Number.isFinite(value) ? String(value) : 'NaN')
