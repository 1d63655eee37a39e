/** The contract of a store's report readers. They never write. */

import type { SummedCount } from '../domain/call-counts.ts'
import { keysOf } from '../domain/json.ts'
import type { Period } from '../domain/limits.ts'
import type {
  Dimension,
  ERROR_STATUSES,
  FAILURE_FILTERS,
  REFUSAL_FILTERS,
  REQUEST_FILTERS,
  RefusalDimension,
  RequestStatus,
  USAGE_FILTERS,
} from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Spender } from '../domain/snapshot.ts'
import { matches } from '../domain/text.ts'
import type { PriceRow } from './catalog-rows.ts'
import type { Histogram } from './histogram.ts'
import type { SettledRow, StoredCall, StoredRequest } from './ledger-rows.ts'
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

/** One value per list must match. Keys and teams are IDs; models are patterns with `*`. */
export interface UsageFilter extends Partial<Record<(typeof USAGE_FILTERS)[number], readonly string[]>> {
  /** Only these keys; if empty, none. */
  ownKeys?: readonly string[]
}

/** `errors`: `failed` or `abandoned`; `cuts`: interrupted; `unpriced`: some usage had no price. */
export type UsageCount = 'requests' | 'errors' | 'cuts' | 'unpriced' | SummedCount

/** `sums`: no latencies; `spend`: only requests and cost. Both are much faster. */
export const USAGE_FIGURE_SETS = ['all', 'sums', 'spend'] as const
export type UsageFigures = (typeof USAGE_FIGURE_SETS)[number]

export interface UsageQuery {
  /** `days`: daily totals of one dimension (`toDaily`); `hours`: hourly totals, without users; `requests`: stored requests. */
  from: 'days' | 'hours' | 'requests'
  /** Whole hours, or days that begin within. */
  span: Span
  by: readonly Dimension[]
  where: UsageFilter
  figures?: UsageFigures
}

/** Several cells of a group must be added up. */
export interface UsageCell {
  /** One value per dimension; '' for no team or user; times in ms. */
  of: readonly (string | number)[]
  counts: readonly number[]
  costNanoUsd: bigint
  /** From estimated tokens. */
  estimatedCostNanoUsd: bigint
  firstToken: Readonly<Histogram>
  duration: Readonly<Histogram>
}

export interface UsageReader {
  readonly counts: readonly UsageCount[]
  /** Thousands of cells per page. Each page is consistent; nothing stays open in between. */
  pages(query: UsageQuery): AsyncIterable<readonly UsageCell[]>
  hasHours(span: Span): Promise<boolean>
  /** First hour from which all requests are kept, not only totals. Never decreases. */
  keptFromMs(): Promise<number>
  /** Ranks groups that may not fit into memory. */
  rank(): Ranking
}

/** Uses a temporary file until disposed. */
export interface Ranking extends Disposable {
  add(cells: readonly UsageCell[]): void
  count(): number
  /** By `toGroupId`. */
  top(limit: number): string[]
}

export interface DailySums {
  of: Daily
  /** Model ID or team; null for all requests. */
  within: { scope: Scope; name: string } | null
  /** Remaining filters to apply. */
  where: UsageFilter
}

/** null if daily totals can't answer the report. */
export function toDaily(by: readonly Dimension[], where: UsageFilter): DailySums | null {
  const { ownKeys, ...lists } = where
  const asked = new Set<string>(by.filter((dimension) => dimension !== 'day'))
  for (const [filter, values] of Object.entries(lists)) if (values.length > 0) asked.add(filter)
  if (ownKeys) asked.add('key')
  const known = (list: readonly Daily[]) => list.find((daily) => asked.has(daily))
  if (asked.size <= 1) {
    // The shortest dimension that includes all requests.
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

export const toGroupId = (of: UsageCell['of']): string => (of.length === 1 ? String(of[0]) : JSON.stringify(of))

type ErrorStatus = (typeof ERROR_STATUSES)[number]

/** Without user and endpoint. */
export type FailureFilter = Pick<UsageFilter, 'ownKeys' | (typeof FAILURE_FILTERS)[number]>

interface FailureQuery {
  span: Span
  stepMs: number
  where: FailureFilter
}

/** Several cells of a group must be added up. */
export interface FailureCell {
  atMs: number
  status: ErrorStatus
  errorCode: string | null
  requests: number
}

export interface FailureReader {
  /** One day per page; nothing stays open in between. */
  pages(query: FailureQuery): AsyncIterable<readonly FailureCell[]>
  /** First hour from which all requests are kept. Never decreases. */
  keptFromMs(): Promise<number>
}

/** One value per list must match. Keys and teams are IDs; codes are Tollgate's. */
export interface RefusalFilter extends Partial<Record<(typeof REFUSAL_FILTERS)[number], readonly string[]>> {
  /** Only these keys; if empty, none. */
  ownKeys?: readonly string[]
}

export interface RefusalQuery {
  /** Whole hours. */
  span: Span
  by: readonly RefusalDimension[]
  where: RefusalFilter
}

/** Several cells of a group must be added up. */
export interface RefusalCell {
  /** One value per dimension; '' for no key or team; times in ms. */
  of: readonly (string | number)[]
  refused: number
  lastMs: number
}

export interface RefusalReader {
  /** One day per page; nothing stays open in between. */
  pages(query: RefusalQuery): AsyncIterable<readonly RefusalCell[]>
}

type FilterOfItsName = Exclude<(typeof REQUEST_FILTERS)[number], 'key' | 'team' | 'owner' | 'error_code'>

/** All must match. */
export interface RequestFilter extends Partial<Record<FilterOfItsName, string>> {
  /** Only these keys; if empty, none. */
  ownKeys?: readonly string[]
  keyId?: string
  teamId?: string
  model?: string
  /** The upstream called last. */
  upstream?: string
  endpoint?: string
  statuses?: readonly RequestStatus[]
  /** Such as `upstream_timeout`. */
  errorCode?: string
}

/** Column of each filter that compares a value. */
export const EXACT = {
  ...{ keyId: 'key_id', teamId: 'team_id', upstream: 'upstream', endpoint: 'endpoint', user: 'user' },
  errorCode: 'error_code',
} as const satisfies Record<Exclude<keyof RequestFilter, 'ownKeys' | 'model' | 'statuses'>, string>
export const EXACT_FILTERS = keysOf(EXACT)

export function isWanted(row: StoredRequest | SettledRow, filter: RequestFilter): boolean {
  const { ownKeys, model, statuses } = filter
  return (
    (ownKeys === undefined || ownKeys.includes(row.keyId)) &&
    (model === undefined || matches(model, row.model)) &&
    (statuses === undefined || statuses.includes(row.status)) &&
    EXACT_FILTERS.every((name) => filter[name] === undefined || row[name] === filter[name])
  )
}

export interface RequestSearch extends RequestFilter {
  sinceMs?: number
  untilMs?: number
  /** Either must match. */
  id?: { end?: string; ofUpstream: string }
}

/** `node`: name of the cluster node that answered the request. */
export interface FoundRequest extends StoredRequest {
  node?: string | null
}

interface RowSlice {
  rows: FoundRequest[]
  /** Where to continue; null if done. */
  next: string | null
}

export interface RequestReader {
  /** Scans the newest `size` requests before `before`: takes milliseconds, and keeps nothing open afterward. */
  slice(search: RequestSearch, before: string | null, limit: number, size: number): Promise<RowSlice>
  get(id: string): Promise<FoundRequest | null>
  /** Searches the first `most` IDs that begin with `digits`. */
  beginning(digits: string, limit: number, most: number, ownKeys?: readonly string[]): Promise<string[]>
  /** Time since which no request was removed; 0 if none ever was. */
  keptFromMs(): Promise<number>
  /** At least one. */
  calls(request: FoundRequest): Promise<StoredCall[]>
  price(id: string): Promise<PriceRow | null>
}

/** Calls of a UTC day, as the provider counts them. */
export interface CallSum extends Record<SummedCount, number> {
  dayMs: number
  upstream: string
  /** From 1; null if the upstream has one or none. */
  credential: number | null
  upstreamModel: string
  /** One of the model IDs that clients requested. */
  model: string | null
  /** Excludes calls that failed before using anything, and calls that the upstream made within another call. */
  requests: number
  failed: number
  /** Rows of the key `correction`, which don't count as requests. */
  corrections: number
  costNanoUsd: number
}

export interface CallRef {
  /** ID of the request. */
  id: string
  upstream: string
  credential: number | null
  upstreamModel: string
  status: RequestStatus
  httpStatus: number | null
  errorCode: string | null
  estimated: number
  unpriced: number
  costNanoUsd: number
}

export interface CallReader {
  /** By day, upstream, credential, and the upstream's model. Several sums of a group must be added up. */
  sums(span: Span, upstreams: readonly string[]): AsyncIterable<readonly CallSum[]>
  /** @param of `models`: all calls of these upstream models; null: those with an error, an estimate, or a missing price. */
  refs(
    span: Span,
    upstreams: readonly string[],
    of: { models: readonly string[] | null; limit: number },
  ): Promise<CallRef[]>
  /** Time since which no request was removed; 0 if none ever was. */
  keptFromMs(): Promise<number>
}

export interface Spending {
  /** Settled requests at their cost, open ones at their reservation. */
  nanoUsd: Record<Period, number>
  /** Last use of a key; null for teams. */
  lastUse: { atMs: number; model: string } | null
}

/** Last rejected request of a key or team. */
export interface LastRefusal {
  atMs: number
  code: string
  /** Number of rejected requests in the span. */
  refused: number
}

export interface SpendReader {
  /** For all keys or teams, or one, from daily totals in one pass. UTC days. */
  spending(
    kind: Spender['kind'],
    spans: Readonly<Record<Period, Span>>,
    id?: string,
  ): Promise<ReadonlyMap<string, Spending>>
  /** For all keys or teams with rejected requests, or one, from whole hours since `sinceMs`. */
  refused(kind: Spender['kind'], sinceMs: number, id?: string): Promise<ReadonlyMap<string, LastRefusal>>
  /** Newest hour before `untilMs` with a settled request, ms; 0 if none. */
  latestHour(untilMs: number): Promise<number>
}

/** Readers of a cluster throw `toUnreadable` and `report_too_long`. */
export interface ReportReaders {
  readonly spend: SpendReader
  readonly requests: RequestReader
  readonly usage: UsageReader
  readonly calls: CallReader
  readonly failures: FailureReader
  readonly refusals: RefusalReader
}

/** @param trouble problem of PostgreSQL, if known */
export const toUnreadable = (trouble: string | null): ServiceError =>
  new ServiceError(
    { kind: 'cluster_unreachable', isInDoubt: false },
    `Can't read the cluster's ledger: ${(trouble ?? 'PostgreSQL does not answer').replace(/\.$/, '')}. Requests are still answered and recorded. Try again once PostgreSQL can be reached.`,
  )
