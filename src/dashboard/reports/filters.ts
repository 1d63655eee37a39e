/** Filters of reports and request lists in the URL and in API queries; defined in `domain/report-filters.ts`. */
import { REPORT_PARAMETERS, type RequestFilterName, type UsageFilterName } from '../../domain/report-filters.ts'

export type ReportFilter = UsageFilterName | RequestFilterName

export const toTitle = (filter: ReportFilter): string => `${REPORT_PARAMETERS[filter].title}s`

/** '' for all. */
export type Filters<Name extends string> = Readonly<Record<Name, string>>

export const toFilters = <Name extends string>(names: readonly Name[], query: URLSearchParams) =>
  Object.fromEntries(names.map((name) => [name, query.get(name) ?? ''])) as Filters<Name>

/** Only filters that are set. */
export const toGiven = <Name extends string>(filters: Filters<Name>) =>
  Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== '')) as Partial<Filters<Name>>
