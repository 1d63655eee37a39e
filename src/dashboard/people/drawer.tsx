/** Somebody who signs in: their role, their sessions, and what can be done with both. */
import { useState } from 'preact/hooks'
import { ADMIN_FIELDS } from '../../identity/definition.ts'
import { toHref } from '../address/address.ts'
import { session } from '../api/session.ts'
import { useTeams } from '../teams/data.ts'
import { Button, Code, Id, Secret } from '../ui/controls.tsx'
import { Fact, State, TimeFact, When } from '../ui/figure.tsx'
import { EditForm, Form, type FormState, SelectField, useForm, useOpened } from '../ui/form.tsx'
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
  useSessions,
} from './data.ts'
import { STATUS_KINDS, toBrowser, toOptions } from './words.ts'

export function PersonDrawer({ of: person, onClose }: { of: Person; onClose(): void }) {
  const [open, setOpen] = useState<'edit' | 'invite' | 'disable' | null>(null)
  const close = () => setOpen(null)
  const enable = () =>
    disable(person, false).then(
      () => tell(`${person.name} may sign in again.`),
      (error: Error) => tell(error.message, 'bad'),
    )
  return (
    <Overlay kind="drawer" title={person.name} onClose={onClose}>
      <p class="drawer-line">
        <State kind={STATUS_KINDS[person.status]}>{person.status}</State>
        <span class="dim">id</span> <Id id={person.id} />
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
      <Fact name="Signs in">
        {toSignInMethods(person)}
        {person.has_password && person.disabled_ms === null && (
          <p class="hint">
            Lost? Where the server runs, <code>tollgate admin reset {person.name}</code> prints a code for a new one.
          </p>
        )}
      </Fact>
      <TimeFact name="Made" ms={person.created_ms} />
      <TimeFact name="Disabled" ms={person.disabled_ms} />
    </dl>
  )
}

export const isMe = ({ name }: Pick<Person, 'name'>) => session.value.state === 'in' && session.value.name === name

/** Such as `with a password`. */
function toSignInMethods({ has_password, oidc, passkeys }: Pick<Person, 'has_password' | 'oidc' | 'passkeys'>): string {
  const found = [
    ...(oidc ? ['through the identity provider'] : []),
    ...(has_password ? ['with a password'] : []),
    ...(passkeys > 0 ? [passkeys === 1 ? 'with a passkey' : `with ${passkeys} passkeys`] : []),
  ]
  return found.join(', or ') || 'not yet: the code was not used'
}

function Edit({ of, onDone }: { of: Person; onDone(): void }) {
  const person = useOpened(of)
  const form = useForm({ role: person.role as string, team: person.team_id ?? '' }, async (values) => {
    const { keys_moved: moved } = await editPerson(person, values)
    tell(moved === 0 ? 'Changed.' : `Changed; ${moved === 1 ? 'a key' : `${moved} keys`} went with them.`)
    onDone()
  })
  return (
    <EditForm of={form} onCancel={onDone}>
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
      {data !== null && sessions.length === 0 && <p class="dim">Signed in nowhere.</p>}
      <Sessions of={sessions} />
    </section>
  )
}

/** What one says of somebody who signs in. */
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
            teams.length === 0 ? 'There is none yet: make a team first. It says what their keys may use.' : team.hint
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

/** What takes something from somebody is asked once more. */
function InviteDialog({ of: person, onClose }: DialogProps) {
  const [coded, setCoded] = useState<Awaited<ReturnType<typeof inviteAgain>> | null>(null)
  const form = useForm({}, async () => setCoded(await inviteAgain(person.id)))
  if (coded !== null) {
    return (
      <Overlay title={`Code for ${person.name}`} onClose={onClose}>
        <Coded name={person.name} code={coded.code} expiresMs={coded.code_expires_ms} />
        <div class="form-foot">
          <Button onClick={onClose}>I have kept it</Button>
        </div>
      </Overlay>
    )
  }
  return (
    <Overlay title={`New code for ${person.name}`} onClose={onClose}>
      <p>The code that they were given before ends.</p>
      <Form of={form} submit="Make the code">
        {null}
      </Form>
    </Overlay>
  )
}

function DisableDialog({ of, onClose }: DialogProps) {
  const person = useOpened(of)
  const send = async () => {
    const { keys_revoked: revoked } = await disable(person, true)
    const also = revoked === 0 ? '' : `, and ${revoked === 1 ? 'their key is' : `their ${revoked} keys are`} revoked`
    return `${person.name} may not sign in any more${also}.`
  }
  return (
    <FormDialog title={`Disable ${person.name}`} initial={{}} send={send} submit="Disable" kind="bad" onClose={onClose}>
      <p>
        Their sessions end at once.
        {person.role === 'member' && ' Keys of their own are revoked, for good.'} They can be enabled again; what they
        did stays on record.
      </p>
    </FormDialog>
  )
}

interface CodedProps {
  name: string
  code: string
  expiresMs: number | null
}

/** A code that lets somebody set a password, which is shown this once: to be given to them. */
export function Coded({ name, code, expiresMs }: CodedProps) {
  // Behind the `#`, which a browser sends to nobody.
  const link = `${location.origin}${toHref('/code')}#${code}`
  return (
    <div class="made">
      <p>
        <strong>{name}</strong> opens this link and sets a password of their own, which nobody else ever knows.
      </p>
      <Code text={link} label="Link for them" />
      <Secret text={code} label="Copy the code" />
      <p>
        <strong>Shown once.</strong> It works one time, for <code>{name}</code>
        {expiresMs !== null && (
          <>
            , and ends <When ms={expiresMs} />
          </>
        )}
        . Whoever has it can become them: give it to them alone.
      </p>
    </div>
  )
}

/** Where somebody has signed in, each to be ended. */
export const Sessions = ({ of: sessions }: { of: readonly PersonSession[] }) => (
  <ul class="lines">
    {sessions.map(({ id, agent, address, created_ms, seen_ms, is_current }) => (
      <li key={id}>
        <span>
          <span title={agent}>{toBrowser(agent)}</span>{' '}
          <span class="dim">
            from {address}, since <When ms={created_ms} />, seen <When ms={seen_ms} />
          </span>
        </span>
        {is_current ? (
          <span class="dim">this one</span>
        ) : (
          <Button onClick={() => end(id)} aria-label={`End the session of ${toBrowser(agent)} from ${address}`}>
            End
          </Button>
        )}
      </li>
    ))}
  </ul>
)

const end = (id: string) =>
  endSession(id).then(
    () => tell('The session is ended.'),
    (error: Error) => tell(error.message, 'bad'),
  )
