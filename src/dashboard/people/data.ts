/** What owners read of those who sign in, and what they have done; and what everybody reads of their own sessions. */
import type { Role } from '../../domain/roles.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { toChangedFields } from '../keys/values.ts'

const FRESH_MS = 15_000

export const usePeople = () =>
  useLoaded('people', async () => (await ask(api.admins.get())).admins, { everyMs: FRESH_MS })

export type Person = NonNullable<ReturnType<typeof usePeople>['data']>[number]

/** To owners, everybody's. */
export const useSessions = () =>
  useLoaded('sessions', async () => (await ask(api.sessions.get())).sessions, { everyMs: FRESH_MS })

export type PersonSession = NonNullable<ReturnType<typeof useSessions>['data']>[number]

export const NEW_PERSON = {
  role: 'viewer',
  /** A team's id; of a member alone. */
  team: '',
}

export type PersonValues = typeof NEW_PERSON

const toBody = ({ role, team }: PersonValues) => ({
  role: role as Role,
  team: role === 'member' && team !== '' ? team : null,
})

/** With the code that lets them set a password, which no later answer has. */
export async function invite({ name, ...values }: PersonValues & { name: string }) {
  const invited = await ask(api.admins.post({ name: name.trim(), ...toBody(values) }))
  await reloadAll('people')
  return invited
}

/** @param before as they were when the form was opened. */
export async function editPerson({ id, revision, role, team_id }: Person, values: PersonValues) {
  const body = toChangedFields(toBody(values), { role, team: team_id })
  const edited = await ask(api.admins({ id }).patch(body, ifMatch(revision)))
  await Promise.all([reloadAll('people'), reloadAll('keys')])
  return edited
}

/** @param before as they were when that was asked. */
export async function disable({ id, revision }: Person, disabled: boolean) {
  const edited = await ask(api.admins({ id }).patch({ disabled }, ifMatch(revision)))
  await Promise.all([reloadAll('people'), reloadAll('sessions'), reloadAll('keys')])
  return edited
}

/** Once more, with a new code. */
export async function inviteAgain(id: string) {
  const coded = await ask(api.admins({ id }).invite.post())
  await reloadAll('people')
  return coded
}

export async function endSession(id: string) {
  await ask(api.sessions({ id }).delete())
  await reloadAll('sessions')
}

export async function changePassword(values: { old: string; password: string }) {
  await ask(api.password.post(values))
  await reloadAll('sessions')
}
