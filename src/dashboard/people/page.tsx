/** Those who sign in, for owners: administrators, and members, who have keys of their own. */
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
    Invite somebody
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
              People come through your identity provider: what it says of them decides on their role. Passwords, and so
              invitations, are off.
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
  <Empty title="Only you so far">
    <p>
      Invite those who look after keys and models with you, and those who should have keys of their own: members make
      them by themselves, within what their team allows.
    </p>
    {inviteLink()}
    <p class="dim">Or on the command line:</p>
    <Code label="Command that invites somebody" text="tollgate admin create bob@example.com --role editor" />
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
      title: 'State',
      sortBy: ({ status }) => status,
      cell: ({ status }) => <State kind={STATUS_KINDS[status]}>{status}</State>,
    },
    {
      name: 'seen',
      title: 'Seen',
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
        none={['Nobody has these words.', '/people', 'Show all']}
      />
    </div>
  )
}

/** Invites somebody: a name and a role, then the code for them. */
export function InvitePage() {
  const [invited, setInvited] = useState<Awaited<ReturnType<typeof invite>> | null>(null)
  const form = useForm({ ...NEW_PERSON, name: '' }, async (values) => {
    setInvited(await invite(values))
    announce('The invitation is made. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (invited) {
    return (
      <Page
        title={`Invitation for ${invited.name}`}
        above={<a href={toHref('/people')}>People</a>}
        actions={<ButtonLink href={toHref(`/people?person=${invited.id}`)}>I have kept it</ButtonLink>}
      >
        <Coded name={invited.name} code={invited.code} expiresMs={invited.code_expires_ms} />
      </Page>
    )
  }
  return (
    <FormPage title="Invite somebody" list={['/people', 'People']} form={form} submit="Invite">
      <TextField of={form} name="name" label={ADMIN_FIELDS.name.title} hint={ADMIN_FIELDS.name.hint} autoFocus />
      <PersonFields form={form} />
    </FormPage>
  )
}
