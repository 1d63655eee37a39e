/** Teams: keys that share limits, a list of models and a budget. All of them, one, and a new one. */
import { useState } from 'preact/hooks'
import type { KeyDocument, TeamDocument } from '../../documents/key.ts'
import { TEAM_FIELDS } from '../../keys/definition.ts'
import { named, open, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { hasWords } from '../figures/figures.ts'
import { BudgetCell, SettableFacts, Spent, toBudgetShare } from '../keys/facts.tsx'
import { SettableFields } from '../keys/fields.tsx'
import { TEAM_FORM } from '../keys/values.ts'
import { STATUS_KINDS, toShortLimits, toShortModels } from '../keys/words.ts'
import { FormPage, Page } from '../shell/page.tsx'
import { Button, ButtonLink, Code, Id } from '../ui/controls.tsx'
import { Money, None, State, TimeFact } from '../ui/figure.tsx'
import { EditForm, useForm, useOpened } from '../ui/form.tsx'
import { Empty, FactsRoom, Overlay, tell, Unread } from '../ui/notice.tsx'
import { List } from '../ui/resource.tsx'
import { type Column, searched } from '../ui/table.tsx'
import { editTeam, makeTeam, useTeam, useTeams } from './data.ts'

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
            columns={COLUMNS}
            rows={teams.filter(({ id, name, models }) => hasWords([id, name, ...models], searched()))}
            all={teams.length}
            idOf={({ id }) => id}
            none={['No team has these words.', '/teams', 'Show all']}
          />
        ))}
      {opened !== null && <TeamDrawer key={opened} id={opened} onClose={() => setQuery({ team: null })} />}
    </Page>
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

/** One team: what it has spent, what it may, its keys, and changing it. */
function TeamDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: team, problem, reload } = useTeam(id)
  const [isEdited, setEdited] = useState(false)
  return (
    <Overlay kind="drawer" title={team?.name ?? 'Team'} onClose={onClose}>
      <Unread of={team} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {team !== null && (
        <>
          <p class="drawer-line">
            <span class="dim">id</span> <Id id={team.id} />
          </p>
          <Spent of={team} />
          {isEdited ? (
            <Edit of={team} onDone={() => setEdited(false)} />
          ) : (
            <>
              <Facts of={team} />
              {may('editor') && (
                <div class="form-foot">
                  <Button onClick={() => setEdited(true)}>Edit</Button>
                </div>
              )}
              <Keys of={team.keys} />
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
    <TimeFact name="Made" ms={team.created_ms} />
  </dl>
)

function Edit({ of, onDone }: { of: TeamDocument; onDone(): void }) {
  const team = useOpened(of)
  const form = useForm(TEAM_FORM.toValues(team), async (values) => {
    await editTeam(team, values)
    tell('Changed. It holds from the next request on.')
    onDone()
  })
  return (
    <EditForm of={form} onCancel={onDone}>
      <SettableFields form={form} of={TEAM_FIELDS} empty={TEAM_FORM.empty} />
    </EditForm>
  )
}

/** Those in force first; of the others, how many there are. */
function Keys({ of: keys }: { of: readonly KeyDocument[] }) {
  const shown = keys.filter(({ status, hidden }) => status === 'active' && !hidden)
  const over = keys.filter(({ status }) => status !== 'active').length
  return (
    <section class="drawer-part">
      <h3>Keys</h3>
      {shown.length === 0 && (
        <p class="dim">
          No key in force is of this team. A key's team is said when it is made, or later in its drawer.
        </p>
      )}
      <ul class="lines">
        {shown.map((key) => (
          <li key={key.id}>
            <a href={toHref(`/keys?key=${key.id}`)}>{key.name}</a>
            {key.owner !== null && <span class="dim">{key.owner}</span>}
            <State kind={STATUS_KINDS[key.status]}>{key.status}</State>
            <span class="figure-text">
              <Money nanoUsd={key.spent_month_nano_usd} />
            </span>
          </li>
        ))}
      </ul>
      {over > 0 && (
        <p class="hint">
          And {over === 1 ? 'one' : over} that ended or {over === 1 ? 'was' : 'were'} revoked.
        </p>
      )}
    </section>
  )
}

/** A new team: a name is enough. */
export function NewTeamPage() {
  const form = useForm(TEAM_FORM.empty, async (values) => {
    const { id, name } = await makeTeam(values)
    tell(`Team ${name} is made.`)
    open(`/teams?team=${id}`)
  })
  return (
    <FormPage title="New team" list={['/teams', 'Teams']} form={form} submit="Make the team">
      <SettableFields form={form} of={TEAM_FIELDS} empty={TEAM_FORM.empty} />
    </FormPage>
  )
}
