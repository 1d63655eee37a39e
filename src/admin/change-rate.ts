/**
 * How many changes one person, or one token, may make: each is a transaction with an audit row, and most have the server read its
 * configuration again, so that a loop would slow down everybody. What ends sessions is not counted: nobody can be kept from that. In memory.
 */
import type { Role } from '../domain/roles.ts'
import type { Principal } from '../identity/principal.ts'
import { isOperator } from './access.ts'
import { AdminError } from './errors.ts'

/** At once, and then spread over a minute. Scripts of editors set up whole teams; a member has a few keys. */
const PER_MINUTE: Readonly<Record<Role, number>> = { member: 30, viewer: 30, editor: 300, owner: 300 }
const MINUTE_MS = 60_000

interface Bucket {
  left: number
  atMs: number
}

export class ChangeRate {
  /** By the ids of administrators and tokens, of which there are only so many. */
  readonly #buckets = new Map<string, Bucket>()

  /** Counts a change; the operator may make any number. Throws `too_many_changes`. */
  take({ id, role }: Pick<Principal, 'id' | 'role'>, nowMs: number): void {
    if (isOperator({ id })) return
    const most = PER_MINUTE[role]
    const { left, atMs } = this.#buckets.get(id) ?? { left: most, atMs: nowMs }
    const filled = Math.min(most, left + (Math.max(0, nowMs - atMs) * most) / MINUTE_MS)
    if (filled >= 1) {
      this.#buckets.set(id, { left: filled - 1, atMs: nowMs })
      return
    }
    // A clock that was set back is gone by from here on.
    this.#buckets.set(id, { left: filled, atMs: nowMs })
    const seconds = Math.ceil(((1 - filled) * MINUTE_MS) / most / 1_000)
    const message = `You can make at most ${most} changes per minute. Nothing was changed. Try again in ${seconds} s.`
    throw new AdminError(429, 'too_many_changes', message, { 'retry-after': String(seconds) })
  }
}
