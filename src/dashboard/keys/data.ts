/** What the pages of keys read, and what they have done. After a change, what is open is read again. */
import { api, ask } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { type KeyValues, toBody } from './form-values.ts'

const FRESH_MS = 15_000

export const useKeys = () => useLoaded('keys', async () => (await ask(api.keys.get())).keys, { everyMs: FRESH_MS })

export const useKey = (id: string, everyMs = FRESH_MS) =>
  useLoaded(`keys/${id}`, () => ask(api.keys({ id }).get()), { everyMs })

export const useTeams = () => useLoaded('teams', async () => (await ask(api.teams.get())).teams)

export const useModels = () => useLoaded('models', async () => (await ask(api.models.get())).models)

/** With its secret, which no later answer has. */
export async function makeKey(values: KeyValues) {
  const made = await ask(api.keys.post(toBody(values, Date.now())))
  await reloadAll('keys')
  return made
}

export async function editKey(id: string, values: KeyValues) {
  await ask(api.keys({ id }).patch(toBody(values, Date.now())))
  await reloadAll('keys')
}

/** @param overlap how long what was there before still holds, such as `24h`. */
export async function rotateKey(id: string, overlap: string) {
  const made = await ask(api.keys({ id }).rotate.post({ overlap }))
  await reloadAll('keys')
  return made
}

export async function revokeKey(id: string) {
  await ask(api.keys({ id }).revoke.post())
  await reloadAll('keys')
}

/** A model that whoever has the secret may ask, by the answer of the API that clients ask; null where there is none. */
export async function findModel(secret: string): Promise<string | null> {
  const response = await fetch('/v1/models', { headers: { authorization: `Bearer ${secret}` } }).catch(() => null)
  if (!response?.ok) return null
  const { data }: { data: { id: string; is_ready: boolean }[] } = await response.json()
  return (data.find(({ is_ready }) => is_ready) ?? data[0])?.id ?? null
}
