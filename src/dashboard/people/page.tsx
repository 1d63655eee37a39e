/** Users, for owners: the list, and invitations. */
import { useState } from 'preact/hooks'
import { ADMIN_FIELDS } from '../../identity/definition.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { ways } from '../api/session.ts'
import { hasWords } from '../figures/figures.ts'
import { FormPage, Page } from '../shell/page.tsx'
import { useTeams } from '../teams/data.ts'
import { ButtonLink, Code } from '../ui/controls.tsx'
import { None, State, When } from '../ui/figure.tsx'
import { TextField, useForm } from '../ui/form.tsx'
import { announce, Empty, Unread } from '../ui/notice.tsx'
import { List } from '../ui/resource.tsx'
import { type Column, searched } from '../ui/table.tsx'
import { invite, NEW_PERSON, type Person, usePeople, useSessions } from './data.ts'
import { Coded, isMe, PersonDrawer, PersonFields } from './drawer.tsx'
import { STATUS_KINDS } from './words.ts'

const inviteLink = () => (
  <ButtonLink kind="main" icon="plus" href={toHref('/people/new')} data-new>
    Invite user
  </ButtonLink>
)

export function PeoplePage() {
  const { data: people, problem, reload } = usePeople()
  const open = people?.find(({ id }) => id === query.value.get('person'))
  const havePasswords = ways.value.includes('password')
  return (
    <Page title="People" actions={people !== null && people.length > 1 && havePasswords && inviteLink()}>
      <Unread of={people} problem={problem} retry={reload} />
      {people !== null && (
        <div class="sections">
          <Everybody people={people} />
          {!havePasswords ? (
            <p class="dim">
              People sign in with your identity provider, and its claims decide their role. Passwords and invitations
              are off.
            </p>
          ) : (
            people.length === 1 && <OnlyYou />
          )}
        </div>
      )}
      {open && <PersonDrawer key={open.id} of={open} onClose={() => setQuery({ person: null })} />}
    </Page>
  )
}

const OnlyYou = () => (
  <Empty title="No other users yet">
    <p>Invite people to manage keys and models, or, as members of a team, to create their own keys.</p>
    {inviteLink()}
    <p class="dim">Or from the command line:</p>
    <Code label="Command that invites a user" text="tollgate admin create bob@example.com --role editor" />
  </Empty>
)

function Everybody({ people }: { people: readonly Person[] }) {
  const teams = new Map(useTeams().data?.map(({ id, name }) => [id, name]))
  const teamOf = ({ team_id }: Person) => teams.get(team_id ?? '') ?? ''
  const seen = new Map<string, number>()
  for (const { admin_id, seen_ms } of useSessions().data ?? [])
    seen.set(admin_id, Math.max(seen_ms, seen.get(admin_id) ?? 0))
  const columns: Column<Person>[] = [
    {
      name: 'name',
      title: 'Name',
      sortBy: ({ name }) => name,
      cell: (person) => (
        <>
          <a class="row-link" href={toHrefWith({ person: person.id })}>
            {person.name}
          </a>{' '}
          {isMe(person) && <span class="dim">you</span>}
        </>
      ),
    },
    { name: 'role', title: 'Role', sortBy: ({ role }) => role, cell: ({ role }) => role },
    ...(people.some(({ team_id }) => team_id !== null)
      ? [
          {
            name: 'team',
            title: 'Team',
            sortBy: teamOf,
            cell: (person: Person) => teamOf(person) || <None />,
          },
        ]
      : []),
    {
      name: 'state',
      title: 'Status',
      sortBy: ({ status }) => status,
      cell: ({ status }) => <State kind={STATUS_KINDS[status]}>{status}</State>,
    },
    {
      name: 'seen',
      title: 'Last seen',
      isFigure: true,
      isOnPhone: false,
      sortBy: ({ id }) => seen.get(id) ?? 0,
      cell: ({ id }) => {
        const ms = seen.get(id)
        return ms === undefined ? <None /> : <When ms={ms} />
      },
    },
  ]
  const shown = people.filter((one) => hasWords([one.id, one.name, one.role, one.status, teamOf(one)], searched()))
  return (
    <div>
      <List
        what="people"
        columns={columns}
        rows={shown}
        all={people.length}
        idOf={({ id }) => id}
        none={['No matching people.', '/people', 'Show all']}
      />
    </div>
  )
}

export function InvitePage() {
  const [invited, setInvited] = useState<Awaited<ReturnType<typeof invite>> | null>(null)
  const form = useForm({ ...NEW_PERSON, name: '' }, async (values) => {
    setInvited(await invite(values))
    announce('Invitation created. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (invited) {
    return (
      <Page
        title={`Invitation for ${invited.name}`}
        above={<a href={toHref('/people')}>People</a>}
        actions={<ButtonLink href={toHref(`/people?person=${invited.id}`)}>Done</ButtonLink>}
      >
        <Coded name={invited.name} code={invited.code} expiresMs={invited.code_expires_ms} />
      </Page>
    )
  }
  return (
    <FormPage title="Invite user" list={['/people', 'People']} form={form} submit="Invite user">
      <TextField of={form} name="name" label={ADMIN_FIELDS.name.title} hint={ADMIN_FIELDS.name.hint} autoFocus />
      <PersonFields form={form} />
    </FormPage>
  )
}
