/** Teams: keys that share limits, a list of models and a budget. */
import type { TeamDocument } from '../../documents/key.ts'
import { named, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { hasWords } from '../figures/search.ts'
import { BudgetCell, toBudgetShare } from '../keys/budget.tsx'
import { toShortLimits, toShortModels } from '../keys/words.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { Money, None } from '../ui/figure.tsx'
import { ListFoot, SearchFilter, searched } from '../ui/filters.tsx'
import { Empty } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Unread } from '../ui/unread.tsx'
import { useTeams } from './data.ts'
import { TeamDrawer } from './drawer.tsx'

const newTeam = () =>
  may('editor') && (
    <ButtonLink kind="main" icon="plus" href={toHref('/teams/new')} data-new>
      New team
    </ButtonLink>
  )

export function TeamsPage() {
  const { data: teams, problem, reload } = useTeams()
  const open = named('team')
  return (
    <Page title="Teams" actions={teams !== null && teams.length > 0 && newTeam()}>
      <Unread of={teams} problem={problem} retry={reload} />
      {teams !== null && (teams.length === 0 ? <NoTeams /> : <List teams={teams} />)}
      {open !== null && <TeamDrawer key={open} id={open} onClose={() => setQuery({ team: null })} />}
    </Page>
  )
}

function List({ teams }: { teams: readonly TeamDocument[] }) {
  const shown = teams.filter(({ id, name, models }) => hasWords([id, name, ...models], searched()))
  return (
    <>
      <search class="filters">
        <SearchFilter what="teams" />
      </search>
      {shown.length > 0 ? (
        <Table caption="Teams" columns={COLUMNS} rows={shown} idOf={({ id }) => id} />
      ) : (
        <p class="dim">
          No team has these words. <a href={toHref('/teams')}>Show all</a>
        </p>
      )}
      <ListFoot shown={shown.length} all={teams.length} />
    </>
  )
}

const NoTeams = () => (
  <Empty title="No teams yet">
    <p>
      Keys of a team share its limits, its budget and the models that it may use, each beside its own. People who sign
      in as members make keys within a team.
    </p>
    {newTeam()}
    <p class="dim">Or on the command line:</p>
    <Code label="Command that makes a team" text="tollgate teams create --name research --budget 200/month" />
  </Empty>
)

const COLUMNS: readonly Column<TeamDocument>[] = [
  {
    name: 'name',
    title: 'Name',
    sortBy: ({ name }) => name,
    cell: ({ id, name }) => (
      <a class="row-link" href={toHrefWith({ team: id })}>
        {name}
      </a>
    ),
  },
  { name: 'models', title: 'Models', isOnPhone: false, cell: toShortModels },
  { name: 'limits', title: 'Limits', isOnPhone: false, cell: (team) => toShortLimits(team) || <None /> },
  { name: 'budget', title: 'Budget', sortBy: toBudgetShare, cell: BudgetCell },
  {
    name: 'month',
    title: 'This month',
    isFigure: true,
    sortBy: ({ spent_month_nano_usd }) => spent_month_nano_usd,
    cell: ({ spent_month_nano_usd }) => <Money nanoUsd={spent_month_nano_usd} />,
  },
]
