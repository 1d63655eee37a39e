/** The current user and their permissions. */
import { signal } from '@preact/signals'
import { ROLES, type Role, type SignInMethod } from '../../domain/roles.ts'

type Session =
  | { state: 'unknown' }
  /** `isSetUp`: false before the first owner exists. */
  | { state: 'out'; isSetUp: boolean }
  | { state: 'in'; name: string; role: Role; hasPassword: boolean }

export const session = signal<Session>({ state: 'unknown' })

/** True while the session has ended and its page waits behind the sign-in dialog. */
export const hasEnded = signal(false)

export function endSession(): void {
  if (session.value.state === 'in') hasEnded.value = true
}

export const ways = signal<readonly SignInMethod[]>(['password'])

/** Null if signed out. */
const roleOf = (): Role | null => (session.value.state === 'in' ? session.value.role : null)

/** True if passkeys work at this page's origin. */
export const takesPasskeys = signal(false)

/** True for members, who see only their own keys. */
export const isMember = (): boolean => roleOf() === 'member'

/** True if the user can use the playground. */
export const mayTry = (): boolean => roleOf() !== null && roleOf() !== 'viewer'

/** True if the user has at least this role. */
export function may(least: Role): boolean {
  const { value } = session
  return value.state === 'in' && ROLES.indexOf(value.role) <= ROLES.indexOf(least)
}
