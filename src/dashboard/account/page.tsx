/** What everybody who has signed in has: their sessions, their password, their passkeys. */
import { useState } from 'preact/hooks'
import { hasPasskeys, makePasskey, prepare } from '../api/authenticator.ts'
import { api, ask } from '../api/client.ts'
import { change, reloadAll, useLoaded } from '../api/loaded.ts'
import { session, ways } from '../api/session.ts'
import { changePassword, useSessions } from '../people/data.ts'
import { Sessions } from '../people/drawer.tsx'
import { toBrowser } from '../people/words.ts'
import { Page } from '../shell/page.tsx'
import { Button, IconButton } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { Problem, tell } from '../ui/notice.tsx'
import { FormDialog } from '../ui/resource.tsx'

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

const usePasskeys = () => useLoaded('passkeys', async () => (await ask(api.passkeys.get())).passkeys)

type Passkey = NonNullable<ReturnType<typeof usePasskeys>['data']>[number]

/** Has the browser make one, for whoever knows the password. */
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

/** Passkeys of one's own: a list, one more, another name, and one fewer. */
function Passkeys() {
  const { data, problem, reload } = usePasskeys()
  const [opened, setOpened] = useState<Opened | null>(null)
  const close = () => setOpened(null)
  const isPossible = hasPasskeys()
  // Where there can be none, there is nothing to say of them.
  if (!isPossible && (data === null || data.length === 0)) return null
  return (
    <section class="panel">
      <h2>Your passkeys</h2>
      <p class="dim">
        In place of your name and password: a finger, a face or the PIN of a device. Each is for the address that it was
        made at.
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
          Add a passkey
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
        at {rp_id}, added <When ms={created_ms} />,{' '}
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
      <IconButton icon="edit" label={`Rename the passkey ${name}`} onClick={() => open('rename')} />
      <IconButton icon="remove" label={`Remove the passkey ${name}`} onClick={() => open('remove')} />
    </span>
  </li>
)

const AddDialog = ({ onClose }: { onClose(): void }) => (
  <FormDialog
    title="Add a passkey"
    initial={{ name: toBrowser(navigator.userAgent), password: '' }}
    send={async (values) => `${(await addPasskey(values)).name} signs you in from now on.`}
    submit="Add it"
    fields={(form) => (
      <>
        <TextField of={form} name="name" label="Name" hint="By which you know the device." />
        <TextField
          of={form}
          name="password"
          label="Your password"
          type="password"
          hint="Then your browser asks where the passkey is to be kept."
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
      return 'The passkey has another name.'
    }}
    submit="Rename it"
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
      return `${passkey.name} signs you in no more.`
    }}
    submit="Remove it"
    kind="bad"
    onClose={onClose}
  >
    <p>It signs you in no more. The device still offers it, until you remove it there, too.</p>
  </FormDialog>
)
