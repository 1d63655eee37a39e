/** A catalogue's file, applied from here: what it would change is shown before. */
import { useId } from 'preact/hooks'
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { applyYaml, planYaml } from './data.ts'
import type { Planned } from './plan.tsx'
import { PlannedForm } from './planned-form.tsx'

const NEW = { yaml: '', prune: 'no', take_over: 'no' }
type Values = typeof NEW

export const ApplyDrawer = ({ onClose }: { onClose(): void }) => (
  <Overlay kind="drawer" title="Apply a file" onClose={onClose}>
    <PlannedForm
      initial={NEW}
      send={send}
      fields={(form) => <Fields form={form} />}
      apply="Apply it"
      onDone={() => {
        tell('The catalogue is applied.')
        onClose()
      }}
    />
  </Overlay>
)

async function send({ yaml, prune, take_over }: Values, _isPlan: boolean, planned: Planned | null) {
  const wishes = { prune: prune === 'yes', take_over: take_over === 'yes' }
  if (planned === null) return planYaml(yaml, wishes)
  await applyYaml(yaml, wishes, planned.revision)
  return planned
}

function Fields({ form }: { form: FormState<Values> }) {
  const id = useId()
  return (
    <>
      <div class="field">
        <label for={id}>A file of this computer</label>
        <input
          id={id}
          type="file"
          accept=".yaml,.yml,.json"
          onChange={async ({ currentTarget: { files } }) => {
            const text = await files?.[0]?.text()
            if (text !== undefined) form.set({ yaml: text })
          }}
        />
      </div>
      <TextField
        of={form}
        name="yaml"
        label="Or what stands in it"
        hint="YAML or JSON, as the export writes it. Upstreams in it are for owners alone."
        isCode
        lines={12}
      />
      <SelectField
        of={form}
        name="prune"
        label="What it does not name any more"
        options={[
          ['no', 'Stays'],
          ['yes', 'Is removed, where it was from a file'],
        ]}
      />
      <SelectField
        of={form}
        name="take_over"
        label="What was set by hand"
        options={[
          ['no', 'Stays'],
          ['yes', 'Becomes what the file says'],
        ]}
      />
    </>
  )
}
