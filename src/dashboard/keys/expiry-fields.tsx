/** When a key or a token ends. */
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { EXPIRIES, type NEW_EXPIRY } from './expiry.ts'

interface ExpiryFieldsProps {
  form: FormState<typeof NEW_EXPIRY>
  /** How it says that it ends as it did before; null where it did not end. */
  kept?: string | null
  /** What it may not go beyond. */
  most?: string | undefined
}

export const ExpiryFields = ({ form, kept = null, most }: ExpiryFieldsProps) => (
  <div class="fields">
    <SelectField
      of={form}
      name="expires_ms"
      label="Ends"
      hint={most}
      options={kept === null ? EXPIRIES : [['kept', kept], ...EXPIRIES]}
    />
    {form.values.value.expires_ms === 'on' && <TextField of={form} name="expires_on" label="On" type="date" />}
  </div>
)
