/** Changes through the admin API: their actor and revision, the rate limit per user, and the reload before the response. */
import type { Role } from '../domain/roles.ts'
import type { Principal } from '../identity/principal.ts'
import type { Actor } from '../store/config-store.ts'
import { isOperator } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'

/**
 * Counts a change and returns its actor. Throws `too_many_changes`.
 *
 * @param request has the edited revision in `If-Match` (RFC 9110, section 13.1.1); omit if nothing is edited
 */
export const actors =
  ({ now, changes }: Pick<AdminDeps, 'now' | 'changes'>) =>
  (principal: Pick<Principal, 'id' | 'role'>, request?: Request): Actor => {
    const nowMs = now()
    changes.take(principal, nowMs)
    const revision = request && toRevision(request.headers.get('if-match'))
    return { actor: principal.id, nowMs, ...(revision ? { revision } : {}) }
  }

/** Null for `*`, which matches any state. Throws `invalid`. */
function toRevision(header: string | null): string | null {
  if (header === null || header.trim() === '*') return null
  const revision = /^\s*"?([0-9a-f]{16})"?\s*$/.exec(header)?.[1]
  if (revision !== undefined) return revision
  throw new AdminError(400, 'invalid', 'The header if-match must be one revision in quotes, as returned by the API.')
}

/** Bucket sizes, refilled over a minute. Scripts of editors set up whole teams; a member has a few keys. */
const PER_MINUTE: Readonly<Record<Role, number>> = { member: 30, viewer: 30, editor: 300, owner: 300 }
const MINUTE_MS = 60_000

interface Bucket {
  left: number
  atMs: number
}

export class ChangeRate {
  /** By user or token ID, of which there are few. */
  readonly #buckets = new Map<string, Bucket>()

  /** Not limited for the operator. Throws `too_many_changes`. */
  take({ id, role }: Pick<Principal, 'id' | 'role'>, nowMs: number): void {
    if (isOperator({ id })) return
    const most = PER_MINUTE[role]
    const { left, atMs } = this.#buckets.get(id) ?? { left: most, atMs: nowMs }
    const filled = Math.min(most, left + (Math.max(0, nowMs - atMs) * most) / MINUTE_MS)
    if (filled >= 1) {
      this.#buckets.set(id, { left: filled - 1, atMs: nowMs })
      return
    }
    // Also handles a clock that was set back.
    this.#buckets.set(id, { left: filled, atMs: nowMs })
    const seconds = Math.ceil(((1 - filled) * MINUTE_MS) / most / 1_000)
    const message = `You can make at most ${most} changes per minute. Nothing was changed. Try again in ${seconds} s.`
    throw new AdminError(429, 'too_many_changes', message, { 'retry-after': String(seconds) })
  }
}

/** Applies a change to new requests. If reading fails, the server logs it and retries. */
export const takeIn = (serving: AdminDeps['serving']): Promise<void> => serving.refresh().catch(() => {})

/** Hook of controllers whose changes affect requests. */
export const inForce =
  ({ serving }: Pick<AdminDeps, 'serving'>) =>
  async ({ request }: { request: Request }): Promise<void> => {
    if (request.method === 'GET') return
    await takeIn(serving)
  }
