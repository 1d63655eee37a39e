/** Takes a key back, for good: whoever does it types its name, so that it is that one. */
import type { KeyDocument } from '../../documents/key.ts'
import { Form, TextField, useForm } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { revokeKey } from './data.ts'

export function RevokeDialog({ of: key, onClose }: { of: KeyDocument; onClose(): void }) {
  const form = useForm({ name: '' }, async () => {
    await revokeKey(key.id)
    tell(`${key.name} is revoked.`)
    onClose()
  })
  return (
    <Overlay title={`Revoke ${key.name}`} onClose={onClose}>
      <p>
        Whoever uses it is refused from the next moment on. It cannot be undone; what it spent stays on record. If it
        only leaked, <em>rotate</em> it instead.
      </p>
      <Form of={form} submit="Revoke it for good" kind="bad" isReady={form.values.value.name.trim() === key.name}>
        <TextField of={form} name="name" label={`Type ${key.name} to confirm`} autoFocus />
      </Form>
    </Overlay>
  )
}
