/** Name, address, and credential of a provider, checked against it before anything is saved. */
import { useState } from 'preact/hooks'
import type { ShownPreset } from '../../documents/upstream.ts'
import { toHref } from '../address/address.ts'
import { Button } from '../ui/controls.tsx'
import { Form, type FormState, SelectField, SwitchField, TextField, useForm } from '../ui/form.tsx'
import { change, check, skipCheck, toStep, typedFor } from './draft.ts'
import { type Connection, toUpstream, toUrlExample } from './picks.ts'

interface ConnectProps {
  provider: string
  of: ShownPreset | null
  initial: Connection
}

export function Connect({ provider, of: preset, initial }: ConnectProps) {
  const form = useForm(initial, (values) => check(toUpstream(values, preset)))
  const kept: FormState<Connection> = {
    ...form,
    set(changes) {
      form.set(changes)
      change({ provider, typed: { ...typedFor(provider), ...changes } })
    },
  }
  const { values, problem, isBusy } = form
  // Focuses the field that is usually missing; Enter then checks. Decided when the page opens: typing must not move the
  // focus.
  const [first] = useState(
    initial.base_url === '' ? 'base_url' : initial.credential === 'variable' || preset?.local ? 'id' : 'api_key',
  )
  const isUnchecked = problem.value?.kind === 'list_failed'
  const hasVariable = initial.credential === 'variable' || typedFor(provider).credential !== undefined
  return (
    <div class="panel narrow">
      <Form
        of={kept}
        submit={isBusy.value ? 'Checking…' : 'Check and list models'}
        isUnsaved={false}
        otherActions={
          <>
            {isUnchecked && (
              <Button onClick={() => skipCheck(toUpstream(values.value, preset))}>Continue without a check</Button>
            )}
            <a href={toHref(toStep(null))}>Back</a>
          </>
        }
      >
        {hasVariable && preset?.variable && (
          <SelectField
            of={kept}
            name="credential"
            label="Key"
            options={[
              ['variable', `Use ${preset.variable} of the server`],
              ['typed', 'Enter a key'],
            ]}
          />
        )}
        {values.value.credential === 'typed' && (
          <TextField
            of={kept}
            name="api_key"
            label={preset?.local === false ? 'API key' : 'API key (if it needs one)'}
            type="password"
            autoComplete="new-password"
            hint="Stored encrypted and never shown again. Separate several with spaces."
            autoFocus={first === 'api_key'}
            isCode
          />
        )}
        <TextField
          of={kept}
          name="base_url"
          label="Base URL"
          placeholder={toUrlExample(preset)}
          hint={preset === null ? 'Of an OpenAI-compatible API, usually ending in /v1.' : undefined}
          autoFocus={first === 'base_url'}
          isCode
        />
        <TextField
          of={kept}
          name="id"
          label="Name"
          placeholder="openai"
          hint="Used by routes and reports. Can't be changed later."
          autoFocus={first === 'id'}
        />
        {(preset?.local !== false || values.value.base_url.trim() !== preset.base_url) && (
          <SwitchField
            of={kept}
            name="local"
            label="Local"
            hint="On your own machine or network, and free. Off: a provider, billed at model prices."
          />
        )}
        <p class="hint">The check requests the provider's model list, which is free. Nothing is saved yet.</p>
      </Form>
    </div>
  )
}
