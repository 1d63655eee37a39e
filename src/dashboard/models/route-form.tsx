/** A route of a model: made, changed, removed. */
import type { ShownRoute } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { PlannedForm } from '../catalog/planned-form.tsx'
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { deleteRoute, type Model, setRoute } from './data.ts'
import { type RouteValues, toNewRoute, toRouteValues } from './form-values.ts'
import { PriceFields } from './price-fields.tsx'

interface RouteProps {
  of: Model
  /** Null for a new one. */
  route: ShownRoute | null
  upstreams: readonly ShownUpstream[]
  onClose(): void
}

export const RouteDialog = ({ of: model, route, upstreams, onClose }: RouteProps) => (
  <Overlay title={route === null ? `New route of ${model.slug}` : `Route to ${route.upstream}`} onClose={onClose}>
    <PlannedForm
      initial={route === null ? toNewRoute(model, upstreams[0]?.id ?? '') : toRouteValues(route)}
      send={(values, isPlan) => setRoute(model.slug, values, route, isPlan)}
      fields={(form) => <Fields form={form} route={route} upstreams={upstreams} />}
      apply={route === null ? 'Add it' : 'Change it'}
      onDone={() => {
        tell(`The routes of ${model.slug} are changed.`)
        onClose()
      }}
      onCancel={onClose}
    />
  </Overlay>
)

type FieldsProps = Pick<RouteProps, 'route' | 'upstreams'> & { form: FormState<RouteValues> }

const Fields = ({ form, route, upstreams }: FieldsProps) => (
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
    <SelectField
      of={form}
      name="enabled"
      label="In use"
      options={[
        ['yes', 'Yes'],
        ['no', 'No: it is not asked'],
      ]}
    />
  </>
)

export const RemoveRoute = ({ of: { slug }, route, onClose }: { of: Model; route: ShownRoute; onClose(): void }) => (
  <Overlay title={`Remove the route to ${route.upstream}`} onClose={onClose}>
    <PlannedForm
      initial={{}}
      send={(_, isPlan) => deleteRoute(slug, route, isPlan)}
      fields={() => (
        <p>
          {slug} is not asked at {route.upstream} as {route.upstream_model} any more.
        </p>
      )}
      apply="Remove it"
      kind="bad"
      onDone={() => {
        tell(`The route of ${slug} to ${route.upstream} is removed.`)
        onClose()
      }}
      onCancel={onClose}
    />
  </Overlay>
)
