/** Data of the settings pages. */
import { api, ask, ifMatch } from '../api/client.ts'
import { nowMs } from '../api/clock.ts'
import { change, useLoaded } from '../api/loaded.ts'
import { Refusal } from '../api/refusal.ts'
import { type NEW_EXPIRY, toExpiry } from '../keys/values.ts'
import { type TargetValues, toNewTarget } from './words.ts'

/** Each has the revision of the whole list. */
export const useSettings = () => useLoaded('settings', readSettings)

async function readSettings() {
  const { revision, settings } = await ask(api.settings.get())
  return settings.map((setting) => ({ ...setting, revision }))
}

/** @throws a Refusal. */
export async function readSetting(wanted: string): Promise<Setting> {
  const found = (await readSettings()).find(({ name }) => name === wanted)
  if (found) return found
  throw new Refusal('The server no longer has this setting.', 'unknown')
}

export type Setting = NonNullable<ReturnType<typeof useSettings>['data']>[number]

/** @param text null resets to the default. */
export const editSetting = ({ name, revision }: Setting, text: string | null) =>
  change(ask(api.settings.patch({ [name]: text }, ifMatch(revision))), 'settings')

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

export const makeBackup = () => change(ask(api.backups.post()), 'backups')

export const useTokens = () => useLoaded('tokens', async () => (await ask(api.tokens.get())).tokens)

export type Token = NonNullable<ReturnType<typeof useTokens>['data']>[number]

/** The result has the secret, which no later response has. */
export function makeToken({ name, scope, ...ends }: typeof NEW_EXPIRY & { name: string; scope: string }) {
  const expiresMs = toExpiry(ends, nowMs.value) ?? null
  const body = { name: name.trim(), scope: scope === 'write' ? ('write' as const) : ('read' as const) }
  return change(ask(api.tokens.post({ ...body, expires_ms: expiresMs })), 'tokens')
}

export const revokeToken = (id: string) => change(ask(api.tokens({ id }).revoke.post()), 'tokens')

const ALERTS_MS = 5_000

export const useTargets = () =>
  useLoaded('alerts', async () => (await ask(api.alerts.get())).targets, { everyMs: ALERTS_MS })

export type Target = NonNullable<ReturnType<typeof useTargets>['data']>[number]

/** Newest first. */
export const useDeliveries = () =>
  useLoaded('alerts/deliveries', async () => (await ask(api.alerts.deliveries.get({ query: {} }))).deliveries, {
    everyMs: ALERTS_MS,
  })

export type Delivery = NonNullable<ReturnType<typeof useDeliveries>['data']>[number]

/** The result has the signing secret, which no later response has. */
export const addTarget = (values: TargetValues) => change(ask(api.alerts.post(toNewTarget(values))), 'alerts')

export const removeTarget = (id: string) => change(ask(api.alerts({ id }).delete()), 'alerts', 'alerts/deliveries')

export const testTarget = (id: string) => change(ask(api.alerts({ id }).test.post()), 'alerts', 'alerts/deliveries')
