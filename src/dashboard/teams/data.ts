/** Data of the team pages. A change reloads what is open. */
import type { TeamDocument } from '../../documents/key.ts'
import { toSpentTeams } from '../../keys/standing.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { nowMs } from '../api/clock.ts'
import { change, useLoaded } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { TEAM_FORM, type Values } from '../keys/values.ts'

const FRESH_MS = 15_000

/** Empty for members, who can't list teams. */
export const useTeams = () =>
  useLoaded('teams', async () => (isMember() ? [] : (await ask(api.teams.get())).teams), { everyMs: FRESH_MS })

/** IDs of those whose budget is spent; for members, of their own team. */
export const useSpentTeams = (): ReadonlySet<string> =>
  toSpentTeams(
    useLoaded(
      isMember() ? 'teams/own' : 'teams',
      async () => (isMember() ? [await ask(api.own.team.get())] : (await ask(api.teams.get())).teams),
      { everyMs: FRESH_MS },
    ).data ?? [],
  )

/** With its keys. */
export const readTeam = (id: string) => ask(api.teams({ id }).get())

export const useTeam = (id: string) => useLoaded(`teams/${id}`, () => readTeam(id), { everyMs: FRESH_MS })

export const makeTeam = (values: Values) => change(ask(api.teams.post(TEAM_FORM.toBody(values, nowMs.value))), 'teams')

/** @param before the team that the values are based on. */
export function editTeam(before: TeamDocument, values: Values) {
  const { id, revision } = before
  return change(
    ask(api.teams({ id }).patch(TEAM_FORM.toPatch(values, before, nowMs.value), ifMatch(revision))),
    'teams',
    'keys',
  )
}
