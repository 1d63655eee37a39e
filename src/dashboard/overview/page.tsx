/** What it costs, who asks, what fails and what is not ready: the first page, once anything was asked. */
import { query, toHrefWith } from '../address/address.ts'
import { useNewest } from '../api/loaded.ts'
import { useModels } from '../keys/data.ts'
import { Page } from '../shell/page.tsx'
import { StartPage } from '../start/page.tsx'
import { Choice, type Option, withChosen } from '../ui/filters.tsx'
import { Empty, Problem } from '../ui/notice.tsx'
import { PageRoom, Unread } from '../ui/unread.tsx'
import { Budgets, Changed, NotReady } from './beside.tsx'
import { CostChart, FailedChart, LatencyChart } from './charts.tsx'
import { type Filters, type Overview, useHasRequests, useMarks, useOverview } from './data.ts'
import { Headline } from './headline.tsx'
import { HeatStrip } from './heat-strip.tsx'
import { toWanted } from './range.ts'
import { CustomRange, Ranges } from './ranges.tsx'
import { OverviewRoom } from './room.tsx'
import { Tops } from './tops.tsx'

export function OverviewPage() {
  const { data: hasRequests, problem, reload } = useHasRequests()
  // Whoever asks for a range wants to see it, whatever is in it.
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
  const [key, team, model] = ['key', 'team', 'model'].map((each) => query.value.get(each) ?? '') as [
    ...[string, string, string],
  ]
  const filters = { key, team, model }
  const { data, problem, reload } = useOverview(wanted, filters)
  const shown = useNewest(data)
  return (
    <Page title="Overview" actions={<Ranges wanted={wanted} />}>
      <Unread of={shown} problem={problem} retry={reload}>
        <OverviewRoom />
      </Unread>
      {shown !== null && (
        <div class="overview" aria-busy={data === null}>
          {wanted.name === 'custom' && <CustomRange of={wanted} />}
          <Narrow filters={filters} of={shown} />
          <Headline of={shown} />
          <div class="overview-parts">
            <div class="overview-column">
              {shown.now.requests === 0 ? (
                <Empty title="Nothing was asked in this time">
                  <p>
                    <a href={toHrefWith({ range: '30d', from: null, to: null, key: null, team: null, model: null })}>
                      Look at all of the last 30 days
                    </a>
                  </p>
                </Empty>
              ) : (
                <>
                  <Charts of={shown} />
                  <HeatStrip of={shown} />
                  <Tops of={shown} />
                </>
              )}
            </div>
            <div class="overview-column">
              <NotReady of={shown} />
              <Budgets of={shown} />
              <Changed of={shown} />
            </div>
          </div>
          <p class="list-foot">Days and hours are those of UTC, as budgets have them.</p>
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

function Narrow({ filters: { key, team, model }, of: { keys, teams } }: { filters: Filters; of: Overview }) {
  const models = useModels().data ?? []
  const named = (rows: readonly { id: string; name: string }[]): Option[] => rows.map(({ id, name }) => [id, name])
  return (
    <search class="filters">
      <Choice name="key" label="Key" value={key} options={withChosen([['', 'All keys'], ...named(keys)], key)} />
      <Choice
        name="model"
        label="Model"
        value={model}
        options={withChosen([['', 'All models'], ...models.map(({ slug }): Option => [slug, slug])], model)}
      />
      {teams.length > 0 && (
        <Choice
          name="team"
          label="Team"
          value={team}
          options={withChosen([['', 'All teams'], ...named(teams)], team)}
        />
      )}
      {`${key}${team}${model}` !== '' && <a href={toHrefWith({ key: null, team: null, model: null })}>Show all</a>}
    </search>
  )
}
