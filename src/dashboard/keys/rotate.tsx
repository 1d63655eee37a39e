/** Gives a key a new secret; the one before still holds for a while, so that nothing stands still. */
import { useState } from 'preact/hooks'
import type { KeyDocument } from '../../documents/key.ts'
import { Button } from '../ui/button.tsx'
import { Form, SelectField, useForm } from '../ui/form.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { rotateKey } from './data.ts'
import { Made } from './made.tsx'

const OVERLAPS = [
  ['24h', 'For a day'],
  ['1h', 'For an hour'],
  ['7d', 'For a week'],
  ['30d', 'For 30 days'],
  ['0', 'Not at all: it leaked'],
] as const

export function RotateDialog({ of: key, onClose }: { of: KeyDocument; onClose(): void }) {
  const [secret, setSecret] = useState<string | null>(null)
  const [lastUsedMs] = useState(key.last_used_ms)
  const form = useForm({ overlap: '24h' }, async ({ overlap }) => setSecret((await rotateKey(key.id, overlap)).key))
  if (secret !== null) {
    return (
      <Overlay title={`New secret of ${key.name}`} onClose={onClose}>
        <Made id={key.id} secret={secret} lastUsedMs={lastUsedMs} />
        <div class="form-foot">
          <Button onClick={onClose}>I have kept it</Button>
        </div>
      </Overlay>
    )
  }
  return (
    <Overlay title={`Rotate ${key.name}`} onClose={onClose}>
      <p>It gets a new secret, which is shown once. Name, limits, budget and record stay.</p>
      <Form of={form} submit="Make a new secret">
        <SelectField of={form} name="overlap" label="The old secret still holds" options={OVERLAPS} />
      </Form>
    </Overlay>
  )
}
