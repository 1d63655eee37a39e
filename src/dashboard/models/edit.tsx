/** A model changed by hand, or given back to whoever had it before. */
import { FEATURES } from '../../domain/models.ts'
import { PlannedForm } from '../catalog/planned-form.tsx'
import { type FormState, SelectField, TextField, useOpened } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { editModel, type Model, resetModel } from './data.ts'
import { type ModelValues, toModelValues } from './form-values.ts'
import { PriceFields } from './price-fields.tsx'
import { toFeatureWord } from './words.ts'

interface EditProps {
  of: Model
  onClose(): void
}

export function EditModel({ of, onClose }: EditProps) {
  const model = useOpened(of)
  return (
    <Overlay title={`Edit ${model.slug}`} onClose={onClose}>
      <PlannedForm
        initial={toModelValues(model)}
        send={(values, isPlan) => editModel(model, values, isPlan)}
        fields={(form) => <Fields form={form} of={model} />}
        apply="Change it"
        onDone={() => {
          tell(`${model.slug} is changed. What is asked from now on costs what it says now.`)
          onClose()
        }}
        onCancel={onClose}
      />
    </Overlay>
  )
}

const Fields = ({ form, of: { origin, pricing } }: { form: FormState<ModelValues>; of: Model }) => (
  <>
    {origin !== 'admin' && (
      <p class="hint">What you change here is yours from then on: a catalogue's file does not change it back.</p>
    )}
    <PriceFields form={form} />
    {pricing.length > 1 && <p class="hint">These are of short prompts. Those of longer ones stay as they are.</p>}
    <div class="fields">
      <TextField of={form} name="context_length" label="Context, tokens" inputMode="numeric" />
      <TextField of={form} name="max_output_length" label="Longest answer, tokens" inputMode="numeric" />
    </div>
    <FeatureFields form={form} />
    <div class="fields">
      <SelectField
        of={form}
        name="enabled"
        label="Can be asked"
        options={[
          ['yes', 'Yes'],
          ['no', 'No: it is disabled'],
        ]}
      />
      <SelectField
        of={form}
        name="listed"
        label="In lists of models"
        options={[
          ['yes', 'Yes'],
          ['no', 'No'],
        ]}
      />
    </div>
  </>
)

function FeatureFields({ form }: { form: FormState<ModelValues> }) {
  const chosen = form.values.value.supported_features.split(',').filter(Boolean)
  const toggle = (feature: string) => {
    const next = chosen.includes(feature) ? chosen.filter((one) => one !== feature) : [...chosen, feature]
    form.set({ supported_features: FEATURES.filter((one) => next.includes(one)).join(',') })
  }
  return (
    <fieldset>
      <legend>What it can</legend>
      <div class="checks">
        {FEATURES.map((feature) => (
          <label key={feature}>
            <input type="checkbox" checked={chosen.includes(feature)} onChange={() => toggle(feature)} />
            {toFeatureWord(feature)}
          </label>
        ))}
      </div>
    </fieldset>
  )
}

export function ResetModel({ of, onClose }: EditProps) {
  const model = useOpened(of)
  return (
    <Overlay title={`Give ${model.slug} back`} onClose={onClose}>
      <PlannedForm
        initial={{}}
        send={(_, isPlan) => resetModel(model, isPlan)}
        fields={() => (
          <p>
            It and its routes become what they were before they were changed by hand, and a catalogue's file that names
            it has its way again.
          </p>
        )}
        apply="Give it back"
        onDone={() => {
          tell(`${model.slug} is what it was.`)
          onClose()
        }}
        onCancel={onClose}
      />
    </Overlay>
  )
}
