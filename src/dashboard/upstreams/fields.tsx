/** Form fields of an upstream. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { isBuiltIn, USUAL_DIALECT } from '../../domain/dialects.ts'
import { RateFields } from '../keys/fields.tsx'
import { Icon } from '../ui/controls.tsx'
import { type FormState, SelectField, SwitchField, TextField } from '../ui/form.tsx'
import { usePresets } from './data.ts'
import { losesCredential, toCredential, toPlaceHint, type UpstreamValues } from './words.ts'

export function UpstreamFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream }) {
  const { values } = form
  return (
    <>
      {!isBuiltIn(before) && (
        <>
          <PlaceFields form={form} before={before} />
          {losesCredential(values.value, before) && <Moving of={before} />}
          <CredentialFields form={form} before={before} />
        </>
      )}
      <SwitchField of={form} name="local" label="Local" hint="Free. Off: a provider, billed at model prices." />
      <SwitchField of={form} name="enabled" label="Enabled" hint="Off: receives no requests." />
      <fieldset>
        <legend>Provider rate limits</legend>
        <RateFields form={form} />
      </fieldset>
    </>
  )
}

/** A provider's URL is known, unless each customer has their own. */
function PlaceFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream }) {
  const { data: presets } = usePresets()
  const chosen = presets?.find(({ id }) => id === form.values.value.preset)
  // A URL belongs to one provider.
  const choice = { ...form, set: (changes: Partial<UpstreamValues>) => form.set({ base_url: '', ...changes }) }
  const other = before.dialect
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

function CredentialFields({ form, before }: { form: FormState<UpstreamValues>; before: ShownUpstream }) {
  const isTyped = form.values.value.credential === 'typed'
  return (
    <>
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
      {isTyped && (
        <TextField
          of={form}
          name="api_key"
          label="New credential"
          type="password"
          autoComplete="new-password"
          hint="Stored encrypted and never shown again. Separate several with spaces. Leave empty if none is needed."
          isCode
        />
      )}
    </>
  )
}
