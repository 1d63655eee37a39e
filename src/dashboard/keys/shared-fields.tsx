/** What one says of a key and of a team alike. */
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import type { SharedValues } from './shared-values.ts'

interface SharedFieldsProps {
  form: FormState<SharedValues>
}

const PERIOD_OPTIONS = [
  ['month', 'a month'],
  ['week', 'a week'],
  ['day', 'a day'],
  ['total', 'in all'],
] as const

/** Of upstreams, too. */
export const RateFields = ({ form }: { form: FormState<{ rpm: string; tpm: string; concurrency: string }> }) => (
  <div class="fields">
    <TextField of={form} name="rpm" label="Requests a minute" inputMode="numeric" placeholder="no limit" />
    <TextField of={form} name="tpm" label="Tokens a minute" inputMode="numeric" placeholder="no limit" />
    <TextField of={form} name="concurrency" label="At a time" inputMode="numeric" placeholder="no limit" />
  </div>
)

export const LimitFields = ({ form }: SharedFieldsProps) => (
  <fieldset>
    <legend>Budget and limits</legend>
    <div class="fields">
      <TextField of={form} name="budget" label="Budget" before="$" inputMode="decimal" placeholder="none" />
      <SelectField of={form} name="budget_period" label="Each" options={PERIOD_OPTIONS} />
    </div>
    <RateFields form={form} />
  </fieldset>
)

export const ScopeField = ({ form }: SharedFieldsProps) => (
  <SelectField
    of={form}
    name="scope"
    label="Upstreams"
    options={[
      ['all', 'All of them'],
      ['local', 'Local ones alone: nothing leaves for a provider'],
    ]}
  />
)
