/** What the pages of the server's settings read, and what they have done. */
import { api, ask, ifMatch } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { toExpiry } from '../keys/values.ts'

/** Each with the revision of all of them. */
export const useSettings = () =>
  useLoaded('settings', async () => {
    const { revision, settings } = await ask(api.settings.get())
    return settings.map((setting) => ({ ...setting, revision }))
  })

export type Setting = NonNullable<ReturnType<typeof useSettings>['data']>[number]

/** @param text null: its default. */
export async function editSetting({ name, revision }: Setting, text: string | null) {
  await ask(api.settings.patch({ [name]: text }, ifMatch(revision)))
  await reloadAll('settings')
}

const STATUS_MS = 5_000

export const useStatus = () => useLoaded('status', () => ask(api.status.get()), { everyMs: STATUS_MS })

const BACKUPS_MS = 3_000

/** Newest first. */
export const useBackups = () =>
  useLoaded(
    'backups',
    async () => {
      const { backups, ...state } = await ask(api.backups.get())
      return { backups: backups.toSorted((a, b) => b.made_ms - a.made_ms), ...state }
    },
    { everyMs: BACKUPS_MS },
  )

export async function makeBackup() {
  await ask(api.backups.post())
  await reloadAll('backups')
}

export const useTokens = () => useLoaded('tokens', async () => (await ask(api.tokens.get())).tokens)

export type Token = NonNullable<ReturnType<typeof useTokens>['data']>[number]

interface TokenValues {
  name: string
  scope: string
  expires_ms: string
  expires_on: string
}

/** With its secret, which no later answer has. */
export async function makeToken({ name, scope, ...ends }: TokenValues) {
  const expiresMs = toExpiry(ends, Date.now()) ?? null
  const body = { name: name.trim(), scope: scope === 'write' ? ('write' as const) : ('read' as const) }
  const made = await ask(api.tokens.post({ ...body, expires_ms: expiresMs }))
  await reloadAll('tokens')
  return made
}

export async function revokeToken(id: string) {
  await ask(api.tokens({ id }).revoke.post())
  await reloadAll('tokens')
}
