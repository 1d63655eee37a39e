/** Data of users, for owners, and of sessions, for everyone. */
import type { Role } from '../../domain/roles.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { change, useLoaded } from '../api/loaded.ts'
import { Refusal } from '../api/refusal.ts'
import { toChangedFields } from '../keys/values.ts'

const FRESH_MS = 15_000

const readPeople = async () => (await ask(api.admins.get())).admins

export const usePeople = () => useLoaded('people', readPeople, { everyMs: FRESH_MS })

export type Person = NonNullable<ReturnType<typeof usePeople>['data']>[number]

/** @throws a Refusal. */
export async function readPerson(id: string): Promise<Person> {
  const found = (await readPeople()).find((one) => one.id === id)
  if (found) return found
  throw new Refusal('This user no longer exists.', 'admin_not_found')
}

/** Owners get the sessions of all users. */
export const useSessions = () =>
  useLoaded('sessions', async () => (await ask(api.sessions.get())).sessions, { everyMs: FRESH_MS })

export type PersonSession = NonNullable<ReturnType<typeof useSessions>['data']>[number]

export const NEW_PERSON = {
  role: 'viewer',
  /** The ID of a team; members only. */
  team: '',
}

export type PersonValues = typeof NEW_PERSON

const toBody = ({ role, team }: PersonValues) => ({
  role: role as Role,
  team: role === 'member' && team !== '' ? team : null,
})

/** The result has the invite code, which no later response has. */
export const invite = ({ name, ...values }: PersonValues & { name: string }) =>
  change(ask(api.admins.post({ name: name.trim(), ...toBody(values) })), 'people')

export function editPerson({ id, revision, role, team_id }: Person, values: PersonValues) {
  const body = toChangedFields(toBody(values), { role, team: team_id })
  return change(ask(api.admins({ id }).patch(body, ifMatch(revision))), 'people', 'keys')
}

export const disable = ({ id, revision }: Person, disabled: boolean) =>
  change(ask(api.admins({ id }).patch({ disabled }, ifMatch(revision))), 'people', 'sessions', 'keys')

/** Replaces the invite code. */
export const inviteAgain = (id: string) => change(ask(api.admins({ id }).invite.post()), 'people')

export const endSession = (id: string) => change(ask(api.sessions({ id }).delete()), 'sessions')

export const changePassword = (values: { old: string; password: string }) =>
  change(ask(api.password.post(values)), 'sessions')
