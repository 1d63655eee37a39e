/** Fields in which one chooses what a report or a list is narrowed to, and links that take it along. */
import type { ComponentChildren } from 'preact'
import { keysOf } from '../../domain/json.ts'
import { REPORT_PARAMETERS } from '../../domain/report-filters.ts'
import { toHref } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { isMember } from '../api/session.ts'
import { Choice, type Option, withChosen } from '../ui/table.tsx'
import { type Filters, type ReportFilter, toTitle } from './filters.ts'

/** The list of requests, narrowed. */
export const toRequests = (filters: Record<string, string | null>) => toHref(`/requests${withQuery('', filters)}`)

interface NarrowProps<Name extends ReportFilter> {
  of: Filters<Name>
  /** What is always there, in this order, with what there is to choose; others only where the address has them. */
  offered: readonly (readonly [name: Name, options: readonly Option[]])[]
  /** Where the link leads to all of it; null where that is what is shown. */
  all: string | null
  /** What in the address says from where on a list is shown. */
  restarts?: string
  /** More fields, between those that are offered and the others. */
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
      {all !== null && <a href={all}>Show all</a>}
    </search>
  )
}
