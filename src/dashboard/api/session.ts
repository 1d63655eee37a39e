/** Who has signed in, and what they may do. */
import { signal } from '@preact/signals'
import { ROLES, type Role, type SignInMethod } from '../../domain/roles.ts'

type Session =
  | { state: 'unknown' }
  /** Nobody: before the first owner is made there is nobody to sign in as. `isOver`: a session has ended that nobody signed out of. */
  | { state: 'out'; isSetUp: boolean; isOver?: boolean }
  | { state: 'in'; name: string; role: Role; hasPassword: boolean }

export const session = signal<Session>({ state: 'unknown' })

/** The server knows the session no more. */
export function endSession(): void {
  session.value = { state: 'out', isSetUp: true, isOver: true }
}

/** How people sign in here. */
export const ways = signal<readonly SignInMethod[]>(['password'])

/** Null for nobody. */
export const roleOf = (): Role | null => (session.value.state === 'in' ? session.value.role : null)

/** Whether passkeys sign in at the address that the page has. */
export const takesPasskeys = signal(false)

/** Whether it is a member: somebody who has keys of their own and sees nobody else's. */
export const isMember = (): boolean => roleOf() === 'member'

/** Whether whoever has signed in may chat in the playground. */
export const mayTry = (): boolean => roleOf() !== null && roleOf() !== 'viewer'

/** Whether whoever has signed in may do what is for this role and those above it. */
export function may(least: Role): boolean {
  const { value } = session
  return value.state === 'in' && ROLES.indexOf(value.role) <= ROLES.indexOf(least)
}
