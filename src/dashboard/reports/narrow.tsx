/** Filter fields of reports and request lists. */
import type { ComponentChildren } from 'preact'
import { keysOf } from '../../domain/json.ts'
import { REPORT_PARAMETERS } from '../../domain/report-filters.ts'
import { toHref } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { isMember } from '../api/session.ts'
import { Choice, type Option, withChosen } from '../ui/table.tsx'
import { type Filters, type ReportFilter, toTitle } from './filters.ts'

/** Link to the filtered list of requests. */
export const toRequests = (filters: Record<string, string | null>) => toHref(`/requests${withQuery('', filters)}`)

interface NarrowProps<Name extends ReportFilter> {
  of: Filters<Name>
  /** Filters always shown, with their options; others appear only if set in the URL. */
  offered: readonly (readonly [name: Name, options: readonly Option[]])[]
  /** Link that clears the filters; null if none is set. */
  all: string | null
  /** Pagination parameter to clear on change. */
  restarts?: string
  /** More fields. */
  children?: ComponentChildren
}

export function Narrow<Name extends ReportFilter>({ of, offered, all, children, ...rest }: NarrowProps<Name>) {
  const toChoice = (name: Name, options: readonly Option[]) => {
    const label = REPORT_PARAMETERS[name].title
    const choices = withChosen([['', `All ${toTitle(name).toLowerCase()}`], ...options], of[name])
    return <Choice key={name} {...{ name, label, ...rest }} value={of[name]} options={choices} />
  }
  const others = keysOf(of).filter((name) => !offered.some(([one]) => one === name) && of[name] !== '')
  return (
    <search class="filters">
      {offered.map(([name, options]) => toChoice(name, options))}
      {children}
      {!isMember() && others.map((name) => toChoice(name, []))}
      {all !== null && <a href={all}>Clear filters</a>}
    </search>
  )
}
