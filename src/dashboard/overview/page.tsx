/** Overview: cost, usage, errors, and upstream health; the home page once there are requests. */

import { DAY_MS, dayOf } from '../../domain/time.ts'
import { USAGE_FIGURE_NAMES } from '../../domain/usage-figures.ts'
import { query, setQuery, toHrefWith } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { useNewest } from '../api/loaded.ts'
import { useModels } from '../keys/data.ts'
import { toFilters } from '../reports/filters.ts'
import { Narrow } from '../reports/narrow.tsx'
import { Page } from '../shell/page.tsx'
import { StartPage } from '../start/page.tsx'
import { Button } from '../ui/controls.tsx'
import { Empty, FigureRoom, PageRoom, Problem, Unread } from '../ui/notice.tsx'
import { Attention } from './attention.tsx'
import { Breakdown } from './breakdown.tsx'
import { CostChart, FailedChart, LatencyChart } from './charts.tsx'
import { FILTERS, type Overview, useHasRequests, useMarks, useOverview } from './data.ts'
import { Budgets, Changed, Headline, HeatStrip, Refusals, WhatChanged } from './panels.tsx'
import { RANGES, toQuery, toRange, toWanted, type Wanted } from './range.ts'

export function OverviewPage() {
  const { data: hasRequests, problem, reload } = useHasRequests()
  // An explicit range is shown even if it is empty.
  if (hasRequests || query.value.has('range') || query.value.has('from')) return <Shown />
  if (problem) return <Problem of={problem} retry={reload} />
  if (hasRequests === false) return <StartPage />
  return (
    <PageRoom>
      <OverviewRoom />
    </PageRoom>
  )
}

function Shown() {
  const wanted = toWanted(query.value, Date.now())
  const filters = toFilters(FILTERS, query.value)
  const { data, problem, reload } = useOverview(wanted, filters)
  const shown = useNewest(data)
  return (
    <Page title="Overview" actions={<Ranges wanted={wanted} />}>
      <Attention />
      <Unread of={shown} problem={problem} retry={reload}>
        <OverviewRoom />
      </Unread>
      {shown !== null && (
        <div class="overview" aria-busy={data === null}>
          {wanted.name === 'custom' && <CustomRange of={wanted} />}
          <OverviewFilters of={{ ...shown, filters }} />
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
              <Budgets of={shown} />
              <Changed of={shown} />
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

function OverviewFilters({ of: { filters, keys, teams } }: { of: Overview }) {
  const models = useModels().data ?? []
  const named = (rows: readonly { id: string; name: string }[]) => rows.map(({ id, name }) => [id, name] as const)
  return (
    <Narrow
      of={filters}
      offered={[
        ['key', named(keys)],
        ['model', models.map(({ slug }) => [slug, slug] as const)],
        ...(teams.length > 0 ? [['team', named(teams)] as const] : []),
      ]}
      all={Object.values(filters).every((value) => value === '') ? null : toHrefWith(NO_FILTERS)}
    />
  )
}

const NO_FILTERS = Object.fromEntries(FILTERS.map((name) => [name, null]))

export const Ranges = ({ wanted }: { wanted: Wanted }) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
  <div class="ranges" role="group" aria-label="Period">
    {RANGES.map(([name, text]) => (
      <button
        key={name}
        type="button"
        class="range"
        aria-pressed={name === wanted.name}
        onClick={() => setQuery({ range: name, from: null, to: null }, 'push')}
      >
        {text}
      </button>
    ))}
    <button
      type="button"
      class="range"
      aria-pressed={wanted.name === 'custom'}
      onClick={() => wanted.name !== 'custom' && setQuery(toDays(wanted), 'push')}
    >
      Custom
    </button>
  </div>
)

/** The shown range as whole days, to start a custom range from. */
function toDays(wanted: Wanted) {
  const { sinceMs } = toRange(wanted, nowMs.value)
  return toQuery(sinceMs, dayOf(nowMs.value) + DAY_MS)
}

const toDate = (ms: number) => new Date(ms).toISOString().slice(0, 10)

export function CustomRange({ of: { sinceMs, untilMs } }: { of: { sinceMs: number; untilMs: number } }) {
  const [first, last, today] = [toDate(sinceMs), toDate(untilMs - 1), toDate(nowMs.value)]
  const send = (event: SubmitEvent) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    // In either order.
    const [from = '', to = ''] = [fields.get('from'), fields.get('to')].map(String).sort()
    if (toWanted(new URLSearchParams({ from, to }), nowMs.value).name === 'custom')
      setQuery({ range: null, from, to }, 'push')
  }
  return (
    // The key re-creates the form when the URL's days change.
    <form key={`${first} ${last}`} class="custom-range" onSubmit={send}>
      <label>
        From
        <input type="date" name="from" defaultValue={first} max={today} required />
      </label>
      <label>
        To
        <input type="date" name="to" defaultValue={last} max={today} required />
      </label>
      <span class="dim">UTC, last day included</span>
      <Button type="submit">Apply</Button>
    </form>
  )
}

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
