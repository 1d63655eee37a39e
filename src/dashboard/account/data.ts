/** Passkeys of whoever has signed in. */
import { makePasskey } from '../api/authenticator.ts'
import { api, ask } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'

export const usePasskeys = () => useLoaded('passkeys', async () => (await ask(api.passkeys.get())).passkeys)

export type Passkey = NonNullable<ReturnType<typeof usePasskeys>['data']>[number]

/** Has the browser make one, for whoever knows the password. */
export async function addPasskey({ name, password }: { name: string; password: string }) {
  const { options } = await ask(api.passkeys.options.post({ password }))
  const response = await makePasskey(options)
  const added = await ask(api.passkeys.post({ name: name.trim(), response }))
  await reloadAll('passkeys')
  return added
}

export async function renamePasskey(id: string, name: string) {
  await ask(api.passkeys({ id }).patch({ name: name.trim() }))
  await reloadAll('passkeys')
}

export async function removePasskey(id: string) {
  await ask(api.passkeys({ id }).delete())
  await reloadAll('passkeys')
}
