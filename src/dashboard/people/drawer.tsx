/** Somebody who signs in: their role, their sessions, and what can be done with both. */
import { useState } from 'preact/hooks'
import { session } from '../api/session.ts'
import { useTeams } from '../teams/data.ts'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { EditForm } from '../ui/edit-form.tsx'
import { Fact, TimeFact } from '../ui/facts.tsx'
import { State } from '../ui/figure.tsx'
import { useForm, useOpened } from '../ui/form.tsx'
import { Problem, tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { disable, editPerson, type Person, useSessions } from './data.ts'
import { DisableDialog, InviteDialog } from './dialogs.tsx'
import { PersonFields } from './fields.tsx'
import { Sessions } from './sessions.tsx'
import { STATUS_KINDS } from './words.ts'

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
        {toWays(person)}
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
function toWays({ has_password, oidc, passkeys }: Pick<Person, 'has_password' | 'oidc' | 'passkeys'>): string {
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
