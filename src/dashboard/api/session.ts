/** Who has signed in, and what they may do. */
import { signal } from '@preact/signals'
import { ROLES, type Role, type Way } from '../../domain/roles.ts'

export type Session =
  | { state: 'unknown' }
  /** Nobody: before the first owner is made there is nobody to sign in as. */
  | { state: 'out'; isSetUp: boolean }
  | { state: 'in'; name: string; role: Role }

export const session = signal<Session>({ state: 'unknown' })

/** How people sign in here. */
export const ways = signal<readonly Way[]>(['password'])

/** Whether it is a member: somebody who has keys of their own and sees nobody else's. */
export const isMember = (): boolean => session.value.state === 'in' && session.value.role === 'member'

/** Whether whoever has signed in may do what is for this role and those above it. */
export function may(least: Role): boolean {
  const { value } = session
  return value.state === 'in' && ROLES.indexOf(value.role) <= ROLES.indexOf(least)
}
