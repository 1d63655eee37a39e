/** Form fields of an upstream. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { isBuiltIn, USUAL_DIALECT } from '../../domain/dialects.ts'
import { open, toHref } from '../address/address.ts'
import { PlannedForm } from '../catalog/plan.tsx'
import { RateFields } from '../keys/fields.tsx'
import { Page } from '../shell/page.tsx'
import { Icon } from '../ui/controls.tsx'
import { type FormState, SelectField, SwitchField, TextField } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { createUpstream, usePresets } from './data.ts'
import { losesCredential, NEW_UPSTREAM, toCredential, toPlaceHint, type UpstreamValues } from './words.ts'

/** @param before null for a new upstream. */
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
          hint="Used by routes and reports. Can't be changed later."
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
      <SwitchField of={form} name="local" label="Local" hint="Free. Off: a provider, billed at model prices." />
      {before !== null && <SwitchField of={form} name="enabled" label="Enabled" hint="Off: receives no requests." />}
      <fieldset>
        <legend>Provider rate limits</legend>
        <RateFields form={form} />
      </fieldset>
    </>
  )
}

/** A provider's URL is known, unless each customer has their own. */
function PlaceFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream | null }) {
  const { data: presets } = usePresets()
  const chosen = presets?.find(({ id }) => id === form.values.value.preset)
  // A URL belongs to one provider.
  const choice = { ...form, set: (changes: Partial<UpstreamValues>) => form.set({ base_url: '', ...changes }) }
  const other = before === null ? USUAL_DIALECT : before.dialect
  return (
    <>
      <SelectField
        of={choice}
        name="preset"
        label="Provider"
        options={[
          ['', other === USUAL_DIALECT ? 'Other: any OpenAI-compatible API' : `Other: any ${other} API`],
          ...(presets ?? []).map(({ id, name }) => [id, name] as const),
        ]}
      />
      <TextField
        of={form}
        name="base_url"
        label="Base URL"
        placeholder={chosen ? (chosen.base_url ?? chosen.example ?? '') : 'https://api.openai.com/v1'}
        hint={chosen ? toPlaceHint(chosen) : 'URL of an OpenAI-compatible API, including /v1.'}
        isCode
      />
    </>
  )
}

/** Warns while editing, before the preview. */
export const Moving = ({ of: { id, credential } }: { of: ShownUpstream }) => (
  <p class="caution" role="status">
    <Icon name="warning" />
    <span>
      Changing the provider or URL removes the credential ({toCredential(credential).word}), so that it isn't sent
      elsewhere. Enter a new one, or {id} stays unavailable.
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
            ['kept', `Keep current: ${toCredential(before.credential).word}`],
            ['typed', 'Enter a new one'],
            ['none', 'None'],
          ]}
        />
      )}
      {isTyped && (
        <TextField
          of={form}
          name="api_key"
          label={before === null ? 'Credential' : 'New credential'}
          type="password"
          autoComplete="new-password"
          hint="Stored encrypted and never shown again. Separate several with spaces. Leave empty if none is needed."
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
        apply="Add upstream"
        onDone={({ id }: UpstreamValues) => {
          tell(`Added ${id.trim()}. Add a route to it to use it.`)
          open(`/upstreams?upstream=${encodeURIComponent(id.trim())}`)
        }}
        onCancel={() => open('/upstreams')}
      />
    </div>
  </Page>
)
