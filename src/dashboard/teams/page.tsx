/** Teams: the list, the drawer of one, and the page of a new one. */
import { useState } from 'preact/hooks'
import type { KeyDocument, TeamDocument } from '../../documents/key.ts'
import { TEAM_FIELDS } from '../../keys/definition.ts'
import { toSpentTeams, toStanding, toTeamStanding } from '../../keys/standing.ts'
import { named, open, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may, ways } from '../api/session.ts'
import { hasWords } from '../figures/figures.ts'
import {
  BudgetCell,
  RefusedFact,
  RefusedState,
  SettableFacts,
  Spent,
  StandingMark,
  toBudgetShare,
} from '../keys/facts.tsx'
import { SettableFields, useChoicesRead } from '../keys/fields.tsx'
import { KEY_GROUPS, TEAM_FORM, type Values } from '../keys/values.ts'
import { useTeamWarnings } from '../keys/warn.ts'
import { toShortLimits, toShortModels } from '../keys/words.ts'
import { FormPage, Page } from '../shell/page.tsx'
import { Button, ButtonLink, Code, Id } from '../ui/controls.tsx'
import { useEdit } from '../ui/edit.tsx'
import { Money, None, TimeFact } from '../ui/figure.tsx'
import { EditForm, useForm } from '../ui/form.tsx'
import { Empty, FactsRoom, Overlay, tell, Unread } from '../ui/notice.tsx'
import { List } from '../ui/resource.tsx'
import { type Column, searched } from '../ui/table.tsx'
import { editTeam, makeTeam, readTeam, useTeam, useTeams } from './data.ts'

const newTeam = () =>
  may('editor') && (
    <ButtonLink kind="main" icon="plus" href={toHref('/teams/new')} data-new>
      New team
    </ButtonLink>
  )

export function TeamsPage() {
  const { data: teams, problem, reload } = useTeams()
  const opened = named('team')
  return (
    <Page title="Teams" actions={teams !== null && teams.length > 0 && newTeam()}>
      <Unread of={teams} problem={problem} retry={reload} />
      {teams !== null &&
        (teams.length === 0 ? (
          <NoTeams />
        ) : (
          <List
            what="teams"
            columns={columnsFor(teams)}
            rows={teams.filter(({ id, name, models }) => hasWords([id, name, ...models], searched()))}
            all={teams.length}
            idOf={({ id }) => id}
            none={['No matching teams.', '/teams', 'Show all']}
          />
        ))}
      {opened !== null && <TeamDrawer key={opened} id={opened} onClose={() => setQuery({ team: null, edit: null })} />}
    </Page>
  )
}

const NoTeams = () => (
  <Empty title="No teams yet">
    <p>
      The keys of a team share its limits, budget, and models, in addition to their own. Members create their keys
      within a team.
    </p>
    <WhoInvites />
    {newTeam()}
    <p class="dim">Or from the command line:</p>
    <Code label="Command that creates a team" text="tollgate teams create --name research --budget 200/month" />
  </Empty>
)

const columnsFor = (teams: readonly TeamDocument[]): Column<TeamDocument>[] => [
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
  {
    name: 'state',
    title: 'Status',
    sortBy: toTeamStanding,
    cell: (team) => <StandingMark of={toTeamStanding(team)} />,
  },
  ...(teams.some(({ refused_24h }) => refused_24h > 0)
    ? [
        {
          name: 'refused',
          title: 'Refused',
          sortBy: ({ refused_24h }: TeamDocument) => refused_24h,
          cell: (team: TeamDocument) => (team.refused_24h > 0 ? <RefusedState of={team} /> : <None />),
        },
      ]
    : []),
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

function TeamDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: team, problem, reload } = useTeam(id)
  const [isEdited, setEdited] = useState(named('edit') !== null && may('editor'))
  const close = () => {
    setEdited(false)
    setQuery({ edit: null })
  }
  return (
    <Overlay kind="drawer" title={team?.name ?? 'Team'} onClose={onClose}>
      <Unread of={team} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {team !== null && (
        <>
          <p class="drawer-line">
            {team.budget_state === 'spent' && <StandingMark of={toTeamStanding(team)} />}
            <RefusedState of={team} />
            <span class="dim">ID</span> <Id id={team.id} />
          </p>
          <Spent of={team} />
          <p class="drawer-line">
            <a href={toHref(`/?team=${team.id}&range=30d&by=key`)}>Usage of the last 30 days</a>{' '}
            <a href={toHref(`/requests?team=${team.id}`)}>Requests</a>
          </p>
          {isEdited ? (
            <Edit of={team} onDone={close} />
          ) : (
            <>
              <Facts of={team} />
              {may('editor') && (
                <div class="form-foot">
                  <Button onClick={() => setEdited(true)}>Edit</Button>
                </div>
              )}
              <Keys of={team} />
            </>
          )}
        </>
      )}
    </Overlay>
  )
}

const Facts = ({ of: team }: { of: TeamDocument }) => (
  <dl class="facts">
    <SettableFacts fields={TEAM_FIELDS} of={team} />
    <RefusedFact of={team} by="team" />
    <TimeFact name="Created" ms={team.created_ms} />
  </dl>
)

function Edit({ of, onDone }: { of: TeamDocument; onDone(): void }) {
  const { id } = of
  const form = useEdit<TeamDocument, Values>(
    { of, toValues: TEAM_FORM.toValues, read: () => readTeam(id), subject: id, groups: KEY_GROUPS },
    async (values, before) => {
      await editTeam(before, values)
      tell('Saved. Applies to new requests.')
      onDone()
    },
  )
  return (
    <EditForm of={form} warnings={useTeamWarnings(form.values.value, form.base.value)} onCancel={onDone}>
      <SettableFields form={form} of={TEAM_FIELDS} empty={TEAM_FORM.empty} />
    </EditForm>
  )
}

const WhoInvites = () =>
  ways.value.includes('password') && (
    <p class="dim">
      {may('owner') ? (
        <>
          You invite members under <a href={toHref('/people')}>People</a>.
        </>
      ) : (
        'Only owners can invite members. Ask one of them.'
      )}
    </p>
  )

/** Active keys, then the number of the others. */
function Keys({ of: team }: { of: TeamDocument & { keys: readonly KeyDocument[] } }) {
  const { id, keys } = team
  const shown = keys.filter(({ status, hidden }) => status === 'active' && !hidden)
  const over = keys.filter(({ status }) => status !== 'active').length
  return (
    <section class="drawer-part">
      <h3>Keys</h3>
      {shown.length === 0 && <p class="dim">No active keys.</p>}
      <ul class="lines">
        {shown.map((key) => (
          <li key={key.id}>
            <a href={toHref(`/keys?key=${key.id}`)}>{key.name}</a>
            {key.owner !== null && <span class="dim">{key.owner}</span>}
            <StandingMark of={toStanding(key, toSpentTeams([team]))} />
            <span class="figure-text">
              <Money nanoUsd={key.spent_month_nano_usd} />
            </span>
          </li>
        ))}
      </ul>
      {over > 0 && (
        <p class="hint">
          Plus <a href={toHref(`/keys?team=${id}&state=all`)}>{over} expired or revoked</a>.
        </p>
      )}
      {may('editor') && (
        <p>
          <ButtonLink icon="plus" href={toHref(`/keys/new?team=${id}`)}>
            New key
          </ButtonLink>
        </p>
      )}
      <WhoInvites />
    </section>
  )
}

export const NewTeamPage = () =>
  useChoicesRead() ? (
    <NewTeam />
  ) : (
    <Page title="New team" above={<a href={toHref('/teams')}>Teams</a>}>
      <FactsRoom />
    </Page>
  )

/** Only the name is required. */
function NewTeam() {
  const form = useForm(TEAM_FORM.empty, async (values) => {
    const { id, name } = await makeTeam(values)
    tell(`Created team ${name}.`)
    open(`/teams?team=${id}`)
  })
  const warnings = useTeamWarnings(form.values.value)
  return (
    <FormPage title="New team" list={['/teams', 'Teams']} form={form} submit="Create team" warnings={warnings}>
      <SettableFields form={form} of={TEAM_FIELDS} empty={TEAM_FORM.empty} />
    </FormPage>
  )
}
