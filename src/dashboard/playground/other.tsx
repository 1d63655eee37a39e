/** A form for requests other than chats, and their results. */
import { useSignalEffect } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import type { JsonObject } from '../../domain/json.ts'
import type { OtherEndpoint } from '../../domain/task.ts'
import { toHref } from '../address/address.ts'
import { toLatency, toMoney } from '../figures/figures.ts'
import { EXAMPLES, toEndpointSnippets } from '../snippets/endpoints.ts'
import { Button } from '../ui/controls.tsx'
import { Figure, Latency, Money, None, State } from '../ui/figure.tsx'
import { FileField, Form, TextField, useForm } from '../ui/form.tsx'
import { announce } from '../ui/notice.tsx'
import { CodeOverlay, toAccess } from './code.tsx'
import { KINDS, type KindField, toFields, typedOf } from './kinds.tsx'
import { files, isWorking, type Made, made, type Typed, typed } from './made.ts'
import { make } from './make.ts'
import { clock, stopAll } from './run.ts'
import type { OfferedModel } from './state.ts'
import { TITLES } from './titles.ts'

export function OtherView({ endpoint, model }: { endpoint: OtherEndpoint; model: OfferedModel }) {
  const kind = KINDS[endpoint]
  const at = useRef<HTMLDivElement>(null)
  const form = useForm<Record<string, string>>({ ...typedOf(endpoint) }, async (values) => {
    await make(endpoint, model, values)
    const [latest] = made.value
    if (latest) announce(toSpoken(latest))
  })
  useSignalEffect(() => {
    typed.value = { ...typed.peek(), [endpoint]: form.values.value }
  })
  useEffect(() => {
    const send = (event: KeyboardEvent) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      at.current?.querySelector('form')?.requestSubmit()
    }
    at.current?.addEventListener('keydown', send)
    return () => at.current?.removeEventListener('keydown', send)
  }, [])
  const wide = kind.fields.filter(({ isRequired }) => isRequired)
  const narrow = kind.fields.filter((field) => !wide.includes(field))
  const toField = ({ read: _, value: __, isRequired: ___, suggestions, ...field }: KindField) => (
    <TextField
      key={field.name}
      of={form}
      {...field}
      {...(suggestions && { suggestions: suggestions.map((text) => [text, ''] as const) })}
    />
  )
  return (
    <>
      <section class="panel" aria-label={TITLES[endpoint]} ref={at}>
        <Form of={form} submit={kind.action} isUnsaved={false} otherActions={isWorking.value && <Working />}>
          {kind.file && <FileField file={files[kind.file.name]} {...kind.file} />}
          {wide.map(toField)}
          {narrow.length > 0 && <div class="fields">{narrow.map(toField)}</div>}
        </Form>
      </section>
      {made.value.map((one) => (
        <MadeView key={one.id} of={one} />
      ))}
    </>
  )
}

function Working() {
  const startedMs = useRef(performance.now())
  return (
    <>
      <Button kind="quiet" icon="stop" onClick={stopAll}>
        Stop
      </Button>
      <span class="hint">{toLatency(Math.max(0, Math.floor((clock.value - startedMs.current) / 100) * 100))}</span>
    </>
  )
}

function MadeView({ of }: { of: Made }) {
  const { endpoint, model, typed, file, json, tookMs, requestId } = of
  const { fields, Shown } = KINDS[endpoint]
  const id = useId()
  const main = fields.find(({ isRequired }) => isRequired)
  const asked = [file, main && typed[main.name]].filter(Boolean).join(': ')
  return (
    <article class="turn answer" aria-labelledby={id}>
      <header class="turn-head">
        <h2 id={id}>
          {TITLES[endpoint]} by <code>{model}</code>
        </h2>
      </header>
      <p class="dim">{asked}</p>
      <Shown of={json} typed={typed} />
      <dl class="play-figures">
        <Figure name="Duration">
          <Latency ms={Math.round(tookMs)} />
        </Figure>
        <Figure name="Cost">
          <Cost of={of} />
        </Figure>
        {requestId !== null && (
          <Figure name="Request">
            <a href={toHref(`/requests/${requestId}`)}>…{requestId.slice(-8)}</a>
          </Figure>
        )}
      </dl>
    </article>
  )
}

function Cost({ of: { isUnpriced, nanoUsd } }: { of: Made }) {
  if (isUnpriced) return <State kind="warn">unpriced</State>
  return nanoUsd === null ? <None /> : <Money nanoUsd={nanoUsd} />
}

function toSpoken({ endpoint, tookMs, isUnpriced, nanoUsd }: Made): string {
  const cost = isUnpriced ? ', unpriced' : nanoUsd === null ? '' : `, ${toMoney(nanoUsd)}`
  return `${TITLES[endpoint]} finished in ${toLatency(tookMs)}${cost}.`
}

/** The request as code, from the form or else an example. */
export function OtherCode({
  endpoint,
  model,
  onClose,
}: {
  endpoint: OtherEndpoint
  model: string
  onClose: () => void
}) {
  const fields = { model, ...tryFields(endpoint, typedOf(endpoint)) }
  const { file } = KINDS[endpoint]
  return (
    <CodeOverlay
      of={() => toEndpointSnippets({ ...toAccess(), endpoint, fields, file: file && files[file.name].value?.name })}
      onClose={onClose}
    />
  )
}

/** If a field is invalid or missing, uses an example. */
function tryFields(endpoint: OtherEndpoint, typed: Typed): JsonObject {
  try {
    return toFields(endpoint, typed)
  } catch {
    return EXAMPLES[endpoint]
  }
}
