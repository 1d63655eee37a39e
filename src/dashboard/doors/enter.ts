/** The ways in and out: each ends with a session that pages go by. */
import { address, open } from '../address/address.ts'
import { usePasskey } from '../api/authenticator.ts'
import { api, ask } from '../api/client.ts'
import { session, takesPasskeys, ways } from '../api/session.ts'

/** Finds out who has signed in. */
export async function loadSession(): Promise<void> {
  const found = await ask(api.session.get())
  ways.value = found.ways
  takesPasskeys.value = found.passkeys
  session.value =
    found.name === null
      ? { state: 'out', isSetUp: found.is_set_up }
      : { state: 'in', name: found.name, role: found.role, hasPassword: found.has_password }
  if (found.name !== null) openWished()
}

/** Where an identity provider is set up, a browser goes there. */
export const PROVIDER_HREF = '/admin/api/oidc'
const WISHED = 'tollgate-wished'

/** Keeps which page was asked for, for when the browser comes back from an identity provider, to the first one. */
export function keepWished(wished: string): void {
  sessionStorage.setItem(WISHED, wished)
}

function openWished(): void {
  const wished = sessionStorage.getItem(WISHED)
  sessionStorage.removeItem(WISHED)
  if (wished !== null && address.value.path === '/') open(wished, { replace: true })
}

export interface Credentials {
  name: string
  password: string
}

export async function signIn(credentials: Credentials): Promise<void> {
  await ask(api.session.post(credentials))
  await loadSession()
}

/** By a passkey that the browser finds: it knows whose it is. */
export async function signInByPasskey(): Promise<void> {
  const { options } = await ask(api.session.passkey.options.post())
  const response = await usePasskey(options)
  await ask(api.session.passkey.post({ response }))
  await loadSession()
}

/** Makes the first owner, by the code of the server's start or of `tollgate admin code`. */
export async function setUp(credentials: Credentials & { code: string }): Promise<void> {
  await ask(api.setup.post(credentials))
  await loadSession()
}

/** Sets a password by the code of an invitation, or of a reset. */
export async function useCode(credentials: Credentials & { code: string }): Promise<void> {
  await ask(api.code.post(credentials))
  await loadSession()
}

export async function signOut(): Promise<void> {
  await ask(api.session.delete())
  session.value = { state: 'out', isSetUp: true }
}
