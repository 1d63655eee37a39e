/** What reports and lists of requests are narrowed to, as the address has it and as the API is asked. `domain/report-filters.ts` says which there are. Pure. */
import { REPORT_PARAMETERS, type RequestFilterName, type UsageFilterName } from '../../domain/report-filters.ts'

export type ReportFilter = UsageFilterName | RequestFilterName

/** Such as `Keys`. */
export const toTitle = (filter: ReportFilter): string => `${REPORT_PARAMETERS[filter].title}s`

/** By their names; '' for all. */
export type Filters<Name extends string> = Readonly<Record<Name, string>>

/** What an address says of them. */
export const toFilters = <Name extends string>(names: readonly Name[], query: URLSearchParams) =>
  Object.fromEntries(names.map((name) => [name, query.get(name) ?? ''])) as Filters<Name>

/** As the API is asked: without those that leave nothing out. */
export const toGiven = <Name extends string>(filters: Filters<Name>) =>
  Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== '')) as Partial<Filters<Name>>
