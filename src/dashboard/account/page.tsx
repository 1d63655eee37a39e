/** The current user's sessions, password, and passkeys. */
import { useState } from 'preact/hooks'
import { hasPasskeys, makePasskey, prepare } from '../api/authenticator.ts'
import { api, ask } from '../api/client.ts'
import { change, reloadAll, useLoaded } from '../api/loaded.ts'
import { Refusal } from '../api/refusal.ts'
import { session, ways } from '../api/session.ts'
import { changePassword, useSessions } from '../people/data.ts'
import { Sessions } from '../people/drawer.tsx'
import { PASSWORD_HINT, toBrowser } from '../people/words.ts'
import { Page } from '../shell/page.tsx'
import { Button, IconButton } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { FactsRoom, Problem, tell, Unread } from '../ui/notice.tsx'
import { FormDialog } from '../ui/resource.tsx'

export function AccountPage() {
  const { data, problem, reload } = useSessions()
  const { value } = session
  // Owners get the sessions of all users.
  const mine = data?.find(({ is_current }) => is_current)?.admin_id
  const sessions = data?.filter(({ admin_id }) => admin_id === mine) ?? []
  // Passkeys replace the password, so they need one.
  const hasPassword = value.state === 'in' && value.hasPassword && ways.value.includes('password')
  return (
    <Page title="Your account">
      <Unread of={data} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {(data !== null || problem !== null) && (
        <div class="sections narrow">
          {value.state === 'in' && (
            <p>
              You are signed in as <strong>{value.name}</strong>, {/^[aeiou]/.test(value.role) ? 'an' : 'a'}{' '}
              {value.role}.
            </p>
          )}
          <section class="panel">
            <h2>Sessions</h2>
            <p class="dim">If you don't recognize a session, end it and change your password.</p>
            <Sessions of={sessions} />
          </section>
          {hasPassword && <Password />}
          {hasPassword && <Passkeys />}
        </div>
      )}
    </Page>
  )
}

const EMPTY = { old: '', password: '' }

function Password() {
  const form = useForm(EMPTY, async (values) => {
    if (values.old === '') throw new Refusal('Enter your current password.', 'invalid', 'old')
    await changePassword(values).catch((error: Refusal) => {
      throw error.kind === 'sign_in_failed' ? new Refusal(error.message, error.kind, 'old') : error
    })
    form.set(EMPTY)
    tell('Password changed. Your other sessions have ended.')
  })
  return (
    <section class="panel">
      <h2>Password</h2>
      <Form of={form} submit="Change password">
        <TextField of={form} name="old" label="Current password" type="password" autoComplete="current-password" />
        <TextField
          of={form}
          name="password"
          label="New password"
          type="password"
          hint={PASSWORD_HINT}
          autoComplete="new-password"
        />
      </Form>
    </section>
  )
}

const usePasskeys = () => useLoaded('passkeys', async () => (await ask(api.passkeys.get())).passkeys)

type Passkey = NonNullable<ReturnType<typeof usePasskeys>['data']>[number]

/** The API asks for the password again. */
async function addPasskey({ name, password }: { name: string; password: string }) {
  const { options } = await ask(api.passkeys.options.post({ password }))
  const response = await makePasskey(options)
  const added = await ask(api.passkeys.post({ name: name.trim(), response }))
  await reloadAll('passkeys')
  return added
}

const renamePasskey = (id: string, name: string) =>
  change(ask(api.passkeys({ id }).patch({ name: name.trim() })), 'passkeys')

const removePasskey = (id: string) => change(ask(api.passkeys({ id }).delete()), 'passkeys')

type Opened = { what: 'add' } | { what: 'rename' | 'remove'; passkey: Passkey }

function Passkeys() {
  const { data, problem, reload } = usePasskeys()
  const [opened, setOpened] = useState<Opened | null>(null)
  const close = () => setOpened(null)
  const isPossible = hasPasskeys()

  if (!isPossible && (data === null || data.length === 0)) return null
  return (
    <section class="panel">
      <h2>Passkeys</h2>
      <p class="dim">
        Sign in with a fingerprint, face, or device PIN instead of your password. A passkey works only at the host where
        it was created.
      </p>
      {problem && <Problem of={problem} retry={reload} />}
      {data !== null && data.length > 0 && (
        <ul class="lines">
          {data.map((passkey) => (
            <Line key={passkey.id} of={passkey} open={(what) => setOpened({ what, passkey })} />
          ))}
        </ul>
      )}
      {isPossible && (
        <Button
          icon="plus"
          onClick={() => {
            void prepare().catch(() => {})
            setOpened({ what: 'add' })
          }}
        >
          Add passkey
        </Button>
      )}
      {opened?.what === 'add' && <AddDialog onClose={close} />}
      {opened?.what === 'rename' && <RenameDialog of={opened.passkey} onClose={close} />}
      {opened?.what === 'remove' && <RemoveDialog of={opened.passkey} onClose={close} />}
    </section>
  )
}

const Line = ({
  of: { name, rp_id, created_ms, used_ms },
  open,
}: {
  of: Passkey
  open(what: 'rename' | 'remove'): void
}) => (
  <li>
    <span>
      {name}{' '}
      <span class="dim">
        for {rp_id}, added <When ms={created_ms} />,{' '}
        {used_ms === null ? (
          'not used yet'
        ) : (
          <>
            used <When ms={used_ms} />
          </>
        )}
      </span>
    </span>
    <span>
      <IconButton icon="edit" label={`Rename passkey ${name}`} onClick={() => open('rename')} />
      <IconButton icon="remove" label={`Remove passkey ${name}`} onClick={() => open('remove')} />
    </span>
  </li>
)

const AddDialog = ({ onClose }: { onClose(): void }) => (
  <FormDialog
    title="Add passkey"
    initial={{ name: toBrowser(navigator.userAgent), password: '' }}
    send={async (values) => `Added passkey ${(await addPasskey(values)).name}.`}
    submit="Add passkey"
    fields={(form) => (
      <>
        <TextField of={form} name="name" label="Name" hint="Helps you recognize the device." />
        <TextField
          of={form}
          name="password"
          label="Current password"
          type="password"
          hint="Your browser then asks where to store the passkey."
          autoComplete="current-password"
          autoFocus
        />
      </>
    )}
    onClose={onClose}
  />
)

interface DialogProps {
  of: Passkey
  onClose(): void
}

const RenameDialog = ({ of: passkey, onClose }: DialogProps) => (
  <FormDialog
    title={`Rename ${passkey.name}`}
    initial={{ name: passkey.name }}
    send={async ({ name }) => {
      await renamePasskey(passkey.id, name)
      return 'Passkey renamed.'
    }}
    submit="Rename"
    fields={(form) => <TextField of={form} name="name" label="Name" autoFocus />}
    onClose={onClose}
  />
)

const RemoveDialog = ({ of: passkey, onClose }: DialogProps) => (
  <FormDialog
    title={`Remove ${passkey.name}`}
    initial={{}}
    send={async () => {
      await removePasskey(passkey.id)
      return 'Passkey removed.'
    }}
    submit="Remove passkey"
    kind="bad"
    onClose={onClose}
  >
    <p>You can no longer sign in with it. Your device may keep offering it until you remove it there too.</p>
  </FormDialog>
)
