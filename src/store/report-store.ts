/**
 * The contract of what reports read of a store: usage in cells to add up, failures, and requests on record with their calls. The
 * services in `ledger/` work with any; `sqlite/` has the first. Never writes.
 */

import type { TokenCounts } from '../domain/call-counts.ts'
import { keysOf } from '../domain/json.ts'
import type {
  Dimension,
  ERROR_STATUSES,
  FAILURE_FILTERS,
  REQUEST_FILTERS,
  RequestStatus,
  USAGE_FILTERS,
} from '../domain/report-filters.ts'
import { matches } from '../domain/text.ts'
import type { PriceRow } from './catalog-rows.ts'
import type { Histogram } from './histogram.ts'
import type { StoredCall, StoredRequest } from './ledger-rows.ts'
import type { Span } from './ledger-store.ts'

/** What the sums of days are kept of, one thing at a time: of all requests, … */
export const DAILY = ['key', 'team', 'model', 'upstream', 'endpoint'] as const satisfies Dimension[]
export type Daily = (typeof DAILY)[number]

/** … and of those of each model alone, and of each team. */
export const WITHIN = {
  model: ['key', 'team', 'upstream'],
  team: ['key', 'model', 'upstream'],
} as const satisfies Partial<Record<Daily, Daily[]>>
export type Scope = keyof typeof WITHIN
export const SCOPES: readonly Scope[] = ['model', 'team']

/**
 * Requests that a report is about: of each list that is there, any of its values. Keys and teams are ids, models patterns over slugs, in
 * which `*` stands for any run of characters.
 */
export interface UsageFilter extends Partial<Record<(typeof USAGE_FILTERS)[number], readonly string[]>> {
  /** Ids of keys: of none but these, whatever else is wanted. Where it is empty, of none at all. */
  ownKeys?: readonly string[]
}

/** What is counted of requests beside their cost. `errors` ended `failed` or `abandoned`, `cuts` broke off, of `unpriced` something had no price. */
export type UsageCount = 'requests' | 'errors' | 'cuts' | 'unpriced' | keyof TokenCounts

/** `spend`: requests and what they cost, and nothing of the rest, which most of the work is for. */
export type UsageFigures = 'all' | 'spend'

export interface UsageQuery {
  /**
   * `days`: sums of whole days, of one thing at a time, where there are any of what is asked (`toDaily`); `hours`: those of whole hours,
   * which know no users; `requests`: the requests themselves, as far as they are kept.
   */
  from: 'days' | 'hours' | 'requests'
  /** Of sums whole hours; of days those that begin within it. */
  span: Span
  by: readonly Dimension[]
  where: UsageFilter
  figures?: UsageFigures
}

/** What settled requests of one group come to. A group has any number of cells: they are to be added up. */
export interface UsageCell {
  /** The group: a value for each dimension, in their order. Ids and names as they are, '' for no team or no user; times in ms. */
  of: readonly (string | number)[]
  /** In the order of the reader's `counts`. */
  counts: readonly number[]
  costNanoUsd: bigint
  /** Part of the cost that rests on estimated tokens. */
  estimatedCostNanoUsd: bigint
  firstToken: Readonly<Histogram>
  duration: Readonly<Histogram>
}

/** Never writes to the ledger. */
export interface UsageReader {
  readonly counts: readonly UsageCount[]
  /**
   * Cells of settled requests, some thousands at a time. A page is read at once and consistent in itself; between pages nothing is held
   * open, neither in the store nor by whoever stops reading.
   */
  pages(query: UsageQuery): AsyncIterable<readonly UsageCell[]>
  /** Whether there are sums of an hour within a span. */
  hasHours(span: Span): Promise<boolean>
  /** The first hour from which on every settled request is still there, and not its sum alone. Never goes back. */
  keptFromMs(): Promise<number>
  /** Begins to rank groups of which there may be more than memory should hold. */
  rank(): Ranking
}

/** Groups by what they cost together, then by their requests. Holds a file until it is disposed of. */
export interface Ranking extends Disposable {
  add(cells: readonly UsageCell[]): void
  count(): number
  /** The first of them, by `toGroupId`. */
  top(limit: number): string[]
}

/** Sums of days that have what a report asks for. */
export interface DailySums {
  of: Daily
  /** The one model or team that they are within, by its name or id; null where they are of all requests. */
  within: { scope: Scope; name: string } | null
  /** What is still to be filtered. */
  where: UsageFilter
}

/** By which of the sums of days a report can be read; null where it tells apart, or filters, more than those know. */
export function toDaily(by: readonly Dimension[], where: UsageFilter): DailySums | null {
  const lists = Object.entries(where).filter(([, values]) => values.length > 0)
  const asked = new Set<string>(by.filter((dimension) => dimension !== 'day'))
  // Keys of one's own are among what no sums of days are kept of.
  for (const [filter] of lists) asked.add(filter)
  const known = (list: readonly Daily[]) => list.find((daily) => asked.has(daily))
  if (asked.size <= 1) {
    // Of those that have all that there is, it is the shortest.
    const of = asked.size === 0 ? 'endpoint' : known(DAILY)
    return of ? { of, within: null, where } : null
  }
  const within = (scope: Scope, [name = '', ...more]: readonly string[], rest: UsageFilter): DailySums | null => {
    const of = known(WITHIN[scope])
    // A pattern stands for any number of models.
    const isOne = name !== '' && more.length === 0 && !name.includes('*')
    return of && isOne && asked.size === 2 && !by.includes(scope) ? { of, within: { scope, name }, where: rest } : null
  }
  const { model = [], team = [], ...rest } = where
  return within('model', model, { ...rest, team }) ?? within('team', team, { ...rest, model })
}

/** Names a group, for whoever adds up its cells. */
export const toGroupId = (of: UsageCell['of']): string => (of.length === 1 ? String(of[0]) : JSON.stringify(of))

/** How a request ended that did not end well. */
type ErrorStatus = (typeof ERROR_STATUSES)[number]

/** By what failures are filtered: users and endpoints are not among it. */
export type FailureFilter = Pick<UsageFilter, 'ownKeys' | (typeof FAILURE_FILTERS)[number]>

interface FailureQuery {
  span: Span
  /** Of a group: an hour or a day, in ms. */
  stepMs: number
  where: FailureFilter
}

/** Requests of one hour or day that ended in the same way. Of a group there may be several: they are to be added up. */
export interface FailureCell {
  atMs: number
  status: ErrorStatus
  /** Such as `upstream_timeout`; null where none is on record. */
  errorCode: string | null
  requests: number
}

/** Never writes to the ledger. */
export interface FailureReader {
  /** A day a page, each read at once: between them nothing is held open. */
  pages(query: FailureQuery): AsyncIterable<readonly FailureCell[]>
  /** The first hour from which on every settled request is still there. Never goes back. */
  keptFromMs(): Promise<number>
}

type FilterOfItsName = Exclude<(typeof REQUEST_FILTERS)[number], 'key' | 'team' | 'error_code'>

/** Which requests are wanted: those to which all of it applies. */
export interface RequestFilter extends Partial<Record<FilterOfItsName, string>> {
  /** Ids of keys: of none but these, whatever else is wanted. Where it is empty, of none at all. */
  ownKeys?: readonly string[]
  keyId?: string
  teamId?: string
  /** A pattern over the slugs of models, such as `openai/*`. */
  model?: string
  /** The one that was asked last. */
  upstream?: string
  statuses?: readonly RequestStatus[]
  /** Such as `upstream_timeout`. */
  errorCode?: string
}

/** By which column a request is held to each filter that is a value of it, as a store and as documents call it. */
export const EXACT = {
  ...{ keyId: 'key_id', teamId: 'team_id', upstream: 'upstream', user: 'user', errorCode: 'error_code' },
} as const satisfies Record<Exclude<keyof RequestFilter, 'ownKeys' | 'model' | 'statuses'>, string>
export const EXACT_FILTERS = keysOf(EXACT)

/** Whether a request is wanted: what a store's own search says, for one that is at hand. */
export function isWanted(row: StoredRequest, filter: RequestFilter): boolean {
  const { ownKeys, model, statuses } = filter
  return (
    (ownKeys === undefined || ownKeys.includes(row.keyId)) &&
    (model === undefined || matches(model, row.model)) &&
    (statuses === undefined || statuses.includes(row.status)) &&
    EXACT_FILTERS.every((name) => filter[name] === undefined || row[name] === filter[name])
  )
}

export interface RequestSearch extends RequestFilter {
  /** Requests created from then on, and before then. */
  sinceMs?: number
  untilMs?: number
  /** What the id ends in. */
  idEnd?: string
  upstreamRequestId?: string
}

/** Some of the requests on record, next to each other. */
interface RowSlice {
  /** The wanted ones among them, newest first, as many as were asked for at most. */
  rows: StoredRequest[]
  /** Id of the oldest one that was looked at, to go on from; null where no more are to be looked at. */
  next: string | null
}

export interface RequestReader {
  /**
   * Looks at the newest `size` requests whose ids sort before `before`, and no more: it takes milliseconds, and holds nothing
   * once it has returned.
   *
   * @param before null for the newest of all.
   * @param limit most that are returned.
   */
  slice(search: RequestSearch, before: string | null, limit: number, size: number): Promise<RowSlice>
  get(id: string): Promise<StoredRequest | null>
  /** Ids that begin with these digits, so many at most. */
  beginning(digits: string, limit: number): Promise<string[]>
  /** Of requests of before this time some were taken away, or all; 0 where none ever were. */
  keptFromMs(): Promise<number>
  /** All calls of a request, by number, the first one too: there is one at least. */
  calls(request: StoredRequest): Promise<StoredCall[]>
  /** A price that a call was charged by; null where there is none of this id. */
  price(id: string): Promise<PriceRow | null>
}
