/** What one says of an upstream, when it is made and later. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { isBuiltIn, USUAL_DIALECT } from '../../domain/dialects.ts'
import { open, toHref } from '../address/address.ts'
import { PlannedForm } from '../catalog/plan.tsx'
import { RateFields } from '../keys/fields.tsx'
import { Page } from '../shell/page.tsx'
import { Icon } from '../ui/controls.tsx'
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { YesNoField } from '../ui/resource.tsx'
import { createUpstream, usePresets } from './data.ts'
import { losesCredential, NEW_UPSTREAM, toCredential, toPlaceHint, type UpstreamValues } from './words.ts'

/** @param before what it is; null for one that is made. */
export function UpstreamFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream | null }) {
  const { values } = form
  return (
    <>
      {before === null && (
        <TextField
          of={form}
          name="id"
          label="Name"
          placeholder="openai"
          hint="Routes and reports name it so. It stays as it is."
          autoFocus
        />
      )}
      {(before === null || !isBuiltIn(before)) && (
        <>
          <PlaceFields form={form} before={before} />
          {before !== null && losesCredential(values.value, before) && <Moving of={before} />}
          <CredentialFields form={form} before={before} />
        </>
      )}
      <YesNoField
        of={form}
        name="local"
        label="Whose it is"
        no="A provider: it costs what the models cost"
        yes="Ours, local: it costs nothing"
        isNoFirst
      />
      {before !== null && <YesNoField of={form} name="enabled" label="In use" no="No: nothing is sent to it" />}
      <fieldset>
        <legend>What its provider allows</legend>
        <RateFields form={form} />
      </fieldset>
    </>
  )
}

/** Who answers, and where that is: a provider's address is known, unless each customer has another one. */
function PlaceFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream | null }) {
  const { data: presets } = usePresets()
  const chosen = presets?.find(({ id }) => id === form.values.value.preset)
  // An address is that of one provider.
  const choice = { ...form, set: (changes: Partial<UpstreamValues>) => form.set({ base_url: '', ...changes }) }
  const other = before === null ? USUAL_DIALECT : before.dialect
  return (
    <>
      <SelectField
        of={choice}
        name="preset"
        label="Provider"
        options={[
          [
            '',
            other === USUAL_DIALECT ? 'Another: any that speaks as OpenAI does' : `Another: at an address of ${other}`,
          ],
          ...(presets ?? []).map(({ id, name }) => [id, name] as const),
        ]}
      />
      <TextField
        of={form}
        name="base_url"
        label="Address"
        placeholder={chosen ? (chosen.base_url ?? chosen.example ?? '') : 'https://api.openai.com/v1'}
        hint={chosen ? toPlaceHint(chosen) : 'Of any server that speaks as OpenAI does, down to its /v1.'}
        isCode
      />
    </>
  )
}

/** Said as soon as it would be so. */
export const Moving = ({ of: { id, credential } }: { of: ShownUpstream }) => (
  <p class="caution" role="status">
    <Icon name="warning" />
    <span>
      A changed provider or address clears the credential ({toCredential(credential).word}): it was meant for the old
      one. Type one in for the new address, or {id} is not ready until somebody does.
    </span>
  </p>
)

function CredentialFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream | null }) {
  const isTyped = form.values.value.credential === 'typed'
  return (
    <>
      {before !== null && (
        <SelectField
          of={form}
          name="credential"
          label="Credential"
          options={[
            ['kept', `As it is: ${toCredential(before.credential).word}`],
            ['typed', 'Another one, typed in'],
            ['none', 'None'],
          ]}
        />
      )}
      {isTyped && (
        <TextField
          of={form}
          name="api_key"
          label={before === null ? 'Credential' : 'The new credential'}
          type="password"
          autoComplete="new-password"
          hint="Kept sealed, and shown to nobody again. Several: with spaces between them. Nothing: it needs none."
          isCode
        />
      )}
    </>
  )
}

export const NewUpstreamPage = () => (
  <Page title="New upstream" above={<a href={toHref('/upstreams')}>Upstreams</a>}>
    <div class="panel narrow form">
      <PlannedForm
        initial={NEW_UPSTREAM}
        send={createUpstream}
        fields={(form) => <UpstreamFields form={form} before={null} />}
        apply="Add it"
        onDone={({ id }: UpstreamValues) => {
          tell(`${id.trim()} is added. It answers once a model has a route to it.`)
          open(`/upstreams?upstream=${encodeURIComponent(id.trim())}`)
        }}
        onCancel={() => open('/upstreams')}
      />
    </div>
  </Page>
)
