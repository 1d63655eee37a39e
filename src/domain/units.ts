/**
 * Units other than tokens. A new kind needs an entry here and a column in the migrations of both databases. Reports, documents, prices,
 * and texts follow.
 */
import { keysOf } from './json.ts'

interface UnitKind {
  /** Name of its price in the catalog; per second for ms. */
  price: string
  /** Title of the price. */
  title: string
  /** In counts: `3 web searches`. */
  one: string
  many: string
  /** Whether hourly and daily totals have a column for it. */
  isSummed: boolean
  /** A missing price is reported unless one of these is charged instead, such as an image's tokens; null: never reported. */
  instead: readonly string[] | null
  /** Counted in ms, priced by the second. */
  isMs?: true
}

export const UNITS = {
  webSearches: {
    price: 'web_search',
    title: 'Web search',
    one: 'web search',
    many: 'web searches',
    isSummed: true,
    instead: [],
  },
  computeMs: {
    price: 'second',
    title: 'Second of compute',
    one: 'ms of compute',
    many: 'ms of compute',
    isSummed: false,
    instead: null,
    isMs: true,
  },
  /** Input audio, or output audio if speech is priced by time. */
  audioMs: {
    price: 'audio_second',
    title: 'Second of audio',
    one: 'ms of audio',
    many: 'ms of audio',
    isSummed: true,
    instead: ['prompt', 'audioCompletion', 'characters', 'request'],
    isMs: true,
  },
  /** As counted by the provider. */
  characters: {
    price: 'character',
    title: 'Character',
    one: 'character',
    many: 'characters',
    isSummed: true,
    instead: ['prompt', 'audioMs', 'request'],
  },
  /** Generated images. */
  images: {
    price: 'generated_image',
    title: 'Generated image',
    one: 'generated image',
    many: 'generated images',
    isSummed: true,
    instead: ['imageCompletion', 'completion', 'request'],
  },
  searchUnits: {
    price: 'search_unit',
    title: 'Search unit',
    one: 'search unit',
    many: 'search units',
    isSummed: true,
    instead: ['prompt', 'request'],
  },
  pages: {
    price: 'page',
    title: 'Page',
    one: 'page',
    many: 'pages',
    isSummed: true,
    instead: ['prompt', 'request'],
  },
} as const satisfies Record<string, UnitKind>

export type Unit = keyof typeof UNITS
export type UnitPrice = (typeof UNITS)[Unit]['price']

/** Sources of counts, most reliable first: the upstream's report, its response, the file sent, or the text sent. */
export const COUNT_SOURCES = ['upstream', 'answer', 'file', 'text'] as const
export type CountSource = (typeof COUNT_SOURCES)[number]

/** In bodies that aren't chats: maximum units of one call. A symbol, so that no client field has this name. */
export const MOST_UNITS: unique symbol = Symbol('most units')

/** Absent counts are zero, as in chats. */
export interface UnitCounts extends Partial<Record<Unit, number>> {
  /** Source of the least reliable count; absent for chats. */
  countedBy?: CountSource | null
}

export const UNIT_NAMES = keysOf(UNITS)
export const NO_UNITS = Object.fromEntries(UNIT_NAMES.map((name) => [name, 0])) as Readonly<Record<Unit, number>>

export type SummedUnit = { [Name in Unit]: (typeof UNITS)[Name]['isSummed'] extends true ? Name : never }[Unit]
export const SUMMED_UNITS = UNIT_NAMES.filter((name): name is SummedUnit => UNITS[name].isSummed)

/** Units that few calls have. Absent ones stay absent, so that rows of chats don't grow. */
const OCCASIONAL = UNIT_NAMES.filter((name) => name !== 'webSearches' && name !== 'computeMs')

export function addUnits(sum: UnitCounts, more: UnitCounts): void {
  for (const name of OCCASIONAL) {
    const count = more[name]
    if (count !== undefined && count > 0) sum[name] = (sum[name] ?? 0) + count
  }
  const { countedBy } = more
  if (countedBy)
    sum.countedBy = COUNT_SOURCES.findLast((source) => source === countedBy || source === sum.countedBy) ?? null
}

/** Adds the counts that the new object lacks. */
export function withUnits<To extends UnitCounts>(to: To, from: UnitCounts): To {
  addUnits(to, from)
  return to
}

/** The same fields, all zero. */
export function toNone(counts: UnitCounts): UnitCounts {
  const none: UnitCounts = {}
  for (const name of OCCASIONAL) if (counts[name] !== undefined) none[name] = 0
  if (counts.countedBy) none.countedBy = null
  return none
}

/** Whether there are units that may lack a price. */
export function hasUnits(counts: UnitCounts): boolean {
  for (const name of PRICED) if (counts[name]) return true
  return false
}

const PRICED = UNIT_NAMES.filter((name) => UNITS[name].instead !== null)

type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : ''
export type UnitColumn = Snake<Unit>

/** By column, such as `audio_ms`. */
const BY_COLUMN: ReadonlyMap<string, Unit> = new Map(UNIT_NAMES.map((name) => [toUnitColumn(name), name]))
export const UNIT_COLUMNS = [...BY_COLUMN.keys()] as UnitColumn[]

function toUnitColumn(name: Unit): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** `web searches`; null for tokens and fees. */
export function toUnitWords(column: string, count: number): string | null {
  const name = BY_COLUMN.get(column)
  return name ? UNITS[name][count === 1 ? 'one' : 'many'] : null
}

/** `$0.0001 per second`, `$0.01`; null for tokens and fees. */
export function toUnitPriceText(column: string, usd: string): string | null {
  const name = BY_COLUMN.get(column)
  return name ? `$${usd}${'isMs' in UNITS[name] ? ' per second' : ''}` : null
}

/** `3 web searches`, without those that are zero. */
export const toUnitTexts = (columns: object, toCount: (count: number) => string = String): string[] =>
  Object.entries(columns).flatMap(([column, count]) =>
    typeof count === 'number' && count > 0 && BY_COLUMN.has(column)
      ? `${toCount(count)} ${toUnitWords(column, count)}`
      : [],
  )

export const COUNT_SOURCE_TEXTS: Readonly<Record<CountSource, string>> = {
  upstream: 'reported by the upstream',
  answer: 'counted in the response',
  file: 'measured in the file that was sent',
  text: 'counted in the text that was sent',
}
