/** What one says of a key and of a team alike. */
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import type { SharedValues } from './shared-values.ts'

/** What may not be gone beyond, in words, by the names of fields. */
type Most = Partial<Record<'rpm' | 'tpm' | 'concurrency' | 'budget', string>>

interface LimitFieldsProps {
  form: FormState<SharedValues>
  most?: Most
}

const PERIOD_OPTIONS = [
  ['month', 'a month'],
  ['week', 'a week'],
  ['day', 'a day'],
  ['total', 'in all'],
] as const

/** Of upstreams, too. */
export const RateFields = ({
  form,
  most = {},
}: {
  form: FormState<{ rpm: string; tpm: string; concurrency: string }>
  most?: Most
}) => (
  <div class="fields">
    {RATES.map(([name, label]) => (
      <TextField
        key={name}
        of={form}
        name={name}
        label={label}
        inputMode="numeric"
        placeholder="no limit"
        hint={most[name]}
      />
    ))}
  </div>
)

const RATES = [
  ['rpm', 'Requests a minute'],
  ['tpm', 'Tokens a minute'],
  ['concurrency', 'At a time'],
] as const

export const LimitFields = ({ form, most = {} }: LimitFieldsProps) => (
  <fieldset>
    <legend>Budget and limits</legend>
    <div class="fields">
      <TextField
        of={form}
        name="budget"
        label="Budget"
        before="$"
        inputMode="decimal"
        placeholder="none"
        hint={most.budget}
      />
      <SelectField of={form} name="budget_period" label="Each" options={PERIOD_OPTIONS} />
    </div>
    <RateFields form={form} most={most} />
  </fieldset>
)

export const ScopeField = ({ form, most }: { form: FormState<SharedValues>; most?: string | undefined }) => (
  <SelectField
    of={form}
    name="scope"
    label="Upstreams"
    hint={most}
    options={[
      ['all', 'All of them'],
      ['local', 'Local ones alone: nothing leaves for a provider'],
    ]}
  />
)
