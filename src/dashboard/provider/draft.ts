/** What was entered for a new provider, kept in memory while the tab is open: the credential must not be in the address. */
import { effect, signal } from '@preact/signals'
import type { ShownOffer } from '../../documents/offer.ts'
import { named, open } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { session } from '../api/session.ts'
import { reloadCatalog } from '../catalog/page.tsx'
import { type Choice, type Connection, type Names, type Picks, toModels } from './picks.ts'

type Upstream = ReturnType<typeof import('./picks.ts').toUpstream>

interface Draft {
  /** Only what the user changed. */
  typed: Partial<Connection>
  /** As checked, or as accepted without a check. */
  upstream: Upstream | null
  offers: readonly ShownOffer[]
  notes: readonly string[]
  picks: Picks
  added: { id: string; models: string[]; unpriced: string[]; notes: string[] } | null
}

const EMPTY: Draft = { typed: {}, upstream: null, offers: [], notes: [], picks: new Map(), added: null }

export const draft = signal<Draft>(EMPTY)

export const change = (changes: Partial<Draft>): void => {
  draft.value = { ...draft.value, ...changes }
}

export const clear = (): void => {
  draft.value = EMPTY
}

effect(() => {
  if (session.value.state === 'out') clear()
})

export const toStep = (provider: string | null, step = ''): string =>
  `/upstreams/new${provider === null ? '' : `?provider=${encodeURIComponent(provider)}${step === '' ? '' : `&step=${step}`}`}`

const openStep = (step: string, replace = false) => open(toStep(named('provider'), step), { replace })

/** Asks the provider for its models. Throws its refusal. */
export async function check(upstream: Upstream): Promise<void> {
  const { models, notes } = await ask(api.upstreams.check.post(upstream))
  change({ upstream, offers: models, notes })
  openStep('models')
}

/** The provider couldn't be asked. */
export function skipCheck(upstream: Upstream): void {
  change({ upstream, offers: [], notes: ['The provider was not checked. Add models by name, or later.'] })
  openStep('models')
}

export function choose(name: string, choice: Choice | null): void {
  const picks = new Map(draft.value.picks)
  if (choice === null) picks.delete(name)
  else picks.set(name, choice)
  change({ picks })
}

export async function add(names: Names): Promise<void> {
  const { upstream, picks } = draft.value
  if (upstream === null) return
  const models = toModels(picks, names)
  const { unpriced, notes } = await ask(api.upstreams.post({ ...upstream, models }))
  // Drops the credential.
  draft.value = { ...EMPTY, added: { id: upstream.id, models: models.map(({ slug }) => slug), unpriced, notes } }
  openStep('done', true)
  await Promise.all([reloadCatalog(), reloadAll('found'), reloadAll('names of models')])
}

/** Names in use. */
export const useNames = () =>
  useLoaded('names of models', async (): Promise<Names> => {
    const { models, aliases } = await ask(api.models.get())
    return { models: new Set(models.map(({ slug }) => slug)), aliases: new Set(aliases.map(({ alias }) => alias)) }
  })
