/** Pages of members: their team, its models, and the usage of their keys. */

import { TEAM_FIELDS } from '../../keys/definition.ts'
import { query, toHref } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { api, ask } from '../api/client.ts'
import { nowMs, readNow } from '../api/clock.ts'
import { useLoaded, useNewest } from '../api/loaded.ts'
import { hasWords, toDay, toExactCount, toMoment, toMoney } from '../figures/figures.ts'
import { SettableFacts, Spent } from '../keys/facts.tsx'
import { toFeatures } from '../models/words.ts'
import { type Share, toShares, toTotals } from '../overview/figures.ts'
import { CustomRange, Ranges } from '../overview/period.tsx'
import { type Range, toRange, toSpan, toWanted, type Wanted } from '../overview/range.ts'
import { toPlayed } from '../playground/titles.ts'
import { Page } from '../shell/page.tsx'
import { Copyable } from '../ui/controls.tsx'
import { Bar, Columns, Count, Money, None, Price, State } from '../ui/figure.tsx'
import { Empty, FactsRoom, Unread } from '../ui/notice.tsx'
import { Headline, List } from '../ui/resource.tsx'
import { type Column, searched, Table } from '../ui/table.tsx'

const FRESH_MS = 15_000
const USAGE_MS = 30_000
const MAX_ROWS = 1_000

const useTeam = () => useLoaded('own/team', () => ask(api.own.team.get()), { everyMs: FRESH_MS })

export function OwnTeamPage() {
  const { data: team, problem, reload } = useTeam()
  return (
    <Page title={team === null ? 'Team' : `Team ${team.name}`}>
      <Unread of={team} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {team !== null && (
        <div class="sections narrow">
          <Spent of={team} />
          <section class="panel">
            <h2>Team limits</h2>
            <p class="dim">
              All keys of the team, including yours, share this budget and these limits. Each key can also have its own.
            </p>
            <dl class="facts">
              <SettableFacts fields={TEAM_FIELDS} of={team} />
            </dl>
            <p>
              <a href={toHref('/models')}>Models you can use</a>
            </p>
          </section>
        </div>
      )}
    </Page>
  )
}

const useModels = () =>
  useLoaded('own/models', async () => (await ask(api.own.models.get())).models, { everyMs: FRESH_MS })

type Model = NonNullable<ReturnType<typeof useModels>['data']>[number]

const COLUMNS: readonly Column<Model>[] = [
  { name: 'model', title: 'Model', sortBy: ({ id }) => id, cell: ({ id }) => <Copyable text={id} /> },
  {
    name: 'state',
    title: 'Status',
    sortBy: ({ is_ready }) => (is_ready ? 'ready' : 'unready'),
    cell: ({ is_ready }) => (is_ready ? <State kind="good">ready</State> : <State kind="bad">not ready</State>),
  },
  {
    name: 'input',
    title: 'Input per million',
    isFigure: true,
    sortBy: ({ pricing }) => Number(pricing[0]?.prompt ?? 0),
    cell: ({ pricing, output_modalities: made }) => <Price of={pricing} made={made} side="prompt" />,
  },
  {
    name: 'output',
    title: 'Output per million',
    isFigure: true,
    sortBy: ({ pricing }) => Number(pricing[0]?.completion ?? 0),
    cell: ({ pricing, output_modalities: made }) => <Price of={pricing} made={made} side="completion" />,
  },
  {
    name: 'context',
    title: 'Context',
    isFigure: true,
    sortBy: ({ context_length }) => context_length,
    cell: ({ context_length }) => <Count count={context_length} />,
  },
  {
    name: 'can',
    title: 'Capabilities',
    cell: (model) => <span class="words">{toFeatures(model).join(', ') || <None />}</span>,
  },
  {
    name: 'try',
    title: 'Playground',
    cell: ({ id, output_modalities: made }) =>
      toPlayed(made).length > 0 && (
        <a href={toHref(`/playground?model=${encodeURIComponent(id)}`)}>
          Try it<span class="unseen">: {id}</span>
        </a>
      ),
  },
]

export function OwnModelsPage() {
  const { data: models, problem, reload } = useModels()
  return (
    <Page title="Models">
      <Unread of={models} problem={problem} retry={reload} />
      {models !== null && (models.length === 0 ? <NoModels /> : <Models models={models} />)}
    </Page>
  )
}

const NoModels = () => (
  <Empty title="No models for your team">
    <p>Your team's models appear here with their prices. Ask an owner or editor to enable some.</p>
  </Empty>
)

const Models = ({ models }: { models: readonly Model[] }) => (
  <List
    what="models"
    columns={COLUMNS}
    rows={models.filter(({ id, name }) => hasWords([id, name], searched()))}
    all={models.length}
    idOf={({ id }) => id}
    none={['No matching models.', '/models', 'Show all']}
  />
)

const useUsage = (wanted: Wanted) =>
  useLoaded(`own/usage?${JSON.stringify(wanted)}`, () => readUsage(wanted), { everyMs: USAGE_MS })

type Usage = Awaited<ReturnType<typeof readUsage>>

async function readUsage(wanted: Wanted) {
  const range = toRange(wanted, readNow())
  const query = { ...toSpan(range), limit: MAX_ROWS, figures: 'sums' as const }
  const report = (by: string) => ask(api.own.usage.get({ query: { ...query, by } }))
  const [byTime, byKey, byModel] = await Promise.all([report(range.by), report('key'), report('model')])
  const rows = new Map(byTime.usage.map((row) => [Number(row[`${range.by}_ms`]), toTotals(row)]))
  return {
    range,
    total: toTotals(byTime.total),
    tokens: Number(byTime.total.prompt_tokens ?? 0) + Number(byTime.total.completion_tokens ?? 0),
    columns: range.columns.map((ms) => {
      const { requests = 0, costNanoUsd = 0 } = rows.get(ms) ?? {}
      return { ms, requests, costNanoUsd }
    }),
    ...{ keys: toShares('key', byKey), models: toShares('model', byModel) },
  }
}

/** Usage of a member's own keys: total, over time, by key, and by model. */
export function OwnUsagePage() {
  const wanted = toWanted(query.value, readNow())
  const { data, problem, reload } = useUsage(wanted)
  const usage = useNewest(data)
  return (
    <Page title="Usage" actions={<Ranges wanted={wanted} />}>
      <Unread of={usage} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {wanted.name === 'custom' && <CustomRange of={wanted} />}
      {usage !== null && (usage.total.requests === 0 ? <Nothing of={usage.range} /> : <Shown of={usage} />)}
    </Page>
  )
}

const Nothing = ({ of: { text } }: { of: Range }) => (
  <Empty title={`No requests ${text}`}>
    <p>
      The usage and cost of <a href={toHref('/keys')}>your keys</a> appear here, by day, key, and model.
    </p>
  </Empty>
)

const Shown = ({ of: usage }: { of: Usage }) => (
  <div class="sections">
    <Headline
      of={[
        ['cost', <Money key="cost" nanoUsd={usage.total.costNanoUsd} isEstimated={usage.total.isEstimated} />],
        [
          'requests',
          <a key="requests" href={toRequests(usage.range)}>
            <Count count={usage.total.requests} />
          </a>,
        ],
        ['tokens', <Count key="tokens" count={usage.tokens} />],
      ]}
    />
    <OverTime of={usage} />
    <Shares title="By key" name="key" rows={usage.keys} range={usage.range} />
    <Shares title="By model" name="model" rows={usage.models} range={usage.range} />
    <p class="list-foot">Times are in UTC, like budgets.</p>
  </div>
)

const toRequests = (range: Range, of: Record<string, string> = {}) =>
  toHref(`/requests${withQuery('', { ...of, ...toSpan(range) })}`)

/** The first, the middle, and the last label, if there are that many. */
const toTicks = <One,>(all: readonly One[]) =>
  all.filter((_, at) => at === 0 || at === all.length - 1 || (all.length % 2 === 1 && at === (all.length - 1) / 2))

function OverTime({ of: { columns, total, range } }: { of: Usage }) {
  const isFree = total.costNanoUsd === 0
  const toText = ({ requests, costNanoUsd }: Pick<Usage['total'], 'requests' | 'costNanoUsd'>) =>
    `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}${isFree ? '' : `, ${toMoney(costNanoUsd)}`}`
  const timeOf = ({ ms }: { ms: number }) => (range.by === 'day' ? toDay : toMoment)(ms, nowMs.value, 'UTC')
  const values = columns.map(({ requests, costNanoUsd }) => (isFree ? requests : costNanoUsd))
  const most = Math.max(...values)
  return (
    <section class="panel">
      <h2>
        {toText(total)} {range.text}
      </h2>
      <div class="columns-chart">
        <p class="columns-top">
          {isFree ? `${toExactCount(most)} ${most === 1 ? 'request' : 'requests'}` : toMoney(most)}
        </p>
        <Columns
          values={values}
          label={`By ${range.by}: ${toText(total)}`}
          titleOf={(index) => {
            const column = columns[index]
            return column ? `${timeOf(column)}: ${toText(column)}` : ''
          }}
        />
        <p class="columns-axis">
          {toTicks(columns).map((column) => (
            <span key={column.ms}>{timeOf(column)}</span>
          ))}
        </p>
      </div>
    </section>
  )
}

interface SharesProps {
  title: string
  name: 'key' | 'model'
  rows: readonly Share[]
  range: Range
}

function Shares({ title, name, rows, range }: SharesProps) {
  const columns: readonly Column<Share>[] = [
    {
      name: 'name',
      title: name === 'key' ? 'Key' : 'Model',
      cell: ({ id, name: shown }) => (
        <a class="row-link" href={toRequests(range, { [name]: id ?? '' })}>
          {shown}
        </a>
      ),
    },
    {
      name: 'share',
      title: 'Share',
      isOnPhone: false,
      cell: ({ share }) => <Bar share={share} kind="good" label={`${Math.round(share * 100)}%`} />,
    },
    { name: 'requests', title: 'Requests', isFigure: true, cell: ({ requests }) => <Count count={requests} /> },
    {
      name: 'cost',
      title: 'Cost',
      isFigure: true,
      cell: ({ costNanoUsd, isEstimated }) => <Money nanoUsd={costNanoUsd} isEstimated={isEstimated} />,
    },
  ]
  return (
    <section class="drawer-part">
      <h2>{title}</h2>
      <Table caption={title} columns={columns} rows={rows} idOf={({ id, name: shown }) => id ?? shown} />
    </section>
  )
}
