/** What reports and lists of requests are narrowed to, as the address has it and as the API is asked. `domain/report-filters.ts` says which there are. Pure. */
import type { REQUEST_FILTERS, USAGE_FILTERS } from '../../domain/report-filters.ts'

export type ReportFilter = (typeof REQUEST_FILTERS)[number] | (typeof USAGE_FILTERS)[number]

/** What one is called, and all of them. */
export const WORDS: Readonly<Record<ReportFilter, readonly [one: string, all: string]>> = {
  key: ['Key', 'keys'],
  team: ['Team', 'teams'],
  model: ['Model', 'models'],
  upstream: ['Upstream', 'upstreams'],
  endpoint: ['Endpoint', 'endpoints'],
  user: ['User', 'users'],
  error_code: ['Error', 'errors'],
}

/** Such as `Keys`. */
export const toTitle = (filter: ReportFilter): string =>
  WORDS[filter][1].replace(/^./, (letter) => letter.toUpperCase())

/** By their names; '' for all. */
export type Filters<Name extends string> = Readonly<Record<Name, string>>

/** What an address says of them. */
export const toFilters = <Name extends string>(names: readonly Name[], query: URLSearchParams) =>
  Object.fromEntries(names.map((name) => [name, query.get(name) ?? ''])) as Filters<Name>

/** As the API is asked: without those that leave nothing out. */
export const toGiven = <Name extends string>(filters: Filters<Name>) =>
  Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== '')) as Partial<Filters<Name>>
