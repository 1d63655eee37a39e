/** What one says of a team, when it is made and later. */
import { ModelsField } from '../keys/models-field.tsx'
import { LimitFields, ScopeField } from '../keys/shared-fields.tsx'
import { type FormState, TextField } from '../ui/form.tsx'
import type { TeamValues } from './form-values.ts'

export const TeamFields = ({ form }: { form: FormState<TeamValues> }) => (
  <>
    <TextField
      of={form}
      name="name"
      label="Name"
      hint="A group of people, or a project. Costs are told by it."
      autoFocus
    />
    <ModelsField form={form} />
    <LimitFields form={form} />
    <TextField
      of={form}
      name="max_keys"
      label="Keys that a member may have"
      hint="Members are people who make keys of their own. Nothing: as many as they like."
      inputMode="numeric"
      placeholder="no limit"
    />
    <details open={form.values.value.scope === 'local'}>
      <summary>Where its requests may go</summary>
      <ScopeField form={form} />
    </details>
  </>
)
