/**
 * A provider's reported usage and charges, read from the JSON of its usage and cost API. Untrusted: a file may have any size or shape, and pages may
 * overlap. Amounts stay decimal text until they are exact integers.
 */
import { asObject, isObject, type JsonObject, parseJson } from '../../domain/json.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { count } from '../../domain/text.ts'
import { DAY_MS, dayOf, toDateMs, toDay } from '../../domain/time.ts'

/** As providers count: inputs include cached tokens, outputs include reasoning. */
export const FIGURES = {
  requests: 'requests',
  input: 'input tokens',
  cached: 'cached input',
  cache_write: 'cache writes',
  cache_write_1h: '1-hour writes',
  audio_input: 'audio input',
  image_input: 'image input',
  output: 'output tokens',
  reasoning: 'reasoning',
  audio_output: 'audio output',
  image_output: 'image output',
  web_searches: 'web searches',
} as const
export type Figure = keyof typeof FIGURES
/** A provider reports only some. */
export type Figures = Partial<Record<Figure, number>>

export type BillPart = 'usage' | 'costs'

interface Line {
  dayMs: number
  /** null: not in the export. */
  model: string | null
  keyId: string | null
}

export interface BillEntry extends Omit<Line, 'dayMs'> {
  part: BillPart
  figures?: Figures
  /** Units of 10^-18 dollars. */
  atto?: bigint
}

export interface Bill {
  usage: (Line & { figures: Figures })[]
  costs: (Line & { atto: bigint })[]
  /** Whole UTC days in the export, including days without usage. */
  days: Record<BillPart, ReadonlySet<number>>
  notes: string[]
}

/** Bill format of one provider. */
export interface BillFormat {
  /** True if an item of `data` has this provider's format. */
  matches(item: JsonObject): boolean
  /** null: an item is a line, of the day in `date`. */
  span: ((bucket: JsonObject, at: Place) => { startMs: number; endMs: number }) | null
  /** null: not a kind of usage that Tollgate sends. */
  read(line: JsonObject, at: Place): BillEntry[] | null
}

/** Location of a value in a file, for messages. */
export interface Place {
  file: string
  path: string
}

const MAX_LINES = 200_000
const MAX_NAME = 200

export const unusable = (message: string) => new ServiceError({ kind: 'bill_unusable' }, message)
const wrong = ({ file, path }: Place, message: string) => unusable(`${file}: ${path} ${message}.`)

/** Fields whose numbers stay text, because a double would round them. */
const MONEY = new Set(['value', 'amount', 'usage', 'byok_usage_inference'])

const keepMoney = (name: string, value: unknown, { source }: { source?: string }) =>
  typeof value === 'number' && MONEY.has(name) ? source : value

/** A page, a list of pages, or one page per line. */
export function readPages(text: string, file: string): JsonObject[] {
  const value = parse(text.trim())
  const pages = value === undefined ? text.split('\n').flatMap((line) => (line.trim() ? [parse(line)] : [])) : value
  const list = Array.isArray(pages) ? pages : [pages]
  if (list.length > 0 && list.every((page) => isObject(page) && Array.isArray(page.data))) return list as JsonObject[]
  throw unusable(
    `${file} must hold the JSON of a provider's usage or cost API: pages with a \`data\` list, as one page, a list of pages, or a page per line.`,
  )
}

function parse(text: string): unknown {
  try {
    return parseJson(text, keepMoney)
  } catch {
    return undefined
  }
}

/** A page's time span. */
interface Bucket {
  startMs: number
  ms: number
}

export class BillReader {
  readonly bill: Bill = { usage: [], costs: [], days: { usage: new Set(), costs: new Set() }, notes: [] }
  readonly #format: BillFormat
  readonly #seen = new Set<string>()
  /** Milliseconds of each day in the export, by part and start of the bucket. */
  readonly #covered: Record<BillPart, Map<number, number>> = { usage: new Map(), costs: new Map() }
  /** Kinds of lines in each file. */
  readonly #partsOf = new Map<string, Set<BillPart>>()
  /** Pages without lines. */
  readonly #empty: { file: string; spans: Bucket[] }[] = []
  #lines = 0
  #ignored = 0

  constructor(format: BillFormat) {
    this.#format = format
  }

  /** @param part set if known, because an empty page doesn't show it. */
  add(page: JsonObject, file: string, part: BillPart | null = null): void {
    const { span } = this.#format
    const items = (page.data as unknown[]).map((item, at) => {
      const place = { file, path: `data[${at}]` }
      const object = asObject(item)
      if (object && this.#format.matches(object)) return { object, place }
      throw wrong(place, 'has another shape than the rest: pass files of one provider')
    })
    if (span === null) {
      this.#addDays(items)
      return
    }
    let of = part
    const spans: Bucket[] = []
    for (const { object, place } of items) {
      const { startMs, endMs } = span(object, place)
      if (!(endMs > startMs) || dayOf(endMs - 1) !== dayOf(startMs))
        throw wrong(place, 'must be a bucket within one UTC day: request buckets of 1d, 1h, or 1m')
      spans.push({ startMs, ms: endMs - startMs })
      if (!Array.isArray(object.results)) throw wrong(place, 'has no `results` list')
      for (const [at, result] of object.results.entries())
        of = this.#addLine(result, startMs, { file, path: `${place.path}.results[${at}]` }) ?? of
    }
    if (of === null) this.#empty.push({ file, spans })
    else {
      this.#cover(of, spans)
      this.#partsOf.set(file, (this.#partsOf.get(file) ?? new Set()).add(of))
    }
  }

  #cover(part: BillPart, spans: readonly Bucket[]): void {
    for (const { startMs, ms } of spans) this.#covered[part].set(startMs, ms)
  }

  /** Without lines, usage and costs look the same. An empty page counts as the kind of its file's other pages. */
  #coverEmpty(): void {
    const unknown = new Set<string>()
    for (const { file, spans } of this.#empty) {
      const [part, ...others] = this.#partsOf.get(file) ?? []
      if (part !== undefined && others.length === 0) this.#cover(part, spans)
      else if (spans.length > 0) unknown.add(file)
    }
    for (const file of unknown)
      this.bill.notes.push(`${file}: days without lines could be of usage or of costs, left out.`)
  }

  #addDays(items: readonly { object: JsonObject; place: Place }[]): void {
    for (const { object, place } of items) {
      const dayMs = typeof object.date === 'string' ? toDateMs(object.date.slice(0, 10)) : null
      if (dayMs === null) throw wrong(place, 'has no `date` such as 2027-01-31')
      this.#addLine(object, dayMs, place)
      for (const covered of Object.values(this.#covered)) covered.set(dayMs, DAY_MS)
    }
  }

  #addLine(value: unknown, startMs: number, place: Place): BillPart | null {
    const line = asObject(value)
    if (!line) throw wrong(place, 'must be an object')
    if (++this.#lines > MAX_LINES) throw unusable(`${place.file}: more than ${MAX_LINES} lines. Pass fewer days.`)
    const name = JSON.stringify([startMs, ...Object.entries(line).filter(isDimension).sort(byName)])
    if (this.#seen.has(name))
      throw wrong(place, `repeats an earlier line of ${toDay(startMs)}: pass each page once, and days once`)
    this.#seen.add(name)
    const entries = this.#format.read(line, place)
    if (entries === null) this.#ignored++
    for (const { model, keyId, figures, atto } of entries ?? []) {
      const of = { dayMs: dayOf(startMs), model, keyId }
      if (figures) this.bill.usage.push({ ...of, figures })
      if (atto !== undefined) this.bill.costs.push({ ...of, atto })
    }
    return entries?.[0]?.part ?? null
  }

  /** Returns the bill for whole days that are over. */
  finish(todayMs: number): Bill {
    this.#coverEmpty()
    const partial = new Set<number>()
    const wholeDays = (covered: ReadonlyMap<number, number>) => {
      const sums = new Map<number, number>()
      for (const [startMs, ms] of covered) sums.set(dayOf(startMs), (sums.get(dayOf(startMs)) ?? 0) + ms)
      const whole = [...sums].filter(([dayMs, ms]) => ms === DAY_MS && dayMs < todayMs).map(([dayMs]) => dayMs)
      for (const dayMs of new Set(sums.keys()).difference(new Set(whole))) partial.add(dayMs)
      return new Set(whole)
    }
    // Without a bucket per day, days between others had no usage.
    const isListed = this.#format.span === null
    const fill = (days: ReadonlySet<number>) => (isListed ? new Set(toRange(days)) : days)
    const { usage, costs } = this.#covered
    this.bill.days = { usage: fill(wholeDays(usage)), costs: fill(wholeDays(costs)) }
    if (partial.size > 0)
      this.bill.notes.push(
        `${[...partial]
          .sort((a, b) => a - b)
          .map(toDay)
          .join(', ')}: not a whole day in the export, left out.`,
      )
    if (this.#ignored > 0)
      this.bill.notes.push(`${count(this.#ignored, 'line')} of services that Tollgate doesn't call: left out.`)
    return this.bill
  }
}

const MAX_DAYS = 1_000

function toRange(days: ReadonlySet<number>): number[] {
  const sorted = [...days].sort((a, b) => a - b)
  const [first = 0, last = first - DAY_MS] = [sorted[0], sorted.at(-1)]
  const length = (last - first) / DAY_MS + 1
  if (length > MAX_DAYS) throw unusable(`The export covers more than ${MAX_DAYS} days. Pass fewer.`)
  return Array.from({ length }, (_, at) => first + at * DAY_MS)
}

type Entry = [name: string, value: unknown]
const isDimension = ([name, value]: Entry) =>
  !MONEY.has(name) && (typeof value === 'string' || typeof value === 'boolean')
const byName = ([a]: Entry, [b]: Entry) => (a < b ? -1 : 1)

/** undefined if missing or null. */
export function toCount(value: unknown, field: string, place: Place): number | undefined {
  if (value === undefined || value === null) return undefined
  if (Number.isSafeInteger(value) && Number(value) >= 0) return Number(value)
  throw wrong(place, `has \`${field}\` ${JSON.stringify(value).slice(0, 40)}: must be a whole number from 0`)
}

/** Like `toCount`, without missing figures. */
export function toFigures(of: Partial<Record<Figure, [value: unknown, field: string]>>, place: Place): Figures {
  const figures: Figures = {}
  for (const [figure, [value, field]] of Object.entries(of)) {
    const found = toCount(value, field, place)
    if (found !== undefined) figures[figure as Figure] = found
  }
  return figures
}

/** null if missing. */
export function toText(value: unknown, field: string, place: Place): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' && value !== '' && value.length <= MAX_NAME) return value
  throw wrong(place, `has \`${field}\` that must be a text of up to ${MAX_NAME} characters`)
}

const DECIMALS = 18
/** A trillion dollars. */
const MAX_ATTO = 10n ** 30n
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,2}))?$/

/** Exact, except for digits beyond 10^-18. @param shift decimal places to the left: 2 for cents. */
export function toAtto(value: unknown, shift: number, field: string, place: Place): bigint {
  const [, whole, fraction = '', exponent = '0'] = DECIMAL.exec(String(value ?? '')) ?? []
  const digits = BigInt((whole ?? '') + fraction)
  const places = DECIMALS + Number(exponent) - shift - fraction.length
  const each = 10n ** BigInt(Math.abs(places))
  const atto = places >= 0 ? digits * each : (digits + each / 2n) / each
  if (whole !== undefined && atto < MAX_ATTO) return atto
  throw wrong(place, `has \`${field}\` ${JSON.stringify(value ?? null).slice(0, 40)}: must be an amount from 0`)
}

export function requireUsd(currency: unknown, place: Place): void {
  if (typeof currency !== 'string' || currency.toLowerCase() !== 'usd')
    throw wrong(place, `has the currency ${JSON.stringify(currency ?? null).slice(0, 20)}: only USD can be compared`)
}
