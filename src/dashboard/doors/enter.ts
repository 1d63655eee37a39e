/** The ways in and out: each ends with a session that pages go by. */
import { api, ask } from '../api/client.ts'
import { forgetAll } from '../api/loaded.ts'
import { session } from '../api/session.ts'

/** Finds out who has signed in. */
export async function loadSession(): Promise<void> {
  const found = await ask(api.session.get())
  session.value =
    found.name === null
      ? { state: 'out', isSetUp: found.is_set_up }
      : { state: 'in', name: found.name, role: found.role }
}

export interface Credentials {
  name: string
  password: string
}

export async function signIn(credentials: Credentials): Promise<void> {
  await ask(api.session.post(credentials))
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
  forgetAll()
  session.value = { state: 'out', isSetUp: true }
}
