/** The contract of what reports read from a store: usage in cells, failures, and requests with their calls. Never writes. */

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

/** Dimensions with daily totals of all requests, … */
export const DAILY = ['key', 'team', 'model', 'upstream', 'endpoint'] as const satisfies Dimension[]
export type Daily = (typeof DAILY)[number]

/** … and of the requests of each model and of each team. */
export const WITHIN = {
  model: ['key', 'team', 'upstream'],
  team: ['key', 'model', 'upstream'],
} as const satisfies Partial<Record<Daily, Daily[]>>
export type Scope = keyof typeof WITHIN
export const SCOPES: readonly Scope[] = ['model', 'team']

/** For each list present, a request must match one value. Keys and teams are IDs; models are patterns, in which `*` matches any characters. */
export interface UsageFilter extends Partial<Record<(typeof USAGE_FILTERS)[number], readonly string[]>> {
  /** IDs of the only keys that may be included; if empty, none. */
  ownKeys?: readonly string[]
}

/** Counts besides cost. `errors`: status `failed` or `abandoned`; `cuts`: interrupted; `unpriced`: some usage had no price. */
export type UsageCount = 'requests' | 'errors' | 'cuts' | 'unpriced' | keyof TokenCounts

/** `spend`: only requests and cost, which is much faster. */
export type UsageFigures = 'all' | 'spend'

export interface UsageQuery {
  /** `days`: daily totals of one dimension (`toDaily`); `hours`: hourly totals, without users; `requests`: the requests themselves, as far as they are kept. */
  from: 'days' | 'hours' | 'requests'
  /** Of totals, whole hours; of daily totals, days that begin within it. */
  span: Span
  by: readonly Dimension[]
  where: UsageFilter
  figures?: UsageFigures
}

/** Settled requests of one group; several cells of a group must be added up. */
export interface UsageCell {
  /** The group: one value per dimension. IDs and names as stored, '' for no team or user; times in ms. */
  of: readonly (string | number)[]
  /** In the order of the reader's `counts`. */
  counts: readonly number[]
  costNanoUsd: bigint
  /** Part of the cost based on estimated tokens. */
  estimatedCostNanoUsd: bigint
  firstToken: Readonly<Histogram>
  duration: Readonly<Histogram>
}

export interface UsageReader {
  readonly counts: readonly UsageCount[]
  /** Cells of settled requests, some thousands per page. Each page is read at once and consistently; nothing is held open between pages. */
  pages(query: UsageQuery): AsyncIterable<readonly UsageCell[]>
  /** True if the span has any hourly totals. */
  hasHours(span: Span): Promise<boolean>
  /** Start of the first hour from which all settled requests are kept, not only totals. Never decreases. */
  keptFromMs(): Promise<number>
  /** Ranks groups that may not fit into memory. */
  rank(): Ranking
}

/** Groups by cost, then by requests. Uses a temporary file until disposed. */
export interface Ranking extends Disposable {
  add(cells: readonly UsageCell[]): void
  count(): number
  /** By `toGroupId`. */
  top(limit: number): string[]
}

/** Daily totals that a report can use. */
export interface DailySums {
  of: Daily
  /** The one model (by ID) or team that they are limited to; null for all requests. */
  within: { scope: Scope; name: string } | null
  /** Filters still to apply. */
  where: UsageFilter
}

/** The daily totals that a report can be read from; null if they lack a dimension or filter. */
export function toDaily(by: readonly Dimension[], where: UsageFilter): DailySums | null {
  const lists = Object.entries(where).filter(([, values]) => values.length > 0)
  const asked = new Set<string>(by.filter((dimension) => dimension !== 'day'))
  // No daily totals are limited to a set of keys.
  for (const [filter] of lists) asked.add(filter)
  const known = (list: readonly Daily[]) => list.find((daily) => asked.has(daily))
  if (asked.size <= 1) {
    // The shortest of those that include all requests.
    const of = asked.size === 0 ? 'endpoint' : known(DAILY)
    return of ? { of, within: null, where } : null
  }
  const within = (scope: Scope, [name = '', ...more]: readonly string[], rest: UsageFilter): DailySums | null => {
    const of = known(WITHIN[scope])
    // A pattern may match several models.
    const isOne = name !== '' && more.length === 0 && !name.includes('*')
    return of && isOne && asked.size === 2 && !by.includes(scope) ? { of, within: { scope, name }, where: rest } : null
  }
  const { model = [], team = [], ...rest } = where
  return within('model', model, { ...rest, team }) ?? within('team', team, { ...rest, model })
}

/** Key of a group. */
export const toGroupId = (of: UsageCell['of']): string => (of.length === 1 ? String(of[0]) : JSON.stringify(of))

type ErrorStatus = (typeof ERROR_STATUSES)[number]

/** Failures cannot be filtered by user or endpoint. */
export type FailureFilter = Pick<UsageFilter, 'ownKeys' | (typeof FAILURE_FILTERS)[number]>

interface FailureQuery {
  span: Span
  /** Hour or day, ms. */
  stepMs: number
  where: FailureFilter
}

/** Requests of one hour or day with the same outcome; several cells of a group must be added up. */
export interface FailureCell {
  atMs: number
  status: ErrorStatus
  /** Such as `upstream_timeout`; null if none is recorded. */
  errorCode: string | null
  requests: number
}

export interface FailureReader {
  /** One day per page, each read at once; nothing is held open in between. */
  pages(query: FailureQuery): AsyncIterable<readonly FailureCell[]>
  /** Start of the first hour from which all settled requests are kept. Never decreases. */
  keptFromMs(): Promise<number>
}

type FilterOfItsName = Exclude<(typeof REQUEST_FILTERS)[number], 'key' | 'team' | 'error_code'>

/** All conditions must match. */
export interface RequestFilter extends Partial<Record<FilterOfItsName, string>> {
  /** IDs of the only keys that may be included; if empty, none. */
  ownKeys?: readonly string[]
  keyId?: string
  teamId?: string
  /** A pattern over model IDs, such as `openai/*`. */
  model?: string
  /** The upstream called last. */
  upstream?: string
  statuses?: readonly RequestStatus[]
  /** Such as `upstream_timeout`. */
  errorCode?: string
}

/** Columns of the filters that compare a value, in stores and documents. */
export const EXACT = {
  ...{ keyId: 'key_id', teamId: 'team_id', upstream: 'upstream', user: 'user', errorCode: 'error_code' },
} as const satisfies Record<Exclude<keyof RequestFilter, 'ownKeys' | 'model' | 'statuses'>, string>
export const EXACT_FILTERS = keysOf(EXACT)

/** Applies a filter to a request in memory. */
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
  /** By creation time: inclusive, exclusive. */
  sinceMs?: number
  untilMs?: number
  /** End of the ID. */
  idEnd?: string
  upstreamRequestId?: string
}

/** A range of consecutive requests. */
interface RowSlice {
  /** Matching rows, newest first, up to the limit. */
  rows: StoredRequest[]
  /** ID to continue from (the oldest that was scanned); null if done. */
  next: string | null
}

export interface RequestReader {
  /**
   * Scans the newest `size` requests with IDs before `before`: takes milliseconds, and holds nothing afterward.
   *
   * @param before null: from the newest.
   * @param limit maximum returned.
   */
  slice(search: RequestSearch, before: string | null, limit: number, size: number): Promise<RowSlice>
  get(id: string): Promise<StoredRequest | null>
  /** IDs with this prefix. */
  beginning(digits: string, limit: number): Promise<string[]>
  /** Some or all requests before this time were removed; 0 if none ever were. */
  keptFromMs(): Promise<number>
  /** All calls of a request by number; at least one. */
  calls(request: StoredRequest): Promise<StoredCall[]>
  /** Null if unknown. */
  price(id: string): Promise<PriceRow | null>
}
