/** Checks whether the user of an open page is still signed in, and continues once they are again. */
import { discardPage } from '../address/address.ts'
import { api, ask } from './client.ts'
import { returns } from './connection.ts'
import { endSession, hasEnded, session } from './session.ts'

/** @throws a Refusal. */
export async function resume(): Promise<void> {
  const { value: before } = session
  if (before.state !== 'in') return
  const found = await ask(api.session.get())
  if (found.name === null) return endSession()
  // No data of one user, or role, may stay for another.
  if (found.name !== before.name || found.role !== before.role) return discardPage()
  if (!hasEnded.value) return
  hasEnded.value = false
  returns.value++
}

const look = () => {
  if (!document.hidden) resume().catch(() => {})
}

/** Another tab or window may have signed out, or in as someone else. */
document.addEventListener('visibilitychange', look)
addEventListener('focus', look)
