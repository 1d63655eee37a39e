/** What everybody who has signed in has: their sessions, their password, their passkeys. */
import { session, ways } from '../api/session.ts'
import { changePassword, useSessions } from '../people/data.ts'
import { Sessions } from '../people/sessions.tsx'
import { Page } from '../shell/page.tsx'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { Problem, tell } from '../ui/notice.tsx'
import { Passkeys } from './passkeys.tsx'

export function AccountPage() {
  const { data, problem, reload } = useSessions()
  const { value } = session
  // An owner is told of everybody's.
  const mine = data?.find(({ is_current }) => is_current)?.admin_id
  const sessions = data?.filter(({ admin_id }) => admin_id === mine) ?? []
  // Passkeys stand in for one.
  const hasPassword = value.state === 'in' && value.hasPassword && ways.value.includes('password')
  return (
    <Page title="Your account">
      {problem && <Problem of={problem} retry={reload} />}
      <div class="sections narrow">
        {value.state === 'in' && (
          <p>
            You are signed in as <strong>{value.name}</strong>, {/^[aeiou]/.test(value.role) ? 'an' : 'a'} {value.role}.
          </p>
        )}
        <section class="panel">
          <h2>Where you are signed in</h2>
          <p class="dim">End what you do not know, and set a new password.</p>
          <Sessions of={sessions} />
        </section>
        {hasPassword && <Password />}
        {hasPassword && <Passkeys />}
      </div>
    </Page>
  )
}

const EMPTY = { old: '', password: '' }

function Password() {
  const form = useForm(EMPTY, async (values) => {
    await changePassword(values)
    form.set(EMPTY)
    tell('The password is changed. Your other sessions are ended.')
  })
  return (
    <section class="panel">
      <h2>Your password</h2>
      <Form of={form} submit="Change the password">
        <TextField of={form} name="old" label="The one that you have" type="password" autoComplete="current-password" />
        <TextField
          of={form}
          name="password"
          label="The new one"
          type="password"
          hint="At least 12 characters. A few words that belong to nobody are good."
          autoComplete="new-password"
        />
      </Form>
    </section>
  )
}
