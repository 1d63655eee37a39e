/** One user: role, sessions, and actions. */
import { useState } from 'preact/hooks'
import { count } from '../../domain/text.ts'
import { ADMIN_FIELDS } from '../../identity/definition.ts'
import { toHref } from '../address/address.ts'
import { session } from '../api/session.ts'
import { useTeams } from '../teams/data.ts'
import { Button, Copyable, Id, Secret } from '../ui/controls.tsx'
import { useEdit, useEditing } from '../ui/edit.tsx'
import { Fact, State, TimeFact, When } from '../ui/figure.tsx'
import { EditForm, type FieldWarning, Form, type FormState, SelectField, useForm } from '../ui/form.tsx'
import { Overlay, Problem, tell } from '../ui/notice.tsx'
import { FormDialog } from '../ui/resource.tsx'
import {
  disable,
  editPerson,
  endSession,
  inviteAgain,
  type Person,
  type PersonSession,
  type PersonValues,
  readPerson,
  useSessions,
} from './data.ts'
import { STATUS_KINDS, toBrowser, toOptions } from './words.ts'

export function PersonDrawer({ of: person, onClose }: { of: Person; onClose(): void }) {
  const [open, setOpen] = useState<'edit' | 'invite' | 'disable' | null>(null)
  const close = () => setOpen(null)
  const enable = () =>
    disable(person, false).then(
      () => tell(`${person.name} can sign in again.`),
      (error: Error) => tell(error.message, 'bad'),
    )
  return (
    <Overlay kind="drawer" title={person.name} onClose={onClose}>
      <p class="drawer-line">
        <State kind={STATUS_KINDS[person.status]}>{person.status}</State>
        <span class="dim">ID</span> <Id id={person.id} />
      </p>
      {open === 'edit' ? <Edit of={person} onDone={close} /> : <Facts of={person} />}
      {open !== 'edit' && (
        <div class="form-foot">
          {person.status === 'disabled' ? (
            <Button onClick={enable}>Enable</Button>
          ) : (
            <>
              <Button onClick={() => setOpen('edit')}>Change role</Button>
              {person.status === 'invited' && <Button onClick={() => setOpen('invite')}>New code</Button>}
              <Button kind="bad" onClick={() => setOpen('disable')}>
                Disable
              </Button>
            </>
          )}
        </div>
      )}
      <TheirSessions of={person} />
      {open === 'invite' && <InviteDialog of={person} onClose={close} />}
      {open === 'disable' && <DisableDialog of={person} onClose={close} />}
    </Overlay>
  )
}

function Facts({ of: person }: { of: Person }) {
  const team = useTeams().data?.find(({ id }) => id === person.team_id)
  return (
    <dl class="facts">
      <Fact name="Role">
        {person.role}
        {isMe(person) && ' (you)'}
      </Fact>
      {person.team_id !== null && <Fact name="Team">{team?.name ?? <Id id={person.team_id} />}</Fact>}
      <Fact name="Sign-in">
        {toSignInMethods(person)}
        {person.has_password && person.disabled_ms === null && (
          <p class="hint">
            Lost password? Run <code>tollgate admin reset {person.name}</code> on the server to get a new code.
          </p>
        )}
      </Fact>
      <TimeFact name="Created" ms={person.created_ms} />
      <TimeFact name="Disabled" ms={person.disabled_ms} />
    </dl>
  )
}

export const isMe = ({ name }: Pick<Person, 'name'>) => session.value.state === 'in' && session.value.name === name

function toSignInMethods({ has_password, oidc, passkeys }: Pick<Person, 'has_password' | 'oidc' | 'passkeys'>): string {
  const found = [
    ...(oidc ? ['identity provider'] : []),
    ...(has_password ? ['password'] : []),
    ...(passkeys > 0 ? [count(passkeys, 'passkey')] : []),
  ]
  return found.join(', ') || 'not yet (invite code unused)'
}

/** Only another owner can give the role back. */
const toRoleWarnings = (person: Person, { role }: PersonValues): FieldWarning[] =>
  isMe(person) && role !== person.role
    ? [
        {
          field: 'role',
          message: 'This is your own account: you lose the rights of owners, and only an owner can undo it.',
        },
      ]
    : []

const toValues = ({ role, team_id }: Person): PersonValues => ({ role, team: team_id ?? '' })

function Edit({ of, onDone }: { of: Person; onDone(): void }) {
  const { id } = of
  const form = useEdit(
    { of, toValues, read: () => readPerson(id), subject: id, groups: [['role', 'team']] },
    async (values, before) => {
      const { keys_moved: moved } = await editPerson(before, values)
      tell(moved === 0 ? 'Saved.' : `Saved. Moved ${count(moved, 'key')} to the new team.`)
      onDone()
    },
  )
  return (
    <EditForm of={form} warnings={toRoleWarnings(form.base.value, form.values.value)} onCancel={onDone}>
      <PersonFields form={form} />
    </EditForm>
  )
}

function TheirSessions({ of: { id } }: { of: Person }) {
  const { data, problem, reload } = useSessions()
  const sessions = (data ?? []).filter(({ admin_id }) => admin_id === id)
  return (
    <section class="drawer-part">
      <h3>Sessions</h3>
      {problem && <Problem of={problem} retry={reload} />}
      {data !== null && sessions.length === 0 && <p class="dim">No active sessions.</p>}
      <Sessions of={sessions} />
    </section>
  )
}

export function PersonFields({ form }: { form: FormState<PersonValues> }) {
  const teams = useTeams().data ?? []
  const { role, team } = ADMIN_FIELDS
  return (
    <>
      <SelectField of={form} name="role" label={role.title} options={toOptions(role)} />
      {form.values.value.role === 'member' && (
        <SelectField
          of={form}
          name="team"
          label={team.title}
          hint={
            teams.length === 0
              ? 'No teams yet. Create one first: it decides which models their keys can use.'
              : team.hint
          }
          options={[['', 'Choose one'], ...teams.map(({ id, name }) => [id, name] as const)]}
        />
      )}
    </>
  )
}

interface DialogProps {
  of: Person
  onClose(): void
}

function InviteDialog({ of: person, onClose }: DialogProps) {
  const [coded, setCoded] = useState<Awaited<ReturnType<typeof inviteAgain>> | null>(null)
  const form = useForm({}, async () => setCoded(await inviteAgain(person.id)))
  if (coded !== null) {
    return (
      <Overlay title={`Code for ${person.name}`} onClose={onClose}>
        <Coded name={person.name} code={coded.code} expiresMs={coded.code_expires_ms} />
        <div class="form-foot">
          <Button onClick={onClose}>Done</Button>
        </div>
      </Overlay>
    )
  }
  return (
    <Overlay title={`New code for ${person.name}`} onClose={onClose}>
      <p>Their previous code stops working.</p>
      <Form of={form} submit="Create code">
        {null}
      </Form>
    </Overlay>
  )
}

function DisableDialog({ of, onClose }: DialogProps) {
  const { id } = of
  const editing = useEditing({ of, read: () => readPerson(id), subject: id })
  const person = editing.base.value
  const send = async () => {
    const { keys_revoked: revoked } = await disable(editing.base.value, true)
    return `Disabled ${person.name}${revoked === 0 ? '' : ` and revoked ${count(revoked, 'key')}`}.`
  }
  return (
    <FormDialog
      title={`Disable ${person.name}`}
      initial={{}}
      editing={editing}
      send={send}
      submit="Disable user"
      kind="bad"
      onClose={onClose}
    >
      <p>
        Ends their sessions immediately.
        {person.role === 'member' && ' Permanently revokes their keys.'} You can enable them again. Their history is
        kept.
      </p>
    </FormDialog>
  )
}

interface CodedProps {
  name: string
  code: string
  expiresMs: number | null
}

/** A new invite code, shown once. */
export function Coded({ name, code, expiresMs }: CodedProps) {
  // Browsers don't send what follows the `#`.
  const link = `${location.origin}${toHref('/code')}#${new URLSearchParams({ code, name })}`
  return (
    <div class="made">
      <p>
        Send this link to <strong>{name}</strong>. They set their own password with it.
      </p>
      <Secret text={link} label="Copy link" />
      <p>
        Or they open <code>{`${location.origin}${toHref('/code')}`}</code> and enter the code <Copyable text={code} />
      </p>
      <p>
        <strong>Shown once.</strong> The code works once, for <code>{name}</code>
        {expiresMs !== null && (
          <>
            , and expires <When ms={expiresMs} mayBeAhead />
          </>
        )}
        . Anyone with this code can sign in as them. Share it privately.
      </p>
    </div>
  )
}

export const Sessions = ({ of: sessions }: { of: readonly PersonSession[] }) => (
  <ul class="lines">
    {sessions.map(({ id, agent, address, created_ms, seen_ms, is_current }) => (
      <li key={id}>
        <span>
          <span title={agent}>{toBrowser(agent)}</span>{' '}
          <span class="dim">
            from {address}, signed in <When ms={created_ms} />, last seen <When ms={seen_ms} />
          </span>
        </span>
        {is_current ? (
          <span class="dim">this session</span>
        ) : (
          <Button onClick={() => end(id)} aria-label={`End session: ${toBrowser(agent)} from ${address}`}>
            End
          </Button>
        )}
      </li>
    ))}
  </ul>
)

const end = (id: string) =>
  endSession(id).then(
    () => tell('Session ended.'),
    (error: Error) => tell(error.message, 'bad'),
  )
