/** Data of the key pages. Members use the endpoints of their own keys. A change reloads what is open. */
import type { KeyDocument } from '../../documents/key.ts'
import { endpointsOf } from '../../domain/models.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { nowMs } from '../api/clock.ts'
import { change, useLoaded } from '../api/loaded.ts'
import { isMember, may } from '../api/session.ts'
import { KEY_FORM, type Values } from './values.ts'
import { DAYS, toDays } from './words.ts'

const FRESH_MS = 15_000
const SLOW_MS = 5 * 60_000
const MAX_ROWS = 10_000

/** True if the current user can create and edit the keys they see. */
export const mayChangeKeys = () => may('editor') || isMember()

const readKeys = () => ask(isMember() ? api.own.keys.get() : api.keys.get())

export const useKeys = (everyMs = FRESH_MS) => useLoaded('keys', async () => (await readKeys()).keys, { everyMs })

export const readKey = (id: string) => ask(isMember() ? api.own.keys({ id }).get() : api.keys({ id }).get())

export const useKey = (id: string, everyMs = FRESH_MS) => useLoaded(`keys/${id}`, () => readKey(id), { everyMs })

interface PickedModel {
  slug: string
  name: string
  pricing: readonly { prompt?: string; completion?: string }[]
  is_ready: boolean | null
  reason: string | null
  /** False for members, who can't know this. */
  isLocal: boolean
}

/** Enabled models only. */
export const useModels = (everyMs?: number) =>
  useLoaded(
    'models to pick',
    async (): Promise<PickedModel[]> => {
      if (!isMember()) {
        const [{ models }, { upstreams }] = await Promise.all([ask(api.models.get()), ask(api.upstreams.get())])
        const locals = new Set(upstreams.flatMap(({ id, local, enabled }) => (local && enabled ? [id] : [])))
        return models
          .filter(({ enabled }) => enabled)
          .map((model) => ({
            ...model,
            isLocal: model.routes.some(({ upstream, enabled }) => enabled && locals.has(upstream)),
          }))
      }
      const { models } = await ask(api.own.models.get())
      const unknown = { reason: null, isLocal: false }
      return models.map(({ id, name, pricing, is_ready }) => ({ slug: id, name, pricing, is_ready, ...unknown }))
    },
    everyMs === undefined ? {} : { everyMs },
  )

/** @param ids keys to read, or null for all. */
export const useDays = (ids: readonly string[] | null) =>
  useLoaded(
    `keys by day?${ids ?? ''}`,
    async () => {
      if (ids?.length === 0) return toDays([], nowMs.value)
      const of = ids === null ? {} : { key: [...ids] }
      const query = { ...of, by: 'key,day', since: `${DAYS}d`, limit: MAX_ROWS, figures: 'spend' as const }
      const { usage } = await ask(isMember() ? api.own.usage.get({ query }) : api.usage.get({ query }))
      return toDays(usage, nowMs.value)
    },
    { everyMs: SLOW_MS },
  )

/** Newest first. */
export const useLastRequests = (key: string) =>
  useLoaded(
    `requests?key=${key}&limit=5`,
    async () => {
      const query = { key, limit: 5 }
      return (await ask(isMember() ? api.own.requests.get({ query }) : api.requests.get({ query }))).requests
    },
    { everyMs: FRESH_MS },
  )

/** The result has the secret, which no later response has. */
export function makeKey(values: Values) {
  const body = KEY_FORM.toBody(values, nowMs.value, isMember())
  return change(ask(isMember() ? api.own.keys.post(body) : api.keys.post(body)), 'keys')
}

/** @param before the key that the values are based on. */
export function editKey(before: KeyDocument, values: Values) {
  const { id, revision } = before
  const key = isMember() ? api.own.keys({ id }) : api.keys({ id })
  return change(ask(key.patch(KEY_FORM.toPatch(values, before, nowMs.value, isMember()), ifMatch(revision))), 'keys')
}

/** @param overlap how long the old secret keeps working, such as `24h`. */
export function rotateKey({ id, revision }: KeyDocument, overlap: string) {
  const key = isMember() ? api.own.keys({ id }) : api.keys({ id })
  return change(ask(key.rotate.post({ overlap }, ifMatch(revision))), 'keys')
}

/** The secrets before the newest stop working now. */
export function endOverlap({ id, revision }: KeyDocument) {
  const key = isMember() ? api.own.keys({ id }) : api.keys({ id })
  return change(ask(key['end-overlap'].post(undefined, ifMatch(revision))), 'keys')
}

export function revokeKey(id: string) {
  const key = isMember() ? api.own.keys({ id }) : api.keys({ id })
  return change(ask(key.revoke.post()), 'keys')
}

/** A model that the key can call, ready ones first; null if there is none. */
export async function findModel(secret: string): Promise<UsableModel | null> {
  const response = await fetch('/v1/models', { headers: { authorization: `Bearer ${secret}` } }).catch(() => null)
  if (!response?.ok) return null
  const { data }: { data: (UsableModel & { is_ready: boolean })[] } = await response.json()
  const ready = data.filter(({ is_ready }) => is_ready)
  return ready.find(({ output_modalities: made }) => endpointsOf(made).includes('chat')) ?? ready[0] ?? data[0] ?? null
}

export interface UsableModel {
  id: string
  output_modalities: readonly string[]
}
