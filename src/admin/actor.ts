/** Who is on record for what the admin API changes. */
import type { Principal } from '../identity/principal.ts'
import type { Actor } from '../store/config-store.ts'
import type { AdminDeps } from './deps.ts'

/** Makes the actor of a change, as of now. */
export const actors =
  ({ now }: Pick<AdminDeps, 'now'>) =>
  ({ id }: Pick<Principal, 'id'>): Actor => ({ actor: id, nowMs: now() })
