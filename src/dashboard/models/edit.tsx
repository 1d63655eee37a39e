/** Dialogs that edit or reset a model and its routes. */

import type { ComponentChildren } from 'preact'
import type { ShownRoute } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { keysOf } from '../../domain/json.ts'
import { eachModelField, FEATURE_WORDS, FEATURES, type ModelField, type ModelFieldName } from '../../domain/models.ts'
import { PRICES } from '../../domain/usage.ts'
import { PlannedDialog } from '../catalog/plan.tsx'
import { toExactPrice, toPerMillion, toPerToken } from '../figures/figures.ts'
import { toOfferPrice } from '../provider/picks.ts'
import { Button } from '../ui/controls.tsx'
import { useEditing } from '../ui/edit.tsx'
import { type FormState, SelectField, SwitchField, TextField } from '../ui/form.tsx'
import { deleteRoute, editModel, type Model, readModel, readRoute, resetModel, setRoute } from './data.ts'
import { chooseUpstream, UpstreamModelField, useOffers } from './new.tsx'
import {
  AUDIO_TERMS,
  type ModelValues,
  PRICE_FIELDS,
  type PriceValues,
  type RouteValues,
  TYPED_PRICES,
  toModelValues,
  toNewRoute,
  toPriceValues,
  toRouteValues,
  UNIT_PRICES,
} from './words.ts'

interface EditProps {
  of: Model
  onClose(): void
}

export function EditModel({ of, onClose }: EditProps) {
  const { slug } = of
  const editing = useEditing<Model>({ of, toValues: toModelValues, read: () => readModel(slug), subject: slug })
  return (
    <PlannedDialog
      title={`Edit ${slug}`}
      initial={toModelValues(of)}
      editing={editing}
      send={(values, isPlan) => editModel(editing.base.value, values, isPlan)}
      fields={(form) => <Fields form={form} of={editing.base.value} />}
      apply="Save changes"
      done="Saved. New prices apply to new requests."
      onClose={onClose}
    />
  )
}

const Fields = ({ form, of: { origin, pricing } }: { form: FormState<ModelValues>; of: Model }) => (
  <>
    {origin !== 'admin' && <p class="hint">Changes made here override catalog files.</p>}
    <PriceFields form={form} />
    {pricing.length > 1 && <p class="hint">For short prompts. Prices for longer prompts don't change.</p>}
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
    <SwitchField of={form} name={name} label={label} hint={no && `Off: ${no}.`} />
  ),
}

function FeatureFields({ form, name, field }: InputProps) {
  const chosen = form.values.value[name].split(',').filter(Boolean)
  form.shown.set(name, {
    label: field.label,
    toText: (value) =>
      FEATURES.filter((one) => value.split(',').includes(one))
        .map((one) => FEATURE_WORDS[one])
        .join(', ') || 'none',
  })
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
  const { slug } = of
  const editing = useEditing({ of, read: () => readModel(slug), subject: slug })
  return (
    <PlannedDialog
      title={`Reset ${slug}`}
      initial={{}}
      editing={editing}
      send={(_, isPlan) => resetModel(editing.base.value, isPlan)}
      fields={() => <p>Discards manual changes to this model and its routes. Catalog files apply again.</p>}
      apply="Reset"
      done={`Reset ${slug}.`}
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

/** Its subject in the audit log. */
const toSubject = (slug: string, { upstream, upstream_model }: ShownRoute) =>
  `${slug} on ${upstream} (${upstream_model})`

type RouteEditProps = RouteProps & { route: ShownRoute }

export function EditRoute({ of: { slug }, route, upstreams, onClose }: RouteEditProps) {
  const editing = useEditing({
    ...{ of: route, toValues: toRouteValues, read: () => readRoute(slug, route), subject: toSubject(slug, route) },
    groups: [['price', ...PRICE_FIELDS]],
  })
  return (
    <PlannedDialog
      title={`Route to ${route.upstream}`}
      initial={toRouteValues(route)}
      editing={editing}
      send={(values, isPlan) => setRoute(slug, values, editing.base.value, isPlan)}
      fields={(form) => <RouteFields form={form} route={route} upstreams={upstreams} />}
      apply="Save changes"
      done={`Saved the routes of ${slug}.`}
      onClose={onClose}
    />
  )
}

export const NewRoute = ({ of: model, upstreams, onClose }: Omit<RouteProps, 'route'>) => (
  <PlannedDialog
    title={`New route for ${model.slug}`}
    initial={toNewRoute(model, chooseUpstream(upstreams))}
    send={(values, isPlan) => setRoute(model.slug, values, null, isPlan)}
    fields={(form) => (
      <>
        <RouteFields form={form} route={null} upstreams={upstreams} />
        <ListedPrice form={form} of={model} upstreams={upstreams} />
      </>
    )}
    apply="Add route"
    done={`Saved the routes of ${model.slug}.`}
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
        <UpstreamModelField form={form} upstream={upstreams.find(({ id }) => id === form.values.value.upstream)} />
      </>
    )}
    <div class="fields">
      <TextField of={form} name="priority" label="Priority" inputMode="numeric" hint="Lowest is tried first." />
      <TextField
        of={form}
        name="weight"
        label="Weight"
        inputMode="numeric"
        hint="Share of traffic among routes with the same priority."
      />
    </div>
    <SelectField
      of={form}
      name="price"
      label="Price"
      options={[
        ['model', 'Same as the model (free if local)'],
        ['own', 'Custom price'],
      ]}
    />
    <PriceFields form={form} isHidden={form.values.value.price !== 'own'} />
    <SwitchField of={form} name="enabled" label="Enabled" hint="Off: never used." />
  </>
)

/** For a new route whose upstream lists a price other than the model's. */
function ListedPrice({ form, of: model, upstreams }: Omit<FieldsProps, 'route'> & { of: Model }) {
  const { upstream, price } = form.values.value
  const { known } = useOffers(
    upstreams.find(({ id }) => id === upstream),
    form.values.value,
  )
  if (price !== 'model' || !known || known.pricing.length === 0) return null
  if (toOfferPrice(known) === toOfferPrice(model)) return null
  return (
    <div class="caution">
      <p>
        {upstream} lists another price: {toOfferPrice(known)}.
      </p>
      <Button onClick={() => form.set({ price: 'own', ...toPriceValues(known.pricing) })}>Use its price</Button>
    </div>
  )
}

export function RemoveRoute({ of: { slug }, route, onClose }: { of: Model; route: ShownRoute; onClose(): void }) {
  const editing = useEditing({ of: route, read: () => readRoute(slug, route), subject: toSubject(slug, route) })
  return (
    <PlannedDialog
      title={`Remove route to ${route.upstream}`}
      initial={{}}
      editing={editing}
      send={(_, isPlan) => deleteRoute(slug, editing.base.value, isPlan)}
      fields={() => (
        <p>
          Requests for {slug} no longer go to {route.upstream} ({route.upstream_model}).
        </p>
      )}
      apply="Remove route"
      kind="bad"
      done={`Removed the route from ${slug} to ${route.upstream}.`}
      onClose={onClose}
    />
  )
}

const toRoutePrice =
  (name: (typeof TYPED_PRICES)[number]) =>
  (value: string, { price }: Readonly<Record<string, string>>) =>
    price === 'own' && value !== '' ? `${PRICES[name].word} ${toPrice(value)}` : ''

/** As prices are shown: `$1.50`. */
const toPrice = (typed: string) => {
  const usd = toPerToken(typed)
  return usd === null ? typed : toPerMillion(usd)
}

interface PriceFieldsProps<Values extends Record<string, string>> {
  form: FormState<Values>
  /** Price fields of a route: hidden while it uses the model's price, but named in conflicts. */
  isHidden?: boolean
}

const PriceFields = <Values extends PriceValues & Record<string, string>>(props: PriceFieldsProps<Values>) => (
  <fieldset hidden={props.isHidden}>
    <legend>Prices per million tokens</legend>
    <div class="fields">
      {TYPED_PRICES.map((name) => (
        <TextField
          key={name}
          of={props.form}
          name={name}
          label={PRICES[name].word}
          before="$"
          inputMode="decimal"
          placeholder={name.startsWith('input_') ? 'same as input' : ''}
          hint={toExactPrice(props.form.values.value[name])}
          toText={props.isHidden === undefined ? (value) => toPrice(value) || 'none' : toRoutePrice(name)}
        />
      ))}
    </div>
    <details open={UNIT_PRICES.some((name) => props.form.values.value[name] !== '')}>
      <summary>Audio, images, and reranking</summary>
      <div class="fields">
        {UNIT_PRICES.map((name) => (
          <TextField key={name} of={props.form} name={name} label={PRICES[name].word} before="$" inputMode="decimal" />
        ))}
        {keysOf(AUDIO_TERMS).map((name) => (
          <TextField key={name} of={props.form} name={name} label={AUDIO_TERMS[name]} inputMode="numeric" />
        ))}
      </div>
    </details>
  </fieldset>
)
