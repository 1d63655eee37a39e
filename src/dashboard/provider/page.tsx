/** Adds a provider in steps, which are in the URL: provider, connection, models, done. */
import { useEffect } from 'preact/hooks'
import type { ShownPreset } from '../../documents/upstream.ts'
import { named, open, query, toHref } from '../address/address.ts'
import { Page } from '../shell/page.tsx'
import { RowsRoom, Unread } from '../ui/notice.tsx'
import { useFound, usePresets, useUpstreams } from '../upstreams/data.ts'
import { ChooseProvider } from './choose.tsx'
import { Connect } from './connect.tsx'
import { Done } from './done.tsx'
import { draft, toStep, typedFor } from './draft.ts'
import { PickModels } from './pick.tsx'
import { OTHER, toConnection } from './picks.ts'

export function ProviderPage() {
  const provider = named('provider')
  const step = provider === null ? 'provider' : (query.value.get('step') ?? 'connection')
  const presets = usePresets()
  const upstreams = useUpstreams()
  const found = useFound()
  const isRead = presets.data !== null && upstreams.data !== null
  const preset = presets.data?.find(({ id }) => id === provider) ?? null
  const isUnknown = isRead && provider !== null && provider !== OTHER && preset === null
  // After a reload, or Back from the end.
  const isLost = (step === 'models' && draft.value.upstream === null) || (step === 'done' && draft.value.added === null)
  useEffect(() => {
    if (isUnknown || isLost) open(isUnknown || step === 'done' ? toStep(null) : toStep(provider), { replace: true })
  }, [isUnknown, isLost])
  return (
    <Page title="Add provider" above={<a href={toHref('/upstreams')}>Upstreams</a>}>
      <Steps step={step} provider={provider} of={preset} />
      <Unread
        of={isRead ? presets.data : null}
        problem={presets.problem ?? upstreams.problem}
        retry={() => void Promise.all([presets.reload(), upstreams.reload()])}
      >
        <RowsRoom />
      </Unread>
      {isRead && step === 'provider' && <ChooseProvider presets={presets.data ?? []} found={found.data} />}
      {isRead &&
        !isUnknown &&
        provider !== null &&
        step === 'connection' &&
        (found.data !== null || found.problem !== null) && (
          <Connect
            key={provider}
            provider={provider}
            of={preset}
            initial={toConnection(
              preset,
              new Set(upstreams.data?.map(({ id }) => id)),
              found.data?.providers.some((one) => one.preset === provider) ?? false,
              typedFor(provider),
            )}
          />
        )}
      {!isLost && step === 'models' && <PickModels provider={provider} />}
      {!isLost && step === 'done' && <Done />}
    </Page>
  )
}

const STEPS = [
  ['provider', 'Provider'],
  ['connection', 'Connection'],
  ['models', 'Models'],
] as const

function Steps({ step, provider, of }: { step: string; provider: string | null; of: ShownPreset | null }) {
  const at = STEPS.findIndex(([name]) => name === step)
  const done = at < 0 ? STEPS.length : at
  return (
    <ol class="wizard-steps" aria-label="Steps">
      {STEPS.map(([name, title], index) => {
        const text = name === 'provider' && of !== null ? of.name : title
        const href = toHref(toStep(index === 0 ? null : provider))
        return (
          <li key={name} data-done={index < done} aria-current={index === at ? 'step' : undefined}>
            {index < at ? <a href={href}>{text}</a> : text}
            <span class="unseen">{index < done ? ': done' : ''}</span>
          </li>
        )
      })}
    </ol>
  )
}
