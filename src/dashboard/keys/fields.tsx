/** What one says of a key, when it is made and later. */

import type { KeyDocument } from '../../documents/key.ts'
import { useTeams } from '../teams/data.ts'
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { ExpiryFields } from './expiry-fields.tsx'
import type { KeyValues } from './form-values.ts'
import { ModelsField } from './models-field.tsx'
import { LimitFields, ScopeField } from './shared-fields.tsx'
import { toCeilingTexts } from './words.ts'

interface KeyFieldsProps {
  form: FormState<KeyValues>
  /** How it says that it ends as it did before; null where it did not end. */
  kept: string | null
  /** What whoever fills it in may not lift. */
  ceilings?: KeyDocument['ceilings']
}

export function KeyFields({ form, kept, ceilings = {} }: KeyFieldsProps) {
  const most = toCeilingTexts(ceilings)
  const teams = useTeams().data ?? []
  const { allowed_ips: ips, scope } = form.values.value
  return (
    <>
      <TextField
        of={form}
        name="name"
        label="Name"
        hint="Whose it is, or what for. Requests and costs are told by it."
        autoFocus
      />
      <ModelsField form={form} most={most.models} />
      {teams.length > 0 && (
        <SelectField
          of={form}
          name="team"
          label="Team"
          hint="Its limits and its budget hold, too, for all of its keys together."
          options={[['', 'None'], ...teams.map(({ id, name }) => [id, name] as const)]}
        />
      )}
      <LimitFields form={form} most={most} />
      <ExpiryFields form={form} kept={kept} most={most.expires_ms} />
      <details open={ips !== '' || scope === 'local'}>
        <summary>Where it may be used</summary>
        <div class="form">
          <ScopeField form={form} most={most.scope} />
          <TextField
            of={form}
            name="allowed_ips"
            label="Addresses of clients"
            hint={most.allowed_ips ?? 'One a line, such as 203.0.113.7 or 10.0.0.0/8. None: from everywhere.'}
            isCode
            lines={2}
          />
        </div>
      </details>
    </>
  )
}
