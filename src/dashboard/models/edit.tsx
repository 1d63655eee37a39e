/** A model changed by hand, or given back to whoever had it before. */

import type { ComponentChildren } from 'preact'
import type { ShownRoute } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { eachModelField, FEATURE_WORDS, FEATURES, type ModelField, type ModelFieldName } from '../../domain/models.ts'
import { PRICES } from '../../domain/usage.ts'
import { PlannedDialog } from '../catalog/plan.tsx'
import { toExactPrice } from '../figures/figures.ts'
import { type FormState, SelectField, TextField, useOpened } from '../ui/form.tsx'
import { YesNoField } from '../ui/resource.tsx'
import { deleteRoute, editModel, type Model, resetModel, setRoute } from './data.ts'
import {
  type ModelValues,
  type PriceValues,
  type RouteValues,
  TYPED_PRICES,
  toModelValues,
  toNewRoute,
  toRouteValues,
} from './words.ts'

interface EditProps {
  of: Model
  onClose(): void
}

export function EditModel({ of, onClose }: EditProps) {
  const model = useOpened(of)
  return (
    <PlannedDialog
      title={`Edit ${model.slug}`}
      initial={toModelValues(model)}
      send={(values, isPlan) => editModel(model, values, isPlan)}
      fields={(form) => <Fields form={form} of={model} />}
      apply="Change it"
      done={`${model.slug} is changed. What is asked from now on costs what it says now.`}
      onClose={onClose}
    />
  )
}

const Fields = ({ form, of: { origin, pricing } }: { form: FormState<ModelValues>; of: Model }) => (
  <>
    {origin !== 'admin' && (
      <p class="hint">What you change here is yours from then on: a catalogue's file does not change it back.</p>
    )}
    <PriceFields form={form} />
    {pricing.length > 1 && <p class="hint">These are of short prompts. Those of longer ones stay as they are.</p>}
    {Object.entries(INPUTS).map(([kind, Input]) => (
      <div key={kind} class="fields">
        {eachModelField((name, field) => field.kind === kind && <Input key={name} {...{ form, name, field }} />)}
      </div>
    ))}
  </>
)

interface InputProps {
  form: FormState<ModelValues>
  name: ModelFieldName
  field: ModelField
}

const INPUTS: Readonly<Record<ModelField['kind'], (props: InputProps) => ComponentChildren>> = {
  tokens: ({ form, name, field }) => <TextField of={form} name={name} label={field.label} inputMode="numeric" />,
  features: FeatureFields,
  flag: ({ form, name, field: { label, no } }) => (
    <YesNoField of={form} name={name} label={label} no={no === undefined ? 'No' : `No: ${no}`} />
  ),
}

function FeatureFields({ form, name, field }: InputProps) {
  const chosen = form.values.value[name].split(',').filter(Boolean)
  const toggle = (feature: string) => {
    const next = chosen.includes(feature) ? chosen.filter((one) => one !== feature) : [...chosen, feature]
    form.set({ [name]: FEATURES.filter((one) => next.includes(one)).join(',') })
  }
  return (
    <fieldset>
      <legend>{field.label}</legend>
      <div class="checks">
        {FEATURES.map((feature) => (
          <label key={feature}>
            <input type="checkbox" checked={chosen.includes(feature)} onChange={() => toggle(feature)} />
            {FEATURE_WORDS[feature]}
          </label>
        ))}
      </div>
    </fieldset>
  )
}

export function ResetModel({ of, onClose }: EditProps) {
  const model = useOpened(of)
  return (
    <PlannedDialog
      title={`Give ${model.slug} back`}
      initial={{}}
      send={(_, isPlan) => resetModel(model, isPlan)}
      fields={() => (
        <p>
          It and its routes become what they were before they were changed by hand, and a catalogue's file that names it
          has its way again.
        </p>
      )}
      apply="Give it back"
      done={`${model.slug} is what it was.`}
      onClose={onClose}
    />
  )
}

interface RouteProps {
  of: Model
  /** Null for a new one. */
  route: ShownRoute | null
  upstreams: readonly ShownUpstream[]
  onClose(): void
}

export const RouteDialog = ({ of: model, route, upstreams, onClose }: RouteProps) => (
  <PlannedDialog
    title={route === null ? `New route of ${model.slug}` : `Route to ${route.upstream}`}
    initial={route === null ? toNewRoute(model, upstreams[0]?.id ?? '') : toRouteValues(route)}
    send={(values, isPlan) => setRoute(model.slug, values, route, isPlan)}
    fields={(form) => <RouteFields form={form} route={route} upstreams={upstreams} />}
    apply={route === null ? 'Add it' : 'Change it'}
    done={`The routes of ${model.slug} are changed.`}
    onClose={onClose}
  />
)

type FieldsProps = Pick<RouteProps, 'route' | 'upstreams'> & { form: FormState<RouteValues> }

const RouteFields = ({ form, route, upstreams }: FieldsProps) => (
  <>
    {route === null && (
      <>
        <SelectField
          of={form}
          name="upstream"
          label="Upstream"
          options={upstreams.map(({ id }) => [id, id] as const)}
        />
        <TextField
          of={form}
          name="upstream_model"
          label="The upstream calls it"
          placeholder="gpt-5"
          hint="What it is asked for by this route."
          isCode
        />
      </>
    )}
    <div class="fields">
      <TextField of={form} name="priority" label="Priority" inputMode="numeric" hint="The lowest is tried first." />
      <TextField
        of={form}
        name="weight"
        label="Weight"
        inputMode="numeric"
        hint="Its share among those of the same priority."
      />
    </div>
    <SelectField
      of={form}
      name="price"
      label="What it costs"
      options={[
        ['model', 'As the model, or nothing where the upstream is local'],
        ['own', 'A price of its own'],
      ]}
    />
    {form.values.value.price === 'own' && <PriceFields form={form} />}
    <YesNoField of={form} name="enabled" label="In use" no="No: it is not asked" />
  </>
)

export const RemoveRoute = ({ of: { slug }, route, onClose }: { of: Model; route: ShownRoute; onClose(): void }) => (
  <PlannedDialog
    title={`Remove the route to ${route.upstream}`}
    initial={{}}
    send={(_, isPlan) => deleteRoute(slug, route, isPlan)}
    fields={() => (
      <p>
        {slug} is not asked at {route.upstream} as {route.upstream_model} any more.
      </p>
    )}
    apply="Remove it"
    kind="bad"
    done={`The route of ${slug} to ${route.upstream} is removed.`}
    onClose={onClose}
  />
)

const PriceFields = <Values extends PriceValues & Record<string, string>>({ form }: { form: FormState<Values> }) => (
  <fieldset>
    <legend>Prices, for a million tokens</legend>
    <div class="fields">
      {TYPED_PRICES.map((name) => (
        <TextField
          key={name}
          of={form}
          name={name}
          label={PRICES[name].word}
          before="$"
          inputMode="decimal"
          placeholder="as any prompt"
          hint={toExactPrice(form.values.value[name])}
        />
      ))}
    </div>
  </fieldset>
)
