/** What takes something from somebody is asked once more. */
import { useState } from 'preact/hooks'
import { Button } from '../ui/button.tsx'
import { Form, useForm, useOpened } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { Coded } from './coded.tsx'
import { disable, inviteAgain, type Person } from './data.ts'

interface DialogProps {
  of: Person
  onClose(): void
}

export function InviteDialog({ of: person, onClose }: DialogProps) {
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

export function DisableDialog({ of, onClose }: DialogProps) {
  const person = useOpened(of)
  const form = useForm({}, async () => {
    const { keys_revoked: revoked } = await disable(person, true)
    const also = revoked === 0 ? '' : `, and ${revoked === 1 ? 'their key is' : `their ${revoked} keys are`} revoked`
    tell(`${person.name} may not sign in any more${also}.`)
    onClose()
  })
  return (
    <Overlay title={`Disable ${person.name}`} onClose={onClose}>
      <p>
        Their sessions end at once.
        {person.role === 'member' && ' Keys of their own are revoked, for good.'} They can be enabled again; what they
        did stays on record.
      </p>
      <Form of={form} submit="Disable" kind="bad">
        {null}
      </Form>
    </Overlay>
  )
}
