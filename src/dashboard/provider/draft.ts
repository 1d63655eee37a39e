/** Values entered for a new provider, in memory while the tab is open: the credential must not be in the URL. */
import { effect, signal } from '@preact/signals'
import type { ShownOffer } from '../../documents/offer.ts'
import { address, named, open } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { session } from '../api/session.ts'
import { reloadCatalog } from '../catalog/data.ts'
import { type Choice, type Connection, type Names, type Picks, toModels } from './picks.ts'

type Upstream = ReturnType<typeof import('./picks.ts').toUpstream>

interface Draft {
  /** The provider that the key in `typed` belongs to. */
  provider: string | null
  /** The URL of a discovered server, which was not typed. */
  found: string | null
  /** Only what the user changed. */
  typed: Partial<Connection>
  /** The checked connection, or one accepted without a check. */
  upstream: Upstream | null
  offers: readonly ShownOffer[]
  notes: readonly string[]
  picks: Picks
  added: { id: string; models: string[]; unpriced: string[]; notes: string[] } | null
}

const EMPTY: Draft = {
  provider: null,
  found: null,
  typed: {},
  upstream: null,
  offers: [],
  notes: [],
  picks: new Map(),
  added: null,
}

export const draft = signal<Draft>(EMPTY)

export const change = (changes: Partial<Draft>): void => {
  draft.value = { ...draft.value, ...changes }
}

/** Typed values that fit another provider: name and URL, and the key only if the URL was typed. */
export function typedFor(provider: string): Partial<Connection> {
  const { provider: before, found, typed } = draft.value
  const isOwnUrl = typed.base_url !== undefined && typed.base_url !== found
  if (before === null || before === provider || isOwnUrl) return typed
  return typed.id === undefined ? {} : { id: typed.id }
}

effect(() => {
  if (session.value.state === 'out') draft.value = EMPTY
})

// Asks before a reload, which loses the values; other steps and pages keep them.
addEventListener('beforeunload', (event) => {
  const { typed, upstream } = draft.value
  if (address.value.path === '/upstreams/new' && (upstream !== null || Object.keys(typed).length > 0))
    event.preventDefault()
})

export const toStep = (provider: string | null, step = ''): string =>
  `/upstreams/new${provider === null ? '' : `?provider=${encodeURIComponent(provider)}${step === '' ? '' : `&step=${step}`}`}`

/** False after the user has left, or chosen another provider. */
const isOpen = (provider: string | null) => address.value.path === '/upstreams/new' && named('provider') === provider

const openStep = (step: string, replace = false) => open(toStep(named('provider'), step), { replace })

/** Asks the provider for its models. Throws its refusal. */
export async function check(upstream: Upstream): Promise<void> {
  const provider = named('provider')
  const { models, notes } = await ask(api.upstreams.check.post(upstream))
  if (!isOpen(provider)) return
  change({ upstream, offers: models, notes, picks: toPicks(upstream) })
  openStep('models')
}

/** Called if the provider couldn't be reached. */
export function skipCheck(upstream: Upstream): void {
  const notes = ['The provider was not checked. Add models by name, or later.']
  change({ upstream, offers: [], notes, picks: toPicks(upstream) })
  openStep('models')
}

const toPlace = (upstream: Upstream) =>
  JSON.stringify(['preset' in upstream && upstream.preset, 'base_url' in upstream && upstream.base_url])

/** Selected models are kept for the same provider and URL. */
function toPicks(upstream: Upstream): Picks {
  const { upstream: before, picks } = draft.value
  return before !== null && toPlace(before) === toPlace(upstream) ? picks : new Map()
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
  const provider = named('provider')
  const models = toModels(picks, names)
  const { unpriced, notes } = await ask(api.upstreams.post({ ...upstream, models }))
  // Drops the credential.
  draft.value = { ...EMPTY, added: { id: upstream.id, models: models.map(({ slug }) => slug), unpriced, notes } }
  if (isOpen(provider)) openStep('done', true)
  await Promise.all([reloadCatalog(), reloadAll('found'), reloadAll('names of models')])
}

/** Names in use. */
export const useNames = () =>
  useLoaded('names of models', async (): Promise<Names> => {
    const { models, aliases } = await ask(api.models.get())
    return { models: new Set(models.map(({ slug }) => slug)), aliases: new Set(aliases.map(({ alias }) => alias)) }
  })
