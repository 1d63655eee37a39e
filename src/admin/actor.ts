/** Who is on record for what the admin API changes, and the state that they made the change from. */
import type { Principal } from '../identity/principal.ts'
import type { Actor } from '../store/config-store.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'

/**
 * Makes the actor of a change, as of now, and counts the change. Throws `too_many_changes`.
 *
 * @param request whose `If-Match` names the revision that is edited (RFC 9110, section 13.1.1); left out where nothing is edited.
 */
export const actors =
  ({ now, changes }: Pick<AdminDeps, 'now' | 'changes'>) =>
  (principal: Pick<Principal, 'id' | 'role'>, request?: Request): Actor => {
    const nowMs = now()
    changes.take(principal, nowMs)
    const revision = request && toRevision(request.headers.get('if-match'))
    return { actor: principal.id, nowMs, ...(revision ? { revision } : {}) }
  }

/** Null for `*`, which any state is. Throws `invalid`. */
function toRevision(header: string | null): string | null {
  if (header === null || header.trim() === '*') return null
  const revision = /^\s*"?([0-9a-f]{16})"?\s*$/.exec(header)?.[1]
  if (revision !== undefined) return revision
  throw new AdminError(400, 'invalid', 'The header if-match must be one revision in quotes, as documents have it.')
}
