/** Overview: cost, usage, errors, and upstream health; the home page once there are requests. */

import type { ComponentChildren } from 'preact'
import { USAGE_FIGURE_NAMES } from '../../domain/usage-figures.ts'
import { query, toHrefWith } from '../address/address.ts'
import { readNow } from '../api/clock.ts'
import { useLoaded, useNewest } from '../api/loaded.ts'
import { NOT_LOADED } from '../api/refusal.ts'
import { useModels } from '../keys/data.ts'
import { toFilters } from '../reports/filters.ts'
import { Narrow } from '../reports/narrow.tsx'
import { Page } from '../shell/page.tsx'
import { Empty, FigureRoom, PageRoom, Problem, Unread } from '../ui/notice.tsx'
import { Attention, useAttentionRead } from './attention.tsx'
import { Breakdown } from './breakdown.tsx'
import { CostChart, FailedChart, LatencyChart } from './charts.tsx'
import { FILTERS, type Overview, type Standing, useHasRequests, useMarks, useOverview, useStanding } from './data.ts'
import { Budgets, Changed, Headline, HeatStrip, Refusals, WhatChanged } from './panels.tsx'
import { CustomRange, Ranges } from './period.tsx'
import { toWanted, type Wanted } from './range.ts'

export function OverviewPage() {
  const wanted = toWanted(query.value, readNow())
  const filters = toFilters(FILTERS, query.value)
  const overview = useOverview(wanted, filters)
  const standing = useStanding()
  // An explicit range is shown even if it is empty.
  const isExplicit = query.value.has('range') || query.value.has('from')
  const isEmpty = overview.data?.now.requests === 0
  const shown = <Shown {...{ wanted, filters, overview, standing }} />
  return isEmpty && !isExplicit ? <StartUnlessUsed>{shown}</StartUnlessUsed> : shown
}

/** Shown before the first request. */
function StartUnlessUsed({ children }: { children: ComponentChildren }) {
  const { data: hasRequests, problem, reload } = useHasRequests()
  const start = useStart()
  if (hasRequests) return children
  if (problem) return <Problem of={problem} retry={reload} />
  if (start.problem) return <Problem of={start.problem} retry={() => location.reload()} />
  if (hasRequests === false && start.data !== null) return <start.data.StartPage />
  return (
    <PageRoom>
      <OverviewRoom />
    </PageRoom>
  )
}

/** Loaded on demand, since most servers have requests. */
const useStart = () =>
  useLoaded('start page', () => import('../start/page.tsx').catch(() => Promise.reject(NOT_LOADED)))

interface ShownProps {
  wanted: Wanted
  filters: Overview['filters']
  overview: ReturnType<typeof useOverview>
  standing: Standing
}

function Shown({ wanted, filters, overview: { data, problem, reload }, standing }: ShownProps) {
  const isRead = useAttentionRead()
  const newest = useNewest(data)
  const shown = isRead ? newest : null
  return (
    <Page title="Overview" actions={<Ranges wanted={wanted} />}>
      {(shown !== null || problem !== null) && <Attention />}
      <Unread of={shown} problem={problem} retry={reload}>
        <OverviewRoom />
      </Unread>
      {shown !== null && (
        <div class="overview" aria-busy={data === null}>
          {wanted.name === 'custom' && <CustomRange of={wanted} />}
          <OverviewFilters {...{ filters, standing }} />
          <WhatChanged of={shown} />
          <Headline of={shown} />
          {shown.now.requests > 0 && <Breakdown of={shown} />}
          <div class="overview-parts">
            <div class="overview-column">
              {shown.now.requests === 0 ? (
                <Empty title="No requests in this period">
                  <p>
                    <a href={toHrefWith({ ...NO_FILTERS, range: '30d', from: null, to: null })}>
                      Show the last 30 days, all keys and models
                    </a>
                  </p>
                </Empty>
              ) : (
                <>
                  <Charts of={shown} />
                  <HeatStrip of={shown} />
                </>
              )}
            </div>
            <div class="overview-column">
              <Budgets of={standing} />
              <Changed of={standing} />
              <Refusals of={shown} />
            </div>
          </div>
          <p class="list-foot">Times are in UTC, like budgets.</p>
        </div>
      )}
    </Page>
  )
}

function Charts({ of }: { of: Overview }) {
  const marks = useMarks(of).data ?? []
  return (
    <>
      <CostChart of={of} marks={marks} />
      <div class="halves">
        <LatencyChart of={of} marks={marks} />
        <FailedChart of={of} marks={marks} />
      </div>
    </>
  )
}

function OverviewFilters({ filters, standing: { keys, teams } }: Pick<ShownProps, 'filters' | 'standing'>) {
  const models = useModels().data ?? []
  const named = (rows: readonly { id: string; name: string }[] | null) =>
    (rows ?? []).map(({ id, name }) => [id, name] as const)
  return (
    <Narrow
      of={filters}
      offered={[
        ['key', named(keys.data)],
        ['model', models.map(({ slug }) => [slug, slug] as const)],
        ...(teams.data?.length === 0 ? [] : [['team', named(teams.data)] as const]),
      ]}
      all={Object.values(filters).every((value) => value === '') ? null : toHrefWith(NO_FILTERS)}
    />
  )
}

const NO_FILTERS = Object.fromEntries(FILTERS.map((name) => [name, null]))

const FIGURES = [...USAGE_FIGURE_NAMES, 'first token', 'upstreams']

const OverviewRoom = () => (
  <div class="overview">
    <div class="filters">
      <span class="room-of-field" />
    </div>
    <div class="headline overview-figures">
      {FIGURES.map((each) => (
        <FigureRoom key={each} />
      ))}
    </div>
    <div class="panel room-of-breakdown" />
    <div class="overview-parts">
      <div class="overview-column">
        <div class="panel room-of-chart" />
        <div class="halves">
          <div class="panel room-of-chart" />
          <div class="panel room-of-chart" />
        </div>
      </div>
      <div class="overview-column">
        <div class="panel room-of-chart" />
      </div>
    </div>
  </div>
)
