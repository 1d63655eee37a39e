/** Passkeys of one's own: a list, one more, another name, and one fewer. */
import { useState } from 'preact/hooks'
import { hasPasskeys, prepare } from '../api/authenticator.ts'
import { toBrowser } from '../people/words.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { When } from '../ui/figure.tsx'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { Problem, tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { addPasskey, type Passkey, removePasskey, renamePasskey, usePasskeys } from './data.ts'

type Opened = { what: 'add' } | { what: 'rename' | 'remove'; passkey: Passkey }

export function Passkeys() {
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

function AddDialog({ onClose }: { onClose(): void }) {
  const form = useForm({ name: toBrowser(navigator.userAgent), password: '' }, async (values) => {
    const { name } = await addPasskey(values)
    tell(`${name} signs you in from now on.`)
    onClose()
  })
  return (
    <Overlay title="Add a passkey" onClose={onClose}>
      <Form of={form} submit="Add it">
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
      </Form>
    </Overlay>
  )
}

interface DialogProps {
  of: Passkey
  onClose(): void
}

function RenameDialog({ of: passkey, onClose }: DialogProps) {
  const form = useForm({ name: passkey.name }, async ({ name }) => {
    await renamePasskey(passkey.id, name)
    tell('The passkey has another name.')
    onClose()
  })
  return (
    <Overlay title={`Rename ${passkey.name}`} onClose={onClose}>
      <Form of={form} submit="Rename it">
        <TextField of={form} name="name" label="Name" autoFocus />
      </Form>
    </Overlay>
  )
}

function RemoveDialog({ of: passkey, onClose }: DialogProps) {
  const form = useForm({}, async () => {
    await removePasskey(passkey.id)
    tell(`${passkey.name} signs you in no more.`)
    onClose()
  })
  return (
    <Overlay title={`Remove ${passkey.name}`} onClose={onClose}>
      <p>It signs you in no more. The device still offers it, until you remove it there, too.</p>
      <Form of={form} submit="Remove it" kind="bad">
        {null}
      </Form>
    </Overlay>
  )
}
