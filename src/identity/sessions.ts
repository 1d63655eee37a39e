/** Sessions, as whoever they are of may list and end them. An owner may end everybody's. */
import { ServiceError } from '../domain/service-error.ts'
import type { Actor } from '../store/config-store.ts'
import type { IdentityStore, StoredSession } from '../store/identity-store.ts'
import { forgetOver } from './principal.ts'

/** Those in force, latest use first: of one administrator, or of all. */
export async function listSessions(store: IdentityStore, adminId: string | undefined, nowMs: number) {
  await forgetOver(store, nowMs)
  return store.readSessions(adminId)
}

/** @param ofAdminId whose it must be; null = anybody's. Throws `session_not_found`. */
export async function endSession(
  store: IdentityStore,
  id: string,
  ofAdminId: string | null,
  by: Actor,
): Promise<StoredSession> {
  const found = (await store.readSessions(ofAdminId ?? undefined)).find((session) => session.id === id)
  if (!found) throw new ServiceError({ kind: 'session_not_found' }, 'There is no such session: it may have ended.')
  return store.changeIdentity(by, ({ admins }) => {
    const { name } = admins.find((admin) => admin.id === found.adminId) ?? {}
    const detail = { name, address: found.address }
    return {
      value: found,
      change: { action: 'sessions.end', subject: found.adminId, detail, write: { end: { ids: [id] } } },
    }
  })
}
